"""Convergence traces: their schema and netCDF files."""
