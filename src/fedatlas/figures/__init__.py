"""Figures drawn from traces."""
