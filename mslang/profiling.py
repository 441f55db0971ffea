"""Where time goes: scopes that nest, timed while a profile is open.

Code marks its parts with `scope("draw")`; that costs next to nothing unless a caller has opened a profile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from types import TracebackType

import msgspec


class Node(msgspec.Struct):
    """One scope: how often it was entered, the seconds inside, and the scopes entered inside it.

    `aside` marks time of worker processes, which passes alongside the caller's own and is not a part of it.
    """

    name: str
    seconds: float = 0.0
    count: int = 0
    aside: bool = False
    children: dict[str, Node] = msgspec.field(default_factory=dict)

    def child(self, name: str) -> Node:
        """The scope of that name inside this one, made if there is none."""
        return self.children.setdefault(name, Node(name))

    @property
    def own(self) -> float:
        """Seconds outside every inner scope."""
        return self.seconds - sum(c.seconds for c in self.children.values() if not c.aside)


class Profile:
    """Times by scope, as a tree; made by `profile()`.

    Example:
        with ms.profile() as p:
            with p.scope("load"):
                source = ms.load("gemm.ms")
            ms.tune(source.space("tiled"), trials=16)
        print(p)
    """

    def __init__(self) -> None:
        self.root = Node("total", count=1)
        self._open = [self.root]
        self._start = time.perf_counter()
        self._end: float | None = None

    def scope(self, name: str) -> AbstractContextManager[None]:
        """Time what runs inside, under `name` and under the scopes that are open now."""
        return _Scope((self,), name)

    def add(self, name: str, seconds: float) -> None:
        """Count seconds that a worker process spent on `name`."""
        node = self.root.child(name)
        node.aside = True
        node.seconds += seconds
        node.count += 1

    def enter(self, name: str) -> None:
        """Open a scope; `scope` does this."""
        self._open.append(self._open[-1].child(name))

    def leave(self, seconds: float) -> None:
        """Close the innermost scope after so many seconds; `scope` does this."""
        node = self._open.pop()
        node.seconds += seconds
        node.count += 1

    def close(self) -> None:
        """Stop the clock of the whole; `profile()` does this at its end."""
        self._end = time.perf_counter()

    def rows(self) -> list[tuple[str, float, int, bool]]:
        """Name (indented by depth), seconds, entries, and whether it ran in worker processes; longest first."""
        self.root.seconds = (time.perf_counter() if self._end is None else self._end) - self._start
        return [("total", self.root.seconds, 1, False), *_rows(self.root, 1)]

    def scopes(self) -> dict[str, float]:
        """Seconds by scope, names joined by `/`; those of worker processes under `workers/`."""
        return dict(_paths(self.root, ""))

    def __str__(self) -> str:
        rows = self.rows()
        total = max(self.root.seconds, 1e-12)
        width = max(len(name) for name, *_ in rows) + 2
        lines = [f"{'scope':{width}}{'seconds':>10}{'share':>8}{'entries':>9}"]
        for name, seconds, count, aside in rows:
            share = "workers" if aside else f"{100 * seconds / total:.0f} %"
            lines.append(f"{name:{width}}{seconds:10.3f}{share:>8}{count:9d}")
        return "\n".join(lines)


def _rows(node: Node, depth: int) -> Iterator[tuple[str, float, int, bool]]:
    indent = "  " * depth
    inner = sorted(node.children.values(), key=lambda c: (c.aside, -c.seconds))
    for child in inner:
        yield f"{indent}{child.name}", child.seconds, child.count, child.aside
        yield from _rows(child, depth + 1)
    if any(not c.aside for c in inner):
        yield f"{indent}other", max(node.own, 0.0), node.count, False


def _paths(node: Node, prefix: str) -> Iterator[tuple[str, float]]:
    for child in node.children.values():
        path = f"{prefix}{'workers/' if child.aside else ''}{child.name}"
        yield path, child.seconds
        yield from _paths(child, f"{path}/")


_PROFILES: ContextVar[tuple[Profile, ...]] = ContextVar("profiles", default=())
"""The open profiles of this thread, outermost first."""

_NOTHING = nullcontext()


@contextmanager
def profile() -> Iterator[Profile]:
    """Collect the times of all scopes entered inside; profiles nest, and each sees what runs inside it.

    Returns, as a context manager, the `Profile`; `print` shows it as a table.
    """
    made = Profile()
    token = _PROFILES.set((*_PROFILES.get(), made))
    try:
        yield made
    finally:
        _PROFILES.reset(token)
        made.close()


def scope(name: str) -> AbstractContextManager[None]:
    """Time what runs inside under `name` in every open profile; does nothing where none is open."""
    profiles = _PROFILES.get()
    return _Scope(profiles, name) if profiles else _NOTHING


def add(name: str, seconds: float) -> None:
    """Count seconds that a worker process spent on `name` in every open profile."""
    for each in _PROFILES.get():
        each.add(name, seconds)


class _Scope:
    def __init__(self, profiles: tuple[Profile, ...], name: str) -> None:
        self._profiles, self._name = profiles, name

    def __enter__(self) -> None:
        for each in self._profiles:
            each.enter(self._name)
        self._start = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.perf_counter() - self._start
        for each in self._profiles:
            each.leave(seconds)
