"""What comes after training: the run store, metrics, statistics and tables. Reads files only and needs no torch."""
