"""Where results come from: digests checked again, and results compared with others."""
