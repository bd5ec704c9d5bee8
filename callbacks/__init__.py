"""Watchers of a training. They work through the dicts that a module's steps return, never through a concrete method.

Each is built with ``run`` (the `RunFolder` it writes into) and ``protocol`` (its ``monitor`` and ``mode`` say which
figure chooses the epoch); the rest of its arguments stand in ``conf/callbacks``.
"""
