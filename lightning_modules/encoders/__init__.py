"""Encoders: texts, or images, to embeddings."""
