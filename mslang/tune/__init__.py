"""Tuning: searching a space, measuring candidates, keeping records."""
