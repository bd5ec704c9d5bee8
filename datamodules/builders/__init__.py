"""One class a data set: where its files are, and how they become rows."""
