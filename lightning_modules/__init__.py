"""One module per method over a shared encoder."""
