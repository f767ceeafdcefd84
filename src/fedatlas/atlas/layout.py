"""The format of atlas files, for writers and readers; imports nothing."""

FORMAT = "fedatlas atlas 1"
