"""What follows from the configuration: jobs, files, dependencies and digests of code."""
