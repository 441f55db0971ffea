"""Which rules make the automatic space of a target: sets by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mslang.diagnostics import MsError, problem
from mslang.schedule.rules.add_rfactor import AddRFactor
from mslang.schedule.rules.compute_location import RandomComputeLocation
from mslang.schedule.rules.cpu.dot import DotProducts
from mslang.schedule.rules.cpu.matrix_tiles import MatrixTiles
from mslang.schedule.rules.cpu.register_tile import RegisterTiling
from mslang.schedule.rules.cpu.rows import RowFusion
from mslang.schedule.rules.cpu.streamed import StreamedResults
from mslang.schedule.rules.custom import CustomRule
from mslang.schedule.rules.gpu.auto_bind import AutoBind
from mslang.schedule.rules.gpu.cross_thread import CrossThreadReduction
from mslang.schedule.rules.gpu.finish import UnboundBlocks
from mslang.schedule.rules.gpu.machine import TENSOR_CORES, capability
from mslang.schedule.rules.gpu.tensor_cores import TensorCores
from mslang.schedule.rules.gpu.tiling import GpuTiling
from mslang.schedule.rules.gpu.unroll import GpuUnroll
from mslang.schedule.rules.inline import AutoInline, InlineConstantScalars
from mslang.schedule.rules.multi_level import MultiLevelTiling
from mslang.schedule.rules.parallelize_vectorize_unroll import ParallelizeVectorizeUnroll
from mslang.schedule.rules.postprocess import AfterRules, Postprocessor, ReductionBlocks, own_postprocessors
from mslang.schedule.rules.restricted import Restricted
from mslang.schedule.rules.rule import Rule
from mslang.suggestions import did_you_mean
from mslang.target.description import Target

QUICK = "quick"
"""The set that leaves two or three decisions open, for CPUs."""

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
    Restricted(AddRFactor(), ("inner",)),
    Restricted(MultiLevelTiling("SRS"), ("level_1",)),
    ParallelizeVectorizeUnroll(unroll_steps=(64,), vector_extents=(1024,)),
)
_ON_GPUS: tuple[Postprocessor, ...] = (UnboundBlocks(), ReductionBlocks(), AfterRules((GpuUnroll(),)))

SETS: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {
        "cpu": _CPU,
        "avx2": _CPU,
        "avx512": _CPU,
        "vnni": _CPU,
        "amx": _CPU,
        QUICK: _QUICK,
        "cuda": (CustomRule(), *_CUDA),
        "cuda_tensor_core": (CustomRule(), TensorCores(), *_CUDA),
    }
)
"""The rules of each set, in the order in which they are applied."""

POSTPROCESSORS: Mapping[str, tuple[Postprocessor, ...]] = MappingProxyType(
    {"cuda": _ON_GPUS, "cuda_tensor_core": _ON_GPUS}
)
"""The postprocessors of each set, in the order in which they are applied; a set that is not here has none."""

_HAS_TENSOR_CORES = "tensor-cores"

SERVING: Mapping[str, tuple[tuple[str, frozenset[str]], ...]] = MappingProxyType(
    {
        "cpu": (
            ("amx", frozenset({"amx-int8", "amx-tile"})),
            ("vnni", frozenset({"avx512vnni"})),
            ("avx512", frozenset({"avx512bw", "avx512f"})),
            ("avx2", frozenset({"avx2", "fma"})),
            ("cpu", frozenset()),
        ),
        "cuda": (("cuda_tensor_core", frozenset({_HAS_TENSOR_CORES})), ("cuda", frozenset())),
    }
)
"""For each kind of target its sets and the features that they need, the most demanding first."""


def _features(target: Target) -> frozenset[str]:
    """A target's features; of a GPU, also what its compute capability implies."""
    implied = (_HAS_TENSOR_CORES,) if capability(target) >= TENSOR_CORES else ()
    return frozenset((*target.features, *implied))


def set_for(target: Target) -> str:
    """The name of the rule set for a target: the most demanding whose features it has.

    Raises:
        MsError: MS273, there is none for targets of this kind.

    >>> from mslang.target.description import AVX512, GENERIC
    >>> set_for(AVX512), set_for(GENERIC)
    ('avx512', 'cpu')
    """
    for name, needs in SERVING.get(target.kind, ()):
        if needs <= _features(target):
            return name
    raise MsError(
        problem(
            "MS273",
            f"there are no rules for `{target.name}`, a {target.kind} target",
            why=f"there are rules for targets of these kinds: {', '.join(SERVING)}",
            help="write a schedule or a space for the program",
        )
    )


def rules_named(name: str) -> tuple[Rule, ...]:
    """The rules of a set.

    Raises:
        MsError: MS273, there is no such set.
    """
    if name not in SETS:
        raise MsError(
            problem(
                "MS273",
                f"there is no rule set `{name}`",
                why=f"the sets are {', '.join(SETS)}",
                help=did_you_mean(name, SETS),
            )
        )
    return SETS[name]


def rules_for(target: Target) -> tuple[Rule, ...]:
    """The rules that make the automatic space of a target.

    Raises:
        MsError: MS273, there are none for targets of this kind.

    >>> from mslang.target.description import GENERIC
    >>> [rule.name for rule in rules_for(GENERIC)][-2:]
    ['parallelize_vectorize_unroll', 'stream']
    """
    return rules_named(set_for(target))


def postprocessors_for(target: Target) -> tuple[Postprocessor, ...]:
    """The postprocessors of the set for a target, then those of packages that were allowed (`mslang.extensions`).

    Raises:
        MsError: MS273, there are no rules for targets of this kind; MS212 or MS213, a package's cannot be loaded.

    >>> from mslang.target.description import SM_80
    >>> [p.name for p in postprocessors_for(SM_80)]
    ['unbound_blocks', 'reduction_blocks', 'after_rules']
    """
    return (*POSTPROCESSORS.get(set_for(target), ()), *own_postprocessors())
