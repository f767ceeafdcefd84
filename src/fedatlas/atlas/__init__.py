"""The atlas: all traces joined in one file, and what can be read off it across papers."""
