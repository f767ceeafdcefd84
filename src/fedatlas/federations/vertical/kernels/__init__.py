"""Compiled loops of parties: secure sums, updates of blocks, and events in order of time."""
