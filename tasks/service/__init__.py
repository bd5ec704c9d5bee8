"""The HTTP side of `task=serve`, a process of its own: it never loads torch, and shares no lock with the model."""
