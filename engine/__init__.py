"""What carries one run: plan, validation, trainer, processes, results, finished runs."""

from engine.resolvers import register

register()  # whoever reads a config comes by here
