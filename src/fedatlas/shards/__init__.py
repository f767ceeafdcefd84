"""Partitions: samples cut into Parquet files by client, party or silo, with a manifest."""
