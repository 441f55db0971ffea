"""The set of keys that were drawn: equal to Python's sets."""

import numpy as np

from mslang.search.seen import BITS, Seen


def test_it_is_a_set() -> None:
    rng = np.random.default_rng(0)
    seen, expected = Seen(), set[int]()
    for n in (1, 100, 0, 3000, 3000, 50):
        keys = rng.integers(0, 5000, n).astype(np.uint64)
        found = seen.new(keys)
        for key, new in zip(keys.tolist(), found.tolist(), strict=True):
            assert new == (key not in expected)
            expected.add(key)
        assert len(seen) == len(expected)


def test_keys_that_share_a_place_in_the_table_are_told_apart() -> None:
    """More keys than the table has places of its own for."""
    seen, keys = Seen(), np.arange(40_000, dtype=np.uint64) << np.uint64(BITS)
    assert seen.new(keys).all()
    assert not seen.new(keys[::-1]).any()
    assert seen.new(keys + np.uint64(1)).all()
