"""Cost models: which candidates will be fast, learned from those that were measured."""
