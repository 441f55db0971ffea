"""The primitives: pure functions from a program and arguments to a program and a map of handles."""
