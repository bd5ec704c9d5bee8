"""Texts: rows of words, as tokens."""
