"""A builder and a runner of one's own."""
