"""Search strategies: which candidates of a space are worth measuring next, from what was measured so far.

A strategy knows nothing of workers, clocks or records: it proposes candidates, and is given what they cost.
"""
