"""Active learning: which texts to label next."""
