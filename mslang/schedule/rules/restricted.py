"""A rule with fewer alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mslang.ir.program import Block
from mslang.schedule.rules.rule import Rule

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


class Restricted(msgspec.Struct, frozen=True):
    """A rule of which only some alternatives are taken; blocks that have none of these are passed over."""

    rule: Rule
    labels: tuple[str, ...]

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.rule.name

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the rule applies."""
        return self.rule.applies(it, block)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """The rule's that are among the labels."""
        return tuple(x for x in self.rule.alternatives(it, block) if x in self.labels)

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """As the rule does."""
        self.rule.apply(it, block, alternative)
