"""Methods for no labels or few: they read the names of the classes and the texts without labels."""
