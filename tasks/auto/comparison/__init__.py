"""How candidates are tried within the minutes: the study that is kept, the order, and who still has time."""
