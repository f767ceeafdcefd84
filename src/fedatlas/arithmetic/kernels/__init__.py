"""Compiled loops that several federations share, and how loops are compiled."""
