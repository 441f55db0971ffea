"""Results are kept for objects, not for what equals them, and no more of them than is said."""

from __future__ import annotations

from mslang.ir.by_identity import by_identity


def test_an_equal_object_is_another_one():
    asked: list[list[float]] = []

    @by_identity(size=8)
    def first(values: list[float]) -> str:
        asked.append(values)
        return str(values[0])

    zero, negative = [0.0], [-0.0]
    assert zero == negative
    assert [first(zero), first(negative), first(zero)] == ["0.0", "-0.0", "0.0"]
    assert len(asked) == 2


def test_what_is_dropped_is_computed_again():
    asked: list[int] = []

    @by_identity(size=2)
    def length(values: list[int]) -> int:
        asked.append(len(values))
        return len(values)

    lists = [[0] * n for n in range(5)]
    assert [length(x) for x in (*lists, *lists)] == [0, 1, 2, 3, 4] * 2
    assert asked == [0, 1, 2, 3, 4] * 2
    assert length(lists[-1]) == 4 and len(asked) == 10
