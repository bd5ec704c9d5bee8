"""The tests, as a package: some installed packages ship a `tests` of their own, which would hide a plain folder."""
