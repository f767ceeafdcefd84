"""The atlas: all traces in one file, and comparisons across papers."""

FORMAT = "fedatlas atlas 1"  # of atlas files
