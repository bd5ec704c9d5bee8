"""A page of all runs of a run store, that opens from its folder without a network."""
