"""Heads over an encoder."""
