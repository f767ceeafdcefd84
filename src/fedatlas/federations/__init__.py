"""Federations: who holds data and who sends to whom, one folder for each kind."""
