"""What `run.py` can do with a config; the one layer that joins data, methods, callbacks and the run store."""
