"""Files that appear whole or not at all, and the store of finished runs."""
