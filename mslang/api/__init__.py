"""The Python API: what `import mslang as ms` offers, by what it is about."""
