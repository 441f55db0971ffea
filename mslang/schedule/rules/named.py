"""Rules as `.ms` names them: `std.rules.auto_inline(ordered = false)`, `std.cpu.auto`, `std.rules.named("mine")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.diagnostics import ScheduleError, problem
from mslang.schedule.rules.add_rfactor import AddRFactor
from mslang.schedule.rules.compute_location import RandomComputeLocation
from mslang.schedule.rules.cpu.streamed import StreamedResults
from mslang.schedule.rules.custom import CustomRule, find_rule
from mslang.schedule.rules.inline import AutoInline, InlineConstantScalars
from mslang.schedule.rules.nests import block_of
from mslang.schedule.rules.parallelize_vectorize_unroll import ParallelizeVectorizeUnroll
from mslang.schedule.rules.postprocess import postprocess
from mslang.schedule.rules.rule import Rule, apply_rule, apply_rules, blocks_given, refuse_blocks, take
from mslang.schedule.rules.sets import POSTPROCESSORS, QUICK, rules_named, set_for
from mslang.schedule.values import describe

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

RULES = (
    InlineConstantScalars,
    AutoInline,
    AddRFactor,
    RandomComputeLocation,
    ParallelizeVectorizeUnroll,
    StreamedResults,
    CustomRule,
)
"""The rules that `std.rules` has by their names."""


class Named(msgspec.Struct, frozen=True):
    """The function behind `std.rules.NAME`: makes the rule of the arguments and applies it to all blocks, or to those
    given."""

    kind: type[Rule]

    def __call__(self, it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Apply the rule.

        Raises:
            ScheduleError: MS203, an argument has the wrong type.
        """
        try:
            rule = msgspec.convert(dict(kwargs), self.kind)
        except msgspec.ValidationError as error:
            raise ScheduleError(problem("MS203", f"the rule does not take these arguments: {error}")) from None
        applied_to(it, rule, args)
        return None


def applied_to(it: Interpreter, rule: Rule, args: Sequence[object]) -> None:
    """Apply a rule to the blocks that are given, or to all blocks if there is none.

    Raises:
        ScheduleError: MS203, an argument is no block.
    """
    named = blocks_given(rule.name, args)
    if not named:
        apply_rules(it, (rule,))
    for b in named:
        apply_rule(it, rule, block_of(it.session, b))


def rule_named(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """`std.rules.named(rule)`: a rule given from Python, of the file, or of an allowed package.

    Raises:
        MsError: MS203, an argument is no block, or no rule is named; MS274, there is no such rule.
    """
    *blocks, name = (*args, *kwargs.values()) or (None,)
    if not isinstance(name, str):
        raise ScheduleError(problem("MS203", f"`named` takes the name of a rule, not {describe(name)}"))
    rule = find_rule(it, name)
    named = blocks_given("named", blocks)
    if not named:
        apply_rules(it, (rule,))
    for b in named:
        take(it, rule, block_of(it.session, b))
    return None


def auto(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """`std.cpu.auto`: all rules of the set for `machine`."""
    refuse_blocks("auto", args)
    _whole(it, set_for(it.machine))
    return None


def quick(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """`std.cpu.quick`: the rules that leave two or three decisions open."""
    refuse_blocks("quick", args)
    _whole(it, QUICK)
    return None


def _whole(it: Interpreter, name: str) -> None:
    apply_rules(it, rules_named(name))
    postprocess(it, POSTPROCESSORS.get(name, ()))
