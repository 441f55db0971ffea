"""A back end of one's own."""
