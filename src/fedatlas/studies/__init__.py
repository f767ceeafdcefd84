"""Studies besides training: landscapes, leaks, budgets, attacks."""
