"""The atlas: all traces joined in one file, and what can be read off it across papers."""

FORMAT = "fedatlas atlas 1"  # of atlas files
