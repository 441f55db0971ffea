"""Which candidates were drawn before: a set of keys, asked of thousands at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Keys = NDArray[np.uint64]

BITS = 22
"""A table of so many bits says of most keys that they are new; only the others are looked up."""


class Seen:
    """A set of 64-bit keys.

    Keys are kept in sorted runs, of which two are merged when they are of like size: adding and looking up take time
    in proportion to the logarithm of the size, not to the size as `numpy.isin` does.

    Example:
        >>> seen = Seen()
        >>> seen.new(np.array([3, 5, 3], np.uint64))
        array([ True,  True, False])
        >>> seen.new(np.array([5, 6], np.uint64))
        array([False,  True])
    """

    def __init__(self) -> None:
        import numpy as np

        self._table = np.zeros(1 << BITS, np.bool_)
        self._runs: list[Keys] = []

    def __len__(self) -> int:
        """The number of keys."""
        return sum(map(len, self._runs))

    def new(self, keys: Keys) -> NDArray[np.bool_]:
        """Which keys are not in the set, the first of equal ones; they are added."""
        import numpy as np

        unique, first = np.unique(keys, return_index=True)
        slots = (unique * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - BITS)).astype(np.int64)
        fresh = ~self._table[slots]
        (asked,) = np.nonzero(~fresh)
        fresh[asked] = ~self._has(unique[asked])
        self._table[slots] = True
        self._add(unique[fresh])
        out = np.zeros(len(keys), np.bool_)
        out[first[fresh]] = True
        return out

    def _has(self, keys: Keys) -> NDArray[np.bool_]:
        import numpy as np

        found = np.zeros(len(keys), np.bool_)
        for run in self._runs:
            at = np.searchsorted(run, keys)
            found |= run[np.minimum(at, len(run) - 1)] == keys
        return found

    def _add(self, keys: Keys) -> None:
        import numpy as np

        if not len(keys):
            return
        self._runs.append(keys)
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            b, a = self._runs.pop(), self._runs.pop()
            self._runs.append(np.sort(np.concatenate([a, b]), kind="stable"))  # it merges sorted runs
