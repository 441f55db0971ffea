"""A step of the campaign as a call on TVM's `Schedule`: blocks by name, loops by place, buffers by index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mslang.interop.block_names import tvm_names
from mslang.interop.tvmscript.names import their_type
from mslang.ir.expr import Binary, Const, Expr, Var
from mslang.ir.find import all_buffers, path_to_loop
from mslang.ir.index_map import TO, IndexMap
from mslang.ir.program import Block, For, Program
from mslang.ir.visit import walk
from mslang.transform.analysis.position import loops_above
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from tests.property.steps import Step


class Theirs:
    """TVM's schedule of a program, with its handles of what the program names."""

    def __init__(self, schedule: Any, program: Program) -> None:
        self.schedule, self.program = schedule, program
        self._names = tvm_names(program)

    def block(self, ref: BlockRef) -> Any:
        """The block of that name, which TVM may call otherwise."""
        return self.schedule.get_sblock(self._names.get(ref.name, ref.name))

    def loop(self, ref: LoopRef) -> Any:
        """The loop at the same place above a block under it."""
        path = path_to_loop(self.program, ref.name) or ()
        loop = path[-1]
        assert isinstance(loop, For)
        below = next(s for s in walk(loop.body, into_blocks=False) if isinstance(s, Block))
        return self.schedule.get_loops(self.block(BlockRef(below.name)))[len(loops_above(path))]

    def place(self, ref: BlockRef | LoopRef) -> Any:
        """A block or a loop."""
        return self.block(ref) if isinstance(ref, BlockRef) else self.loop(ref)

    def index(self, block: BlockRef, buffer: BufferRef, access: str) -> int:
        """The place of a buffer among those that a block reads or writes; one past the end if it is none of them."""
        node = self.schedule.get(self.block(block))
        names = [r.source.name for r in (node.reads if access == "read" else node.writes)]
        return names.index(buffer.name) if buffer.name in names else len(names)

    def access(self, block: BlockRef, buffer: BufferRef) -> tuple[str, int]:
        """How a block accesses a buffer, and its place among those."""
        node = self.schedule.get(self.block(block))
        written = any(r.source.name == buffer.name for r in node.writes)
        way = "write" if written else "read"
        return way, self.index(block, buffer, way)


def _extreme(kind: str, a: Any, b: Any) -> Any:
    from tvm import tirx

    return getattr(tirx, kind)(a, b)


_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "//": lambda a, b: a // b,
        "%": lambda a, b: a % b,
        "min": lambda a, b: _extreme("Min", a, b),
        "max": lambda a, b: _extreme("Max", a, b),
        TO: lambda a, b: (a, b),
    }
)


def _constant(value: float) -> Any:
    from tvm import tirx

    return tirx.IntImm("int32", int(value))


def _value(e: Expr, env: Mapping[str, Any], params: Sequence[Any]) -> Any:
    match e:
        case Const(value=v):
            return params[0] * 0 + int(v) if params else _constant(v)  # TVM wants an expression, not a number.
        case Var(name=name):
            return env[name]
        case Binary(op=op, left=a, right=b):
            return _OPERATIONS[op](_value(a, env, params), _value(b, env, params))
    raise AssertionError(f"an index map does not hold {e}")


def function(given: IndexMap) -> Callable[..., list[Any]]:
    """An index map as the function that TVM calls with its variables; it counts the parameters."""
    names: dict[str, Any] = {}
    params = [f"p{k}" for k in range(len(given.params))]
    exec(f"def made({', '.join(params)}):\n    return build([{', '.join(params)}])", names)
    names["build"] = lambda args: [_value(e, dict(zip(given.params, args, strict=True)), args) for e in given.results]
    made: Callable[..., list[Any]] = names["made"]
    return made


def _numbers(given: Any) -> list[int | None]:
    return [int(x.value) if isinstance(x, Const) else x for x in given]


def _at(t: Theirs, args: Any, access: str) -> tuple[Any, int]:
    return t.block(args[0]), t.index(args[0], args[1], access)


def _reindex(t: Theirs, block: BlockRef, buffer: BufferRef, access: str | None) -> Any:
    way = (access, t.index(block, buffer, access)) if access else buffer.name
    return t.schedule.reindex(t.block(block), way)


def _hide(t: Theirs, block: BlockRef, access: str, buffers: list[BufferRef]) -> Any:
    return t.schedule.unsafe_hide_buffer_access(t.block(block), access, [t.index(block, b, access) for b in buffers])


def _annotate(t: Theirs, block: BlockRef, buffer: BufferRef, access: str, given: IndexMap) -> Any:
    """Past TVM's Python method, which takes a range for each axis of the block, not for each dimension."""
    from tvm.s_tir.schedule import _ffi_api
    from tvm.tirx import IndexMap as TheirMap

    place = t.block(block)
    axes = [x.var for x in t.schedule.get(place).iter_vars]
    found = [x if isinstance(x, tuple) else (x, x + 1) for x in function(given)(*axes)]
    ends = TheirMap(initial_indices=axes, final_indices=[e for pair in found for e in pair], inverse_index_map=None)
    way = 0 if access == "read" else 1
    return _ffi_api.ScheduleAnnotateBufferAccess(t.schedule, place, t.index(block, buffer, access), way, ends)


def _pad(t: Theirs, buffer: BufferRef, value: Any) -> Any:
    """The number, of the type that the buffer has: TVM does not convert it."""
    if value is None:
        return None
    return float(value) if all_buffers(t.program)[buffer.name].dtype.startswith("f") else value


def _layout(t: Theirs, a: Any, n: Mapping[str, Any]) -> Any:
    return t.schedule.transform_layout(
        t.block(a[0]),
        t.access(a[0], a[1]),
        function(a[2]),
        _pad(t, a[1], n.get("pad")),
        assume_injective_transform=n.get("assume_injective", False),
    )


def _consumers(t: Theirs, n: Mapping[str, Any]) -> list[Any] | None:
    return None if n.get("consumers") is None else [t.block(b) for b in n["consumers"]]


Call = Callable[[Theirs, tuple[Any, ...], Mapping[str, Any]], Any]

CALLS: Mapping[str, Call] = MappingProxyType(
    {
        "split": lambda t, a, n: t.schedule.split(
            t.loop(a[0]), _numbers(a[1]), disable_predication=n.get("disable_predication", False)
        ),
        "loop_partition": lambda t, a, n: t.schedule.loop_partition(t.loop(a[0]), _numbers(a[1])),
        "fuse": lambda t, a, n: t.schedule.fuse(*map(t.loop, a[0])),
        "merge": lambda t, a, n: t.schedule.merge(*map(t.loop, a[0])),
        "reorder": lambda t, a, n: t.schedule.reorder(*map(t.loop, a[0])),
        "add_unit_loop": lambda t, a, n: t.schedule.add_unit_loop(t.place(a[0])),
        "parallel": lambda t, a, n: t.schedule.parallel(t.loop(a[0])),
        "vectorize": lambda t, a, n: t.schedule.vectorize(t.loop(a[0])),
        "unroll": lambda t, a, n: t.schedule.unroll(t.loop(a[0])),
        "bind": lambda t, a, n: t.schedule.bind(t.loop(a[0]), a[1]),
        "annotate": lambda t, a, n: t.schedule.annotate(t.place(a[0]), a[1], a[2]),
        "unannotate": lambda t, a, n: t.schedule.unannotate(t.place(a[0]), a[1]),
        "cache_read": lambda t, a, n: t.schedule.cache_read(*_at(t, a, "read"), a[2], _consumers(t, n)),
        "cache_write": lambda t, a, n: t.schedule.cache_write(*_at(t, a, "write"), a[2], _consumers(t, n)),
        "cache_inplace": lambda t, a, n: t.schedule.cache_inplace(*_at(t, a, "read"), a[2]),
        "cache_index": lambda t, a, n: t.schedule.cache_index(t.block(a[0]), a[1], n["threshold"]),
        "reindex": lambda t, a, n: _reindex(t, a[0], a[1], n["access"]),
        "reindex_cache_read": lambda t, a, n: t.schedule.reindex_cache_read(*_at(t, a, "read"), a[2], function(a[3])),
        "reindex_cache_write": lambda t, a, n: t.schedule.reindex_cache_write(
            *_at(t, a, "write"), a[2], function(a[3])
        ),
        "read_at": lambda t, a, n: t.schedule.read_at(t.loop(a[1]), t.block(a[0]), t.index(a[0], a[2], "read"), a[3]),
        "write_at": lambda t, a, n: t.schedule.write_at(
            t.loop(a[1]), t.block(a[0]), t.index(a[0], a[2], "write"), a[3]
        ),
        "compute_at": lambda t, a, n: t.schedule.compute_at(t.block(a[0]), t.loop(a[1]), True, n["index"]),
        "reverse_compute_at": lambda t, a, n: t.schedule.reverse_compute_at(
            t.block(a[0]), t.loop(a[1]), True, n["index"]
        ),
        "compute_inline": lambda t, a, n: t.schedule.compute_inline(t.block(a[0])),
        "reverse_compute_inline": lambda t, a, n: t.schedule.reverse_compute_inline(t.block(a[0])),
        "fuse_reduction_epilogue": lambda t, a, n: t.schedule.fuse_reduction_epilogue(t.block(a[0]), t.block(a[1])),
        "decompose_reduction": lambda t, a, n: t.schedule.decompose_reduction(t.block(a[0]), t.loop(a[1])),
        "rfactor": lambda t, a, n: t.schedule.rfactor(t.loop(a[0]), a[1]),
        "blockize": lambda t, a, n: t.schedule.blockize(
            [t.block(b) for b in a[0]] if isinstance(a[0], list) else t.place(a[0])
        ),
        "reorder_block_iter_var": lambda t, a, n: t.schedule.reorder_block_iter_var(t.block(a[0]), a[1]),
        "storage_align": lambda t, a, n: t.schedule.storage_align(
            t.block(a[0]), t.index(a[0], n["buffer"], "write"), *a[1:]
        ),
        "set_scope": lambda t, a, n: t.schedule.set_scope(*_at(t, a, "write"), a[2]),
        "unsafe_set_dtype": lambda t, a, n: t.schedule.unsafe_set_dtype(*_at(t, a, "write"), their_type(a[2])),
        "unsafe_hide_buffer_access": lambda t, a, n: _hide(t, *a),
        "annotate_buffer_access": lambda t, a, n: _annotate(t, *a),
        "transform_layout": _layout,
        "transform_block_layout": lambda t, a, n: t.schedule.transform_block_layout(t.block(a[0]), function(a[1])),
        "pad_einsum": lambda t, a, n: t.schedule.pad_einsum(t.block(a[0]), _numbers(a[1]) if a[1] else []),
        "decompose_padding": lambda t, a, n: t.schedule.decompose_padding(t.block(a[0]), t.loop(a[1])),
        "rolling_buffer": lambda t, a, n: t.schedule.rolling_buffer(*_at(t, a, "write")),
    }
)
"""How TVM is asked for each primitive that both have."""


def call(schedule: Any, program: Program, step: Step) -> None:
    """Carry a step out on TVM's schedule of the program."""
    name, args, named = step
    CALLS[name](Theirs(schedule, program), args, named)


__all__ = ["CALLS", "call"]
