"""A search strategy and a mutator of one's own."""
