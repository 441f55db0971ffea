"""The rules of the library that are written in Python, by their dotted names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from mslang.schedule.rules import named
from mslang.schedule.rules.gpu.auto import auto
from mslang.schedule.rules.mapping import tensorize_mapping
from mslang.schedule.rules.multi_level import multi_level
from mslang.schedule.rules.parallelize_vectorize_unroll import auto_parallel

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

NATIVES: Mapping[str, Callable[[Interpreter, Sequence[object], Mapping[str, object]], object]] = MappingProxyType(
    {
        "std.cpu.auto_parallel": auto_parallel,
        "std.cpu.auto": named.auto,
        "std.cpu.quick": named.quick,
        "std.cuda.auto": auto,
        "std.cuda.space": named.space,
        "std.rules.named": named.rule_named,
        **{f"std.rules.{name}": rule for name, rule in named.RULES.items()},
        "std.tensor.tensorize_mapping": tensorize_mapping,
        "std.tiling.multi_level": multi_level,
    }
)
"""The implementations of `std.…` names unless the world overrides them."""
