"""The one exception of the data rooms."""


class InputError(ValueError):
    """Bad input, in one line: where (key, or file and line), what was found, what is allowed."""
