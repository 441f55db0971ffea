"""Decisions as arrays: many candidates of a sketch drawn, checked and evaluated at once, in NumPy.

Everything here equals what `distribution` and `Sketch` do for one candidate at a time.
"""
