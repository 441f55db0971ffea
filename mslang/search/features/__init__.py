"""Features of candidates, for cost models."""
