"""Many runs of a workload, and what was found: search, repeat, make smaller."""
