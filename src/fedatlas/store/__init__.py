"""Runs kept together: opened, compared, published, exported."""

FORMAT = "fedatlas atlas 1"  # of atlas files
