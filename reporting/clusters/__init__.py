"""The page of a clustering."""
