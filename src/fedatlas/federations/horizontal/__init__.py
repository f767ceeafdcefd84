"""Clients with whole samples around a server."""
