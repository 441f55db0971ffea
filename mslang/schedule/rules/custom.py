"""Rules of a user's own, in `.ms`, as a Python function or of a package, and the rule that applies them where a block's
annotation names one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.extensions import RULES, allowed, declared, load
from mslang.ir.program import Block
from mslang.schedule.handles import Handle
from mslang.schedule.items import ItemValue
from mslang.schedule.rules.nests import block_handle
from mslang.schedule.rules.rule import CUSTOM, Rule, reserved_for, take
from mslang.schedule.schedule import Schedule
from mslang.sema.module import Found
from mslang.suggestions import did_you_mean
from mslang.syntax import tree

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


class CustomRule(msgspec.Struct, frozen=True):
    """Schedules each block by the rule that its annotation names: `attr "schedule_rule" = "name"`.

    All other rules pass such a block over. The name means, in this order, a rule given from Python, a `rule` of the
    program's file, or a rule of an allowed package.

    Source: MetaSchedule's `ApplyCustomRule`, which ignores unknown names.
    """

    name: str = CUSTOM

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether an annotation names a rule."""
        return reserved_for(block) is not None

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """One; the named rule has its own."""
        return ("applied",)

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Apply the named rule.

        Raises:
            MsError: MS274, there is no such rule; MS272, its package is not allowed.
        """
        take(it, find_rule(it, reserved_for(block) or ""), block)


class WrittenRule(msgspec.Struct, frozen=True):
    """A `rule` item of a file; its `when` decides whether it applies."""

    value: ItemValue
    name: str

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Always: its `when` is asked when it is applied."""
        return True

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """One; it may have forks."""
        return ("applied",)

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Run its statements, if its `when` holds."""
        own = block_handle(it.session, block.name)
        it.run_rule(self.value.found, own, self.value.args, dict(self.value.kwargs))


Steps = Callable[[Schedule, Handle, str], None]
"""What a rule does: takes the running schedule, the block and the alternative."""


class FunctionRule(msgspec.Struct, frozen=True):
    """A rule made of functions; see `rule`."""

    name: str
    steps: Steps
    labels: tuple[str, ...] = ("applied",)
    when: Callable[[Schedule, Handle], bool] | None = None

    def applies(self, it: Interpreter, block: Block) -> bool:
        """What `when` says."""
        own = block_handle(it.session, block.name)
        return self.when is None or self.when(self._schedule(it, block), own)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """Those it was given."""
        return self.labels

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Call the function; decisions that it samples have the addresses `NAME:BLOCK/name`."""
        self.steps(self._schedule(it, block), block_handle(it.session, block.name), alternative)

    def _schedule(self, it: Interpreter, block: Block) -> Schedule:
        return Schedule.running(it.session, it.machine, f"{self.name}:{block.name}/")


def rule(
    *,
    name: str | None = None,
    alternatives: tuple[str, ...] = ("applied",),
    when: Callable[[Schedule, Handle], bool] | None = None,
) -> Callable[[Steps], FunctionRule]:
    """`@ms.rule()`: a rule from a function that schedules one block.

    Args:
        name: the rule's name, the first part of its decisions' addresses (default: the function's).
        alternatives: what the rule can do; the one taken is structure, and the function's last argument.
        when: whether it applies to a block (default: to all).

    Returns:
        The rule, for `ms.automatic_space`, a space of a file, or an entry point of the group `mslang.rules`.

    >>> @rule(alternatives=("none", "all"))
    ... def in_parallel(s, block, alternative):
    ...     if alternative == "all":
    ...         s.parallel(s.loops(block)[0])
    >>> in_parallel.name
    'in_parallel'
    """

    def made(steps: Steps) -> FunctionRule:
        return FunctionRule(name or str(getattr(steps, "__name__", CUSTOM)), steps, alternatives, when)

    return made


def find_rule(it: Interpreter, name: str) -> Rule:
    """The rule that a name means where an interpreter runs.

    Raises:
        MsError: MS274, there is none; MS272, its package is not allowed; MS212 or MS213, it cannot be loaded.
    """
    given = {r.name: r for r in it.world.rules}
    if name in given:
        return given[name]
    module = it.world.module
    found = module.find(name) if module is not None else None
    if isinstance(found, Found) and isinstance(found.item, tree.Rule):
        return WrittenRule(ItemValue(found, name), name)
    if name in declared(RULES):
        loaded = load(RULES, name, allowed(), Rule)
        assert isinstance(loaded, Rule)
        return loaded
    own = () if module is None else tuple(n for n in module.names if _is_rule(module.find(n)))
    known = (*given, *own, *declared(RULES))
    why = f"the rules known here are {', '.join(known)}" if known else "no rules are known here"
    raise MsError(problem("MS274", f"there is no rule `{name}`", why=why, help=did_you_mean(name, known)))


def _is_rule(thing: object) -> bool:
    return isinstance(thing, Found) and isinstance(thing.item, tree.Rule)
