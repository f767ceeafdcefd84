"""Stored runs, one data set an experiment: open, compare, publish, export."""
