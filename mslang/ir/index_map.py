"""Index maps: `fn (i, j) -> [i // 4, j, i % 4]`, from indices to indices."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mslang.ir.expr import Expr
from mslang.ir.visit import substitute


class IndexMap(msgspec.Struct, frozen=True):
    """`fn (i, j) -> [e, …]`; the parameters are `Var`s in the results."""

    params: tuple[str, ...]
    results: tuple[Expr, ...]

    def at(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The results for given indices, one for each parameter; nothing is simplified."""
        values = dict(zip(self.params, indices, strict=True))
        return tuple(substitute(e, values) for e in self.results)
