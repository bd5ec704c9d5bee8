"""Images: rows of pixels, in memory-mapped tables or in files that are read batch by batch."""
