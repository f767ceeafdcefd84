"""Silos that hold columns, each with clients that hold some of its samples."""
