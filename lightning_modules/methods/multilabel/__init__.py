"""Methods that learn from several labels a text."""
