"""Parties that hold columns of all samples."""
