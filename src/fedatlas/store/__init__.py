"""Runs kept together, one data set an experiment: opened, compared, published, exported."""
