"""A library call of one's own for mslang."""
