"""Agents with whole samples on directed graphs, without a server."""
