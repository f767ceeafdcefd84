"""From raw files to prepared Parquet."""
