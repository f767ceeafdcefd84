"""Problems: oracles that answer gradient questions over shards and count what they cost."""
