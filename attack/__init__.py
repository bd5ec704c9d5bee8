"""An attack on the command line: bad inputs, damaged and foreign files, kills; and figures of what came of them."""
