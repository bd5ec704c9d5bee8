"""Many runs: the jobs of a sweep on this machine, in warm processes, on a cluster."""
