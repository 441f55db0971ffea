"""The shadow memory finds a race exactly where comparing every pair of accesses does."""

from __future__ import annotations

from itertools import combinations
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from mslang.backend.reference.faults import Checker, Fault, Level, Site


class Access(msgspec.Struct, frozen=True):
    """An access to an element; `inside` are (loop, execution, iteration) of the concurrent loops around it."""

    element: int
    write: bool
    inside: tuple[tuple[str, int, int], ...]


class Run:
    """A random run of nested concurrent loops, noted pair by pair and given to a checker at once."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.accesses: list[Access] = []
        self.checker = Checker([Site("x", False, "b"), Site("x", True, "b")])
        self.private = frozenset("a") if self.random.random() < 0.3 else frozenset[str]()
        self.shadow = self.checker.shadow((3,), sorted(self.private))
        self.executions = 0
        self.fault: int | None = None
        self.body(0, (), ())

    def body(self, number: int, levels: tuple[Level, ...], inside: tuple[tuple[str, int, int], ...]) -> None:
        for _ in range(self.random.randint(1, 3)):
            if len(levels) < 3 and self.random.random() < 0.4:
                self.loop(levels, inside)
            else:
                self.access(number, levels, inside)

    def loop(self, levels: tuple[Level, ...], inside: tuple[tuple[str, int, int], ...]) -> None:
        name = "abc"[len(levels)]
        self.executions += 1
        mine = self.executions
        execution = self.checker.execution(name, 0)
        for i in range(self.random.randint(1, 3)):
            now = self.checker.enter(execution)
            self.body(now, (*levels, (execution.first, now, execution)), (*inside, (name, mine, i)))

    def access(self, number: int, levels: tuple[Level, ...], inside: tuple[tuple[str, int, int], ...]) -> None:
        a = Access(self.random.randrange(3), self.random.random() < 0.3, inside)
        self.accesses.append(a)
        if self.fault is not None:
            return
        note = self.checker.write if a.write else self.checker.read
        try:
            note(self.shadow, a.element, number, levels, int(a.write))
        except Fault:
            self.fault = len(self.accesses) - 1


def race(a: Access, b: Access, private: frozenset[str]) -> bool:
    """Whether the access `a` and the later one `b` race."""
    if a.element != b.element or not (a.write or b.write):
        return False
    for x, y in zip(a.inside, b.inside, strict=False):
        if x != y:
            return x[:2] == y[:2] and not (x[0] in private and b.write)
    return False


def first_race(run: Run) -> int | None:
    """The number of the first access that races with an earlier one.

    In a loop whose iterations have the buffer to themselves only the last write before a read matters.
    """
    found = []
    for k, (i, a), (j, b) in ((pair[1][0], *pair) for pair in combinations(enumerate(run.accesses), 2)):
        hidden = not b.write and any(c.write and c.element == a.element for c in run.accesses[i + 1 : j])
        if race(a, b, run.private) and not hidden:
            found.append(k)
    return min(found, default=None)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 1 << 32))
def test_the_first_race_is_found(seed: int):
    run = Run(seed)
    assert run.fault == first_race(run)
