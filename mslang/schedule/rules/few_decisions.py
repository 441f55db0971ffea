"""Rules that leave few decisions open: for spaces that are searched in a minute."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import Choice, Domain, PerfectTile
from mslang.ir.program import Block
from mslang.schedule import distribution
from mslang.schedule.decisions import Decision
from mslang.schedule.distribution import Number
from mslang.schedule.rules.rule import Rule

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

MOST = 3
"""So many decisions are open at most."""

CACHED = 8
"""Register tiles along each axis of a tile for a cache, where that is settled."""

INNERMOST = 16
"""The maximal innermost size of a tile that is settled."""


class FewDecisions(msgspec.Struct, frozen=True):
    """A rule that takes the first of its alternatives, and whose numbers are open as long as few are.

    Once `most` numbers of the schedule are open, those of other rules included, the next ones are pinned: to the value
    that `settled` has for the last part of their address, else to one that suits most programs (`usual`).
    """

    rule: Rule
    settled: Mapping[str, int] = MappingProxyType({})
    most: int = MOST

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.rule.name

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the rule applies."""
        return self.rule.applies(it, block)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """The first of the rule's."""
        return self.rule.alternatives(it, block)[:1]

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """As the rule does, with numbers pinned once `most` are open."""
        draws = it.session.draws

        def settle(decision: Decision) -> Number | None:
            if draws.open < self.most:
                return None
            known = self.settled.get(decision.address.rpartition("/")[2])
            return usual(decision.domain, it.machine.cores) if known is None else known

        with draws.settled(settle):
            self.rule.apply(it, block, alternative)


def usual(domain: Domain, cores: int) -> Number | None:
    """A value that suits most programs: of weighted ones the most likely; tiles of a cache, fewer of them where cores
    would have no work; a small innermost size. None for domains of other kinds.

    >>> from mslang.ir.expr import Choice, Const, PerfectTile
    >>> usual(Choice((1, 2, 4, 8, 16)), 1), usual(Choice((1, 2), weights=(0.9, 0.1)), 1)
    (8, 1)
    >>> usual(PerfectTile(Const(96), 2), 1)
    (6, 16)
    """
    match domain:
        case Choice(values=values, weights=None):
            most = min(CACHED, max(values) // (2 * cores))
            return max((v for v in values if v <= most), default=min(values))
        case Choice(values=values, weights=tuple() as weights):
            return max(zip(weights, values, strict=True))[1]
        case PerfectTile(n=n) if not distribution.extent_symbols(domain):
            found = distribution.kept(domain, (*(1,) * (n - 1), INNERMOST), {})
            return None if found is None else found[0]
    return None
