"""Property tests and what they draw from."""
