"""Origins of results: check digests again, and compare results with others."""
