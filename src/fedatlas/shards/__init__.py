"""Who holds what: samples cut into Parquet by client, party or silo, with a manifest."""
