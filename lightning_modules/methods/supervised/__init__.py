"""Methods that learn from one label a text."""
