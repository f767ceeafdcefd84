"""Damaged and hostile files for every parser of input from outside; see tests/test_fuzz_*.py."""
