"""A record store of one's own."""
