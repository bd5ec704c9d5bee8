"""Races against peers; none is a test, and none is imported by anything else."""
