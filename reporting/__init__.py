"""What comes after training: metrics, statistics, tables, figures and pages. Reads files only and needs no torch."""
