"""Rules: what the automatic spaces are made of.

A rule gives the alternatives that it has for a block, and applies one of them. Where there are several, the one taken
is a structural decision at the address `NAME:BLOCK`, so a space has a sketch for each; sizes are decisions that the
rule samples. A rule is applied to the blocks of a program in post-order, one rule after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mslang.caching import cached
from mslang.diagnostics import ScheduleError, problem
from mslang.ir.find import blocks_of
from mslang.ir.program import Block
from mslang.schedule.decisions import Alternatives
from mslang.schedule.handles import Handle
from mslang.schedule.rules.nests import block_handle, block_of, goes_through
from mslang.schedule.session import Session
from mslang.schedule.values import describe

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

ANNOTATION = "schedule_rule"
"""The annotation of a block that names the rule which schedules it; all other rules pass such a block over."""

CUSTOM = "custom"
"""The name of the rule that does as such annotations say."""


@runtime_checkable
class Rule(Protocol):
    """A rule of a space.

    `name` is the first part of the addresses of its decisions: `NAME:BLOCK` of the alternative taken, `NAME:BLOCK/x` of
    what it samples.
    """

    @property
    def name(self) -> str:
        """The rule's name."""

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the rule has something to do for a block. Never depends on the values of decisions."""

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """What it can do with a block that it applies to; with one alternative nothing is drawn, with none it is
        passed over. Each must be legal."""

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Take one alternative: primitives and samplers on `it.session`."""


def blocks_given(function: str, args: Sequence[object]) -> tuple[Handle, ...]:
    """The blocks that a function of the library is called with.

    Raises:
        ScheduleError: MS203, an argument is no block.
    """
    blocks: list[Handle] = []
    for x in args:
        if not isinstance(x, Handle) or x.kind != "block":
            raise ScheduleError(problem("MS203", f"`{function}` takes blocks, not {describe(x)}"))
        blocks.append(x)
    return tuple(blocks)


def refuse_blocks(function: str, args: Sequence[object]) -> None:
    """Reject the arguments of a function of the library that schedules all blocks.

    Raises:
        ScheduleError: MS205, there are arguments.
    """
    if args:
        why = "it schedules the whole program"
        raise ScheduleError(problem("MS205", f"`{function}` takes no arguments, {len(args)} are given", why=why))


def post_order(session: Session) -> tuple[Handle, ...]:
    """The blocks of the program now, consumers before their producers and nested blocks before what holds them."""
    inner = tuple(reversed(blocks_of(session.program.body)))
    return tuple(block_handle(session, b.name) for b in inner)


def apply_rules(it: Interpreter, rules: Iterable[Rule]) -> None:
    """Apply rules one after the other, each to every block that the program has when its turn comes.

    Blocks that a rule removes are passed over; blocks that it makes are met by the rules after it.

    Raises:
        ScheduleError: a primitive refuses a step of the alternative taken.

    Source: MetaSchedule's `post-order-apply` space generator.
    """
    for rule in rules:
        for handle in post_order(it.session):
            if it.session.handles.alive(handle):
                apply_rule(it, rule, block_of(it.session, handle))


def apply_rule(it: Interpreter, rule: Rule, block: Block) -> None:
    """Apply a rule to one block, unless another is named by the block's annotation."""
    if reserved_for(block) is None or rule.name == CUSTOM:
        take(it, rule, block)


def take(it: Interpreter, rule: Rule, block: Block) -> None:
    """Apply a rule to one block whatever its annotations: draw an alternative if there are several, and take it."""
    if not rule.applies(it, block):
        return
    labels = rule.alternatives(it, block)
    if not labels:
        return
    label = labels[0]
    if len(labels) > 1:
        address = f"{rule.name}:{block.name}"
        draws = it.session.draws
        draws.claim(address)
        label = str(draws.choose(address, Alternatives(labels)))
    rule.apply(it, block, label)


def legal(it: Interpreter, rule: Rule, block: Block, labels: Iterable[str]) -> tuple[str, ...]:
    """Those of some alternatives that no primitive refuses, found by taking each on a session of its own.

    What the trial computes is kept (`schedule.memo`): taking the alternative afterwards costs little. So is the answer,
    which every structure of a space asks for again.
    """
    return _legal(it, rule, block, tuple(labels))


class _Asked:
    """What is asked of alternatives; programs, rules and worlds are compared by identity."""

    __slots__ = ("same", "things")

    def __init__(self, it: Interpreter, rule: Rule, block: Block, labels: tuple[str, ...]) -> None:
        # Kept, so that no other ones can have their identity.
        self.things = it.session.program, it.session.registry, it.world, rule
        self.same = (*map(id, self.things), block.name, labels)

    def __hash__(self) -> int:
        return hash(self.same)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and self.same == other.same


@cached(budget=256, weight=lambda *_: 1, key=_Asked)
def _legal(it: Interpreter, rule: Rule, block: Block, labels: tuple[str, ...]) -> tuple[str, ...]:
    def goes(label: str) -> bool:
        return goes_through(it.session, lambda session: rule.apply(it.on(session), block, label))

    return tuple(filter(goes, labels))


def reserved_for(block: Block) -> str | None:
    """The rule that a block's annotation names; None if it names none."""
    value = dict(block.annotations).get(ANNOTATION)
    return value if isinstance(value, str) and value != "none" else None
