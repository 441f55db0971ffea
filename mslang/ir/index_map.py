"""Index maps: `fn (i, j) -> [i // 4, j, i % 4]`, from indices to indices; a region map gives ranges too:
`fn (i, j) -> [i .. i + 4, j]`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from mslang.ir.expr import Binary, Expr, Var
from mslang.ir.visit import fresh, substitute

TO = ".."
"""The operator of `a..b`, which is an expression as a result of a region map only."""


class IndexMap(msgspec.Struct, frozen=True):
    """`fn (i, j) -> [e, …]`; the parameters are `Var`s in the results."""

    params: tuple[str, ...]
    results: tuple[Expr, ...]

    @property
    def has_ranges(self) -> bool:
        """Whether it gives a range somewhere, and not indices alone."""
        return any(isinstance(e, Binary) and e.op == TO for e in self.results)

    def at(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The results for given indices, one for each parameter; nothing is simplified."""
        values = dict(zip(self.params, indices, strict=True))
        return tuple(substitute(e, values) for e in self.results)

    def avoiding(self, names: Collection[str]) -> IndexMap:
        """The same map with parameters that have none of some names.

        >>> IndexMap(("i", "j"), (Binary("*", Var("i"), Var("j")),)).avoiding({"i"}).params
        ('i_1', 'j')
        """
        taken, params = set(names), []
        for p in self.params:
            params.append(fresh(p, taken))
            taken.add(params[-1])
        return self if tuple(params) == self.params else IndexMap(tuple(params), self.at([Var(p) for p in params]))


def on_ends(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """A result of a map rebuilt by `f`: of a range both of its ends."""
    return Binary(TO, f(e.left), f(e.right)) if isinstance(e, Binary) and e.op == TO else f(e)
