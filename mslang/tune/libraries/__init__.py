"""Functions of NumPy and torch that compute what a program does, to be timed beside it (`mslang compare --with`)."""
