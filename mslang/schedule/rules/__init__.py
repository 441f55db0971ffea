"""Rules of the library that are written in Python: what makes schedules for programs that have none."""
