"""Other questions than convergence: landscapes, leaks, budgets, attacks."""
