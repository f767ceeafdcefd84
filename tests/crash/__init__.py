"""Jobs that are killed, or fail, at every call that changes a file."""
