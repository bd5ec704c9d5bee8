"""What comes of the recommended candidate: fitted on all rows, written as a run, judged by a test file."""
