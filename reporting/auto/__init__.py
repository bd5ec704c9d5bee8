"""What `task=auto` has to say: tables of out-of-fold predictions in, ranking, figures and one HTML page out."""
