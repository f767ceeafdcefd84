"""What atlas files are recognised by; light, for writers and readers."""

FORMAT = "fedatlas atlas 1"
