"""Races against peers; none is a test, and nothing beside them but their tests imports one."""

import os

# as run.py has it: before torch is loaded, the threads wait as those of a command do
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
