"""Rules as `.ms` names them: `std.rules.auto_inline(ordered = false)`, `std.cpu.auto`, `std.rules.named("mine")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from mslang.diagnostics import ScheduleError, problem
from mslang.schedule.rules.add_rfactor import AddRFactor
from mslang.schedule.rules.compute_location import RandomComputeLocation
from mslang.schedule.rules.cpu.dot import DotProducts
from mslang.schedule.rules.cpu.matrix_tiles import MatrixTiles
from mslang.schedule.rules.cpu.register_tile import RegisterTiling
from mslang.schedule.rules.cpu.rows import RowFusion
from mslang.schedule.rules.cpu.streamed import StreamedResults
from mslang.schedule.rules.cpu.transposition import Transposition
from mslang.schedule.rules.custom import CustomRule, find_rule
from mslang.schedule.rules.default_tiling import DefaultTiling
from mslang.schedule.rules.gpu.auto_bind import AutoBind
from mslang.schedule.rules.gpu.cross_thread import CrossThreadReduction
from mslang.schedule.rules.gpu.online import OnlineAttention
from mslang.schedule.rules.gpu.tensor_cores import TensorCores
from mslang.schedule.rules.gpu.tiling import GpuTiling
from mslang.schedule.rules.gpu.unroll import GpuUnroll
from mslang.schedule.rules.inline import AutoInline, InlineConstantScalars
from mslang.schedule.rules.loop_blocks import LoopBlocks
from mslang.schedule.rules.nests import block_of
from mslang.schedule.rules.parallelize_vectorize_unroll import ParallelizeVectorizeUnroll
from mslang.schedule.rules.postprocess import postprocess
from mslang.schedule.rules.rule import Rule, apply_rule, apply_rules, blocks_given, refuse_blocks, take
from mslang.schedule.rules.sets import QUICK, RuleSet, postprocessors_of, set_for, set_named
from mslang.schedule.values import describe

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


class Named(msgspec.Struct, frozen=True):
    """The function behind `std.rules.NAME`: changes a rule as the arguments say, and applies it to all blocks, or to
    those given. `kind`: the only kind of targets that the rule schedules programs for; "" if it does so for all."""

    rule: Rule
    kind: str = ""

    def __call__(self, it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Apply the rule.

        Raises:
            ScheduleError: MS203, an argument has the wrong type; MS273, `machine` is a target of another kind.
        """
        if self.kind not in ("", it.machine.kind):
            raise ScheduleError(
                problem(
                    "MS273",
                    f"the rule `{self.rule.name}` does not serve `{it.machine.name}`",
                    why=f"it is for {self.kind} targets; `{it.machine.name}` is a {it.machine.kind} target",
                    help=f"name a {self.kind} target with `on` or `--target`",
                )
            )
        applied_to(it, _changed(self.rule, kwargs), args)
        return None


def _changed(rule: Rule, fields: Mapping[str, object]) -> Rule:
    """A rule with other values of some of its fields.

    Raises:
        ScheduleError: MS203, a value has the wrong type.
    """
    assert isinstance(rule, msgspec.Struct)
    try:
        checked = msgspec.convert(dict(fields), type(rule))
    except msgspec.ValidationError as error:
        raise ScheduleError(problem("MS203", f"the rule does not take these arguments: {error}")) from None
    return msgspec.structs.replace(rule, **{name: getattr(checked, name) for name in fields})


RULES: Mapping[str, Named] = MappingProxyType(
    {
        named.rule.name: named
        for named in (
            Named(CustomRule()),
            Named(InlineConstantScalars()),
            Named(AutoInline()),
            Named(AddRFactor()),
            Named(RandomComputeLocation()),
            Named(Transposition()),
            Named(ParallelizeVectorizeUnroll()),
            Named(StreamedResults()),
            Named(RowFusion(), "cpu"),
            Named(MatrixTiles(), "cpu"),
            Named(DotProducts(), "cpu"),
            Named(RegisterTiling(), "cpu"),
            Named(DefaultTiling(), "cpu"),
            Named(LoopBlocks(), "cpu"),
            Named(LoopBlocks(only_reductions=True, name="reduction_loop_blocks"), "cpu"),
            Named(OnlineAttention(), "cuda"),
            Named(TensorCores(), "cuda"),
            Named(GpuTiling(), "cuda"),
            Named(CrossThreadReduction(), "cuda"),
            Named(AutoBind(), "cuda"),
            Named(GpuUnroll(), "cuda"),
        )
    }
)
"""The rules that `std.rules` has, by their names."""


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
