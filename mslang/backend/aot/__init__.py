"""Ahead of time: kernels as objects and shared libraries that C programs call, with nothing of Python in them."""
