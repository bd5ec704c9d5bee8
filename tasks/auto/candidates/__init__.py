"""What can be tried on the texts: declarations, what is solved without training, folds, plans of runs."""
