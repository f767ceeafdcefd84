"""Clients around a server that solve a min–max problem."""
