"""A rule of one's own for mslang."""
