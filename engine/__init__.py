"""What carries one run: plan, validation, trainer, processes, results, finished runs."""
