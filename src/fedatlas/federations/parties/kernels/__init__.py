"""Compiled steps of one party on its own block."""
