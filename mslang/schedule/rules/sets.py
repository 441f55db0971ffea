"""What makes the automatic space of a target: sets of rules and postprocessors, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.schedule.rules.add_rfactor import AddRFactor
from mslang.schedule.rules.compute_location import RandomComputeLocation
from mslang.schedule.rules.cpu.dot import DotProducts
from mslang.schedule.rules.cpu.matrix_tiles import MatrixTiles
from mslang.schedule.rules.cpu.register_tile import RegisterTiling
from mslang.schedule.rules.cpu.rows import RowFusion
from mslang.schedule.rules.cpu.streamed import StreamedResults
from mslang.schedule.rules.cpu.transposition import Transposition
from mslang.schedule.rules.custom import CustomRule
from mslang.schedule.rules.default_tiling import DefaultTiling
from mslang.schedule.rules.few_decisions import FewDecisions
from mslang.schedule.rules.gpu.auto_bind import AutoBind
from mslang.schedule.rules.gpu.cross_thread import CrossThreadReduction
from mslang.schedule.rules.gpu.finish import UnboundBlocks
from mslang.schedule.rules.gpu.machine import TENSOR_CORES, capability
from mslang.schedule.rules.gpu.online import OnlineAttention
from mslang.schedule.rules.gpu.tensor_cores import TensorCores
from mslang.schedule.rules.gpu.tiling import GpuTiling
from mslang.schedule.rules.gpu.unroll import GpuUnroll
from mslang.schedule.rules.inline import AutoInline, InlineConstantScalars
from mslang.schedule.rules.loop_blocks import LoopBlocks
from mslang.schedule.rules.multi_level import MultiLevelTiling
from mslang.schedule.rules.parallelize_vectorize_unroll import ParallelizeVectorizeUnroll
from mslang.schedule.rules.postprocess import AfterRules, Postprocessor, ReductionBlocks, own_postprocessors
from mslang.schedule.rules.restricted import Restricted
from mslang.schedule.rules.rule import Rule
from mslang.suggestions import did_you_mean
from mslang.target.description import Target
from mslang.target.features import without

QUICK = "quick"
"""The set that leaves at most three decisions open, for CPUs."""


class RuleSet(msgspec.Struct, frozen=True):
    """What makes the automatic space of a kind of target.

    `rules`, then `postprocessors` are applied in their order. `needs` are features that a target must have; features
    whose names begin with a prefix in `omits` are not used, even if the target has them.
    """

    name: str
    kind: str
    rules: tuple[Rule, ...]
    postprocessors: tuple[Postprocessor, ...] = ()
    needs: frozenset[str] = frozenset()
    omits: tuple[str, ...] = ()


_CPU: tuple[Rule, ...] = (
    CustomRule(),
    InlineConstantScalars(),
    AutoInline(),
    RowFusion(),
    MatrixTiles(),
    DotProducts(),
    RegisterTiling(),
    AddRFactor(),
    MultiLevelTiling("SSRSRS"),
    RandomComputeLocation(),
    Transposition(),
    ParallelizeVectorizeUnroll(),
    StreamedResults(),
)
_EVERYWHERE = AutoInline(into_producer=True, no_branches=False, injective=False, ordered=False, no_calls=())
_CUDA: tuple[Rule, ...] = (
    GpuTiling(),
    InlineConstantScalars(),
    _EVERYWHERE,  # After tiling: operands are prepared where they are staged, results used where they are stored.
    CrossThreadReduction(),
    AutoBind(),
)
_QUICK: tuple[Rule, ...] = (
    CustomRule(),
    InlineConstantScalars(),
    AutoInline(),
    FewDecisions(RowFusion(), {"prefetch": 1}),
    FewDecisions(MatrixTiles()),
    FewDecisions(DotProducts()),
    FewDecisions(DefaultTiling()),
    FewDecisions(Transposition(), most=2),
    FewDecisions(LoopBlocks(only_reductions=True, name="reduction_loop_blocks"), {"rows": 4, "columns": 4}, most=2),
    FewDecisions(LoopBlocks(), {"rows": 4, "columns": 4}, most=2),
    FewDecisions(Restricted(AddRFactor(), ("inner",))),
    FewDecisions(ParallelizeVectorizeUnroll(), {"unroll": 64, "share": 1024}),
    FewDecisions(StreamedResults()),
)
_ON_GPUS: tuple[Postprocessor, ...] = (UnboundBlocks(), ReductionBlocks(), AfterRules((GpuUnroll(),)))

_AMX = ("amx-",)
_DOT_PRODUCTS = ("avx512vnni", "avx512bf16", "avxvnni")
_TENSOR_CORES = "tensor-cores"

SETS: Mapping[str, RuleSet] = MappingProxyType(
    {
        s.name: s
        for s in (
            RuleSet("amx", "cpu", _CPU, needs=frozenset({"amx-int8", "amx-tile"})),
            RuleSet("vnni", "cpu", _CPU, needs=frozenset({"avx512vnni"}), omits=_AMX),
            RuleSet("avx512", "cpu", _CPU, needs=frozenset({"avx512bw", "avx512f"}), omits=(*_AMX, *_DOT_PRODUCTS)),
            RuleSet(
                "avxvnni", "cpu", _CPU, needs=frozenset({"avx2", "avxvnni", "fma"}), omits=(*_AMX, "avx512", "avx10")
            ),
            RuleSet("avx2", "cpu", _CPU, needs=frozenset({"avx2", "fma"}), omits=(*_AMX, "avx512", "avx10", "avxvnni")),
            RuleSet("cpu", "cpu", _CPU, omits=(*_AMX, "avx", "fma", "f16c")),
            RuleSet(QUICK, "cpu", _QUICK),
            RuleSet(
                "cuda_tensor_core",
                "cuda",
                (CustomRule(), OnlineAttention(), TensorCores(), *_CUDA),
                _ON_GPUS,
                needs=frozenset({_TENSOR_CORES}),
            ),
            RuleSet("cuda", "cuda", (CustomRule(), OnlineAttention(), *_CUDA), _ON_GPUS),
        )
    }
)
"""The sets by name; a target's own is the first of its kind whose needs it has."""


def _features(target: Target) -> frozenset[str]:
    """A target's features; of a GPU, also what its compute capability implies."""
    implied = (_TENSOR_CORES,) if capability(target) >= TENSOR_CORES else ()
    return frozenset((*target.features, *implied))


def _serving(target: Target) -> tuple[RuleSet, ...]:
    """The sets that serve a target, the most demanding first."""
    has = _features(target)
    return tuple(s for s in SETS.values() if s.kind == target.kind and s.needs <= has)


def set_for(target: Target) -> RuleSet:
    """The rule set of a target: the most demanding whose features it has.

    Raises:
        MsError: MS273, there is none for targets of this kind.

    >>> from mslang.target.description import AVX512, GENERIC
    >>> set_for(AVX512).name, set_for(GENERIC).name
    ('avx512', 'cpu')
    """
    found = _serving(target)
    if found:
        return found[0]
    kinds = ", ".join(dict.fromkeys(s.kind for s in SETS.values()))
    raise MsError(
        problem(
            "MS273",
            f"there are no rules for `{target.name}`, a {target.kind} target",
            why=f"there are rules for targets of these kinds: {kinds}",
            help="write a schedule or a space for the program",
        )
    )


def set_named(name: str, target: Target) -> RuleSet:
    """The rule set of a name, for a target that it serves.

    Raises:
        MsError: MS273, there is no such set, it is for targets of another kind, or it needs features that the target
            lacks.
    """
    found = SETS.get(name)
    if found is None:
        why = f"the sets are {', '.join(SETS)}"
        raise MsError(problem("MS273", f"there is no rule set `{name}`", why=why, help=did_you_mean(name, SETS)))
    serving = _serving(target)
    if found in serving:
        return found
    missing = " and ".join(sorted(found.needs - _features(target)))
    raise MsError(
        problem(
            "MS273",
            f"the rule set `{name}` does not serve `{target.name}`",
            why=f"it is for {found.kind} targets; `{target.name}` is a {target.kind} target"
            if found.kind != target.kind
            else f"it needs {missing}, which `{target.name}` lacks",
            help=f"the sets for `{target.name}`: {', '.join(s.name for s in serving)}"
            if serving
            else "write a schedule or a space for the program",
        )
    )


def narrowed(target: Target, rule_set: RuleSet) -> Target:
    """A target as the rules of a set use it: without the features that the set omits, unless it is the target's own.

    >>> from mslang.target.description import AVX512
    >>> narrowed(AVX512, SETS["avx2"]).vector_bits, narrowed(AVX512, SETS["avx512"]) == AVX512
    (256, True)
    """
    return target if rule_set == set_for(target) else without(target, rule_set.omits)


def rules_for(target: Target) -> tuple[Rule, ...]:
    """The rules that make the automatic space of a target.

    Raises:
        MsError: MS273, there are none for targets of this kind.

    >>> from mslang.target.description import GENERIC
    >>> [rule.name for rule in rules_for(GENERIC)][-2:]
    ['parallelize_vectorize_unroll', 'stream']
    """
    return set_for(target).rules


def postprocessors_of(rule_set: RuleSet) -> tuple[Postprocessor, ...]:
    """The postprocessors of a set, then those of packages that were allowed (`mslang.extensions`).

    Raises:
        MsError: MS212 or MS213, a package's cannot be loaded.
    """
    return (*rule_set.postprocessors, *own_postprocessors())


def postprocessors_for(target: Target) -> tuple[Postprocessor, ...]:
    """The postprocessors of the automatic space of a target: those of its set, then those of allowed packages.

    A kind of target without rules has those of packages alone.

    Raises:
        MsError: MS212 or MS213, a package's cannot be loaded.

    >>> from mslang.target.description import SM_80
    >>> [p.name for p in postprocessors_for(SM_80)]
    ['unbound_blocks', 'reduction_blocks', 'after_rules']
    """
    found = _serving(target)
    return postprocessors_of(found[0]) if found else own_postprocessors()
