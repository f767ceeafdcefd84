"""Prepare data: from raw files to Parquet."""
