"""A primitive of one's own for mslang."""
