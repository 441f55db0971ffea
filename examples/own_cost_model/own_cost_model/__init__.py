"""A cost model and features of one's own."""
