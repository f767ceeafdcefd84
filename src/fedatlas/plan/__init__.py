"""From configuration to jobs, files, dependencies and digests of code."""
