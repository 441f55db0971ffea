"""Rules of the library that are written in Python: they schedule programs without a schedule."""
