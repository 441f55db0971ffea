"""Rules as `.ms` names them: `std.rules.auto_inline(ordered = false)`, `std.cpu.auto`, `std.rules.named("mine")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.diagnostics import ScheduleError, problem
from mslang.schedule.rules.add_rfactor import AddRFactor
from mslang.schedule.rules.compute_location import RandomComputeLocation
from mslang.schedule.rules.cpu.streamed import StreamedResults
from mslang.schedule.rules.cpu.transposition import Transposition
from mslang.schedule.rules.custom import CustomRule, find_rule
from mslang.schedule.rules.inline import AutoInline, InlineConstantScalars
from mslang.schedule.rules.nests import block_of
from mslang.schedule.rules.parallelize_vectorize_unroll import ParallelizeVectorizeUnroll
from mslang.schedule.rules.postprocess import postprocess
from mslang.schedule.rules.rule import Rule, apply_rule, apply_rules, blocks_given, refuse_blocks, take
from mslang.schedule.rules.sets import QUICK, RuleSet, postprocessors_of, set_for, set_named
from mslang.schedule.values import describe

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

RULES = (
    InlineConstantScalars,
    AutoInline,
    AddRFactor,
    RandomComputeLocation,
    Transposition,
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
    """`std.cpu.auto`: the rules and postprocessors of the set for `machine`, a CPU.

    Raises:
        MsError: MS205, there are arguments; MS273, `machine` is no CPU.
    """
    refuse_blocks("auto", args)
    _automatic(it, "cpu")
    return None


def space(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """`std.cuda.space`: the rules and postprocessors of the set for `machine`, a GPU.

    Raises:
        MsError: MS205, there are arguments; MS273, `machine` is no GPU.
    """
    refuse_blocks("space", args)
    _automatic(it, "cuda")
    return None


def quick(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """`std.cpu.quick`: the rules that leave at most three decisions open.

    Raises:
        MsError: MS205, there are arguments; MS273, `machine` is no CPU.
    """
    refuse_blocks("quick", args)
    _apply_set(it, set_named(QUICK, it.machine))
    return None


def _automatic(it: Interpreter, least: str) -> None:
    """Apply the set for `machine`, which must be of the kind of the set `least`, which needs no features."""
    set_named(least, it.machine)
    _apply_set(it, set_for(it.machine))


def _apply_set(it: Interpreter, rule_set: RuleSet) -> None:
    apply_rules(it, rule_set.rules)
    postprocess(it, postprocessors_of(rule_set))
