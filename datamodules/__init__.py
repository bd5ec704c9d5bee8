"""Source files -> rows -> tokens -> batches."""
