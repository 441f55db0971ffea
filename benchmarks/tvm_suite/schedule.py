"""TVM's `Schedule` as its tests call it, over this project's."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

from benchmarks.tvm_suite.arguments import dtype_of, map_of, region_of, remark_of, size_of
from benchmarks.tvm_suite.intrinsics import Intrinsics
from benchmarks.tvm_suite.nodes import Node, Reference, Result
from benchmarks.tvm_suite.reading import NotPortable, Script, Whatever
from mslang.diagnostics import ScheduleError, problem
from mslang.ir.expr import ONE, Const
from mslang.ir.find import all_buffers, blocks_of, path_to_block, path_to_loop
from mslang.ir.program import Block, For, Program
from mslang.ir.visit import walk
from mslang.schedule.handles import Handle
from mslang.schedule.schedule import Schedule
from mslang.schedule.values import HOLE
from mslang.transform.outcome import BlockRef, LoopRef
from mslang.transform.tensorize_mapping import tensorize_mapping

SAME = frozenset(
    {"add_unit_loop", "bind", "compute_inline", "decompose_padding", "decompose_reduction", "merge", "pad_einsum"}
    | {"parallel", "reorder", "reorder_block_iter_var", "reverse_compute_inline", "unannotate", "unroll", "vectorize"}
)
"""Methods of TVM's schedule that are this project's, but that a block may be given by its name."""

OTHERS = frozenset(
    {"fork_seed", "func_working_on", "remove_rv", "seed", "state", "sample_compute_location"}
    | {"sample_partitioned_tile", "set_axis_separator", "reindex_cache", "can_decompose_padding"}
)
"""Methods of TVM's schedule that are not stood in for."""


class TvmSchedule:
    """A schedule with TVM's methods; handles are this project's, blocks may be named."""

    def __init__(
        self,
        mod: Any,
        *,
        intrinsics: Intrinsics | None = None,
        made: list[TvmSchedule] | None = None,
        **options: object,
    ) -> None:
        if hasattr(mod, "script") and not isinstance(mod, Script | Result):
            mod = Script(mod.script())
        if not isinstance(mod, Script | Result):
            raise NotPortable("the program is made by TVM")
        self.script = mod if isinstance(mod, Script) else None
        self._given = mod
        if made is not None:
            made.append(self)
        self.partitioned: list[str] = []
        self.absent: set[str] = set()
        self.intrinsics = intrinsics or Intrinsics()

    @property
    def mod(self) -> Result:
        """The program so far."""
        return Result(self)

    @property
    def trace(self) -> Whatever:
        """TVM's trace object, of which nothing is asked here."""
        return Whatever()

    @cached_property
    def own(self) -> Schedule:
        """This project's schedule, which has one program."""
        return Schedule(self.first)

    @property
    def first(self) -> Program:
        """The program as it was given.

        Raises:
            MsError: there are several, and none was chosen.
        """
        return self._given.program

    def work_on(self, func_name: str) -> None:
        """Choose one of several programs."""
        if isinstance(self._given, Script):
            self._given.chosen = func_name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in OTHERS:
            raise NotPortable(f"Schedule.{name}")
        return partial(self._same, name) if name in SAME else getattr(self.own, name)

    def _same(self, op: str, *given: Any, **named: Any) -> Any:
        first = [self._block(x) for x in given[:1]]
        return self._do(op, *first, *given[1:], **{k: self._block(x) if k == "block" else x for k, x in named.items()})

    # ------------------------------------------------------------------ access
    def get(self, handle: Handle) -> Node:
        """TVM's statement behind a handle."""
        ref = self.own.session.handles.resolve(handle)
        if isinstance(ref, LoopRef):
            path = path_to_loop(self.own.program, ref.name)
            assert path is not None and isinstance(path[-1], For)
            extent = path[-1].extent
            return Node(ref.name, extent.value if isinstance(extent, Const) else None, self.own.program)
        return Node(ref.name, None, self.own.program)

    def get_sref(self, handle: Handle) -> Reference:
        """TVM's reference to the statement behind a handle."""
        return Reference(self.get(handle), self)

    def copy(self) -> TvmSchedule:
        """A schedule that goes on from here by itself."""
        made = copy.copy(self)
        made.own = copy.deepcopy(self.own)
        made.partitioned, made.absent = list(self.partitioned), set(self.absent)
        return made

    def tiled(self, block: Any, intrin: str) -> Any:
        """TVM's tile_with_tensor_intrin, which splits loops of the very extent, too."""
        b, meaning = self._block(block), self.intrinsics.meaning(intrin)
        ref = self.own.session.handles.resolve(b)
        assert isinstance(ref, BlockRef)
        for t in tensorize_mapping(self.own.parametric, ref, meaning):
            if t.whole and isinstance(t.extent, Const):
                self.own.apply("split", self.own.session.handles.handle(t.loop), [HOLE, t.extent.value])
        return self.own.tensorize_mapping(b, meaning)

    def show(self, *args: object) -> None:
        """Nothing."""

    def get_sblock(self, name: str, func_name: str | None = None) -> Handle:
        """A block by its name."""
        here = self.script.blocks if self.script else {}
        there = {b.name for b in blocks_of(self.own.parametric.body)}
        for base in sorted(here, key=len, reverse=True):
            ours = name.replace(base, here[base], 1)
            if name.startswith(base) and ours in there and (name == base or name not in there):
                return self.own.get(ours)
        return self.own.get(name if name in there else self._part(name))

    def _part(self, name: str) -> str:
        """A copy of a block that `loop_partition` made, by the name that TVM gives it."""
        for loop in self.partitioned:
            found = re.fullmatch(rf"(.+)_{loop}(\d+)", name)
            if found is not None:
                block, number = self._part(found[1]), int(found[2])
                return f"{block}_{number}" if number else block
        return self.script.blocks.get(name, name) if self.script else name

    get_block = get_sblock

    def get_loops(self, block: Handle | str) -> list[Handle]:
        """The loops around a block."""
        found = self.own.loops(self._block(block))
        return [h for h in found if self.own.session.handles.resolve(h).name not in self.absent]

    def get_child_blocks(self, of: Handle) -> list[Handle]:
        """The blocks directly under a loop or in a block."""
        return list(self.own.children(of))

    def get_producers(self, block: Handle | str) -> list[Handle]:
        """The producers of a block."""
        return list(self.own.producers(self._block(block)))

    def get_consumers(self, block: Handle | str) -> list[Handle]:
        """The consumers of a block."""
        return list(self.own.consumers(self._block(block)))

    def _block(self, block: Handle | str) -> Handle:
        return self.get_sblock(block) if isinstance(block, str) else block

    def _node(self, block: Handle) -> Block:
        ref = self.own.session.handles.resolve(block)
        assert isinstance(ref, BlockRef)
        path = path_to_block(self.own.parametric, ref.name)
        assert path is not None and isinstance(path[-1], Block)
        return path[-1]

    def _buffer(self, block: Handle, buffer: Any, access: str) -> Handle:
        """A buffer by position among those read or written, by name, or by both."""
        if isinstance(buffer, tuple | list):
            access, buffer = buffer
        if isinstance(buffer, str):
            known = all_buffers(self.own.parametric)
            return self.own.get(buffer if buffer in known else f"{buffer}_1")
        node = self._node(block)
        regions = node.reads if access == "read" else node.writes
        if not 0 <= int(buffer) < len(regions):
            raise _out_of_range(int(buffer))
        return self.own.get(regions[int(buffer)].buffer)

    def _rank(self, buffer: Handle) -> int:
        ref = self.own.session.handles.resolve(buffer)
        return len(all_buffers(self.own.parametric)[ref.name].shape)

    def _do(self, op: str, *args: object, **named: Any) -> Any:
        made = self.own.apply(op, *args, **named)
        return None if not made else made[0] if len(made) == 1 else list(made)

    # ------------------------------------------------------------------ loops
    def split(
        self, loop: Handle, factors: Sequence[Any], preserve_unit_iters: bool = True, disable_predication: bool = False
    ) -> list[Handle]:
        """TVM's split."""
        given = [HOLE if f is None else size_of(f) for f in factors]
        return list(self.own.apply("split", loop, given, disable_predication=disable_predication))

    def loop_partition(self, loop: Handle, factors: Sequence[Any], preserve_unit_iters: bool = True) -> list[Handle]:
        """TVM's loop_partition."""
        ref = self.own.session.handles.resolve(loop)
        self.partitioned.append(ref.name)
        return list(self.own.apply("loop_partition", loop, [HOLE if f is None else size_of(f) for f in factors]))

    def fuse(self, *loops: Handle, preserve_unit_iters: bool = True) -> Any:
        """TVM's fuse."""
        return self._do("fuse", *loops)

    # ------------------------------------------------------------------ caches
    def _users(self, consumers: Any) -> list[Handle] | None:
        if not consumers:
            return None
        return [self._block(b) for b in (consumers if isinstance(consumers, list | tuple) else [consumers])]

    def cache_read(self, block: Any, read_buffer_index: Any, storage_scope: str, consumer_blocks: Any = None) -> Any:
        """TVM's cache_read."""
        b = self._block(block)
        buffer = self._buffer(b, read_buffer_index, "read")
        return self._do("cache_read", b, buffer, storage_scope, consumers=self._users(consumer_blocks))

    def cache_write(self, block: Any, write_buffer_index: Any, storage_scope: str, consumer_blocks: Any = None) -> Any:
        """TVM's cache_write."""
        b = self._block(block)
        buffer = self._buffer(b, write_buffer_index, "write")
        return self._do("cache_write", b, buffer, storage_scope, consumers=self._users(consumer_blocks))

    def cache_inplace(self, block: Any, read_buffer_index: Any, storage_scope: str) -> Any:
        """TVM's cache_inplace."""
        b = self._block(block)
        return self._do("cache_inplace", b, self._buffer(b, read_buffer_index, "read"), storage_scope)

    def cache_index(self, block: Any, storage_scope: str, cse_thresh: int = 0) -> Any:
        """TVM's cache_index."""
        return self._do("cache_index", self._block(block), storage_scope, threshold=cse_thresh)

    def reindex(self, block: Any, buffer: Any) -> Any:
        """TVM's reindex."""
        b = self._block(block)
        if isinstance(buffer, str):
            return self._do("reindex", b, self._buffer(b, buffer, "read"))
        return self._do("reindex", b, self._buffer(b, buffer, buffer[0]), access=buffer[0])

    def reindex_cache_read(self, block: Any, read_buffer_index: Any, storage_scope: str, index_map: Any) -> Any:
        """TVM's reindex_cache_read."""
        b = self._block(block)
        given = map_of(index_map, len(self._node(b).axes))
        return self._do("reindex_cache_read", b, self._buffer(b, read_buffer_index, "read"), storage_scope, given)

    def reindex_cache_write(self, block: Any, write_buffer_index: Any, storage_scope: str, index_map: Any) -> Any:
        """TVM's reindex_cache_write."""
        b = self._block(block)
        given = map_of(index_map, len(self._node(b).axes))
        return self._do("reindex_cache_write", b, self._buffer(b, write_buffer_index, "write"), storage_scope, given)

    def read_at(self, loop: Handle, block: Any, read_buffer_index: Any, storage_scope: str) -> Any:
        """TVM's read_at."""
        b = self._block(block)
        return self._do("read_at", b, loop, self._buffer(b, read_buffer_index, "read"), storage_scope)

    def write_at(self, loop: Handle, block: Any, write_buffer_index: Any, storage_scope: str) -> Any:
        """TVM's write_at."""
        b = self._block(block)
        return self._do("write_at", b, loop, self._buffer(b, write_buffer_index, "write"), storage_scope)

    # ------------------------------------------------------------------ places
    def compute_at(self, block: Any, loop: Handle, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """TVM's compute_at."""
        self._moved("compute_at", block, loop, index, preserve_unit_loops)

    def reverse_compute_at(self, block: Any, loop: Handle, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """TVM's reverse_compute_at."""
        self._moved("reverse_compute_at", block, loop, index, preserve_unit_loops)

    def _moved(self, op: str, block: Any, loop: Handle, index: int, keep: bool) -> None:
        """Move a block; of the loops that it gets TVM has not those of one iteration, unless told to keep them."""
        b = self._block(block)
        before = {s.var for s in walk(self.own.program.body) if isinstance(s, For)}
        self._do(op, b, loop, index=index)
        if not keep:
            made = [s for s in walk(self.own.program.body) if isinstance(s, For) and s.var not in before]
            self.absent |= {s.var for s in made if s.extent == ONE}

    def fuse_reduction_epilogue(self, reduction: Any, epilogue: Any) -> None:
        """TVM's fuse_reduction_epilogue."""
        self._do("fuse_reduction_epilogue", self._block(reduction), self._block(epilogue))

    # ------------------------------------------------------------------ reductions, blocks

    def rfactor(self, loop: Handle, factor_axis: int) -> Any:
        """TVM's rfactor."""
        return self._do("rfactor", loop, factor_axis)

    def blockize(self, target: Any, preserve_unit_iters: bool = True) -> Any:
        """TVM's blockize."""
        given = [self._block(b) for b in target] if isinstance(target, list | tuple) else target
        return self._do("blockize", given)

    def get_output_blocks(self, scope: Any) -> list[Handle]:
        """The blocks that write what is not allocated here."""
        first = blocks_of(self.own.parametric.body)[0].name
        found = self.own.ask("output_blocks", self.own.get(first))
        return list(found) if isinstance(found, tuple) else []

    # ------------------------------------------------------------------ notes, memory, layout
    def annotate(self, target: Any, ann_key: str, ann_val: Any) -> None:
        """TVM's annotate."""
        self._do("annotate", self._block(target), ann_key, remark_of(ann_val))

    def annotate_buffer_access(self, block: Any, buffer_index: Any, buf_type: str, gen_new_ranges: Any) -> None:
        """TVM's annotate_buffer_access."""
        b = self._block(block)
        given = region_of(gen_new_ranges, tuple(a.name for a in self._node(b).axes))
        self._do("annotate_buffer_access", b, self._buffer(b, buffer_index, buf_type), buf_type, given)

    def tensorize(self, block_or_loop: Any, tensor_intrin: str, preserve_unit_iters: bool = True) -> None:
        """TVM's tensorize."""
        self._do("tensorize", self._block(block_or_loop), self.intrinsics.intrin(tensor_intrin))

    def storage_align(self, block: Any, buffer_index: Any, axis: int, factor: int, offset: int) -> None:
        """TVM's storage_align."""
        b = self._block(block)
        self._do("storage_align", b, axis, factor, offset, buffer=self._buffer(b, buffer_index, "write"))

    def set_scope(self, block: Any, buffer_index: Any, storage_scope: str) -> None:
        """TVM's set_scope."""
        b = self._block(block)
        self._do("set_scope", b, self._buffer(b, buffer_index, "write"), storage_scope)

    def unsafe_set_dtype(self, block: Any, buffer_index: Any, dtype: str) -> None:
        """TVM's unsafe_set_dtype."""
        b = self._block(block)
        self._do("unsafe_set_dtype", b, self._buffer(b, buffer_index, "write"), dtype_of(dtype))

    def unsafe_hide_buffer_access(self, block: Any, buf_type: str, buf_index_array: Sequence[int]) -> None:
        """TVM's unsafe_hide_buffer_access."""
        b = self._block(block)
        self._do("unsafe_hide_buffer_access", b, buf_type, [self._buffer(b, k, buf_type) for k in buf_index_array])

    def rolling_buffer(self, block: Any, write_buffer_index: Any) -> None:
        """TVM's rolling_buffer."""
        b = self._block(block)
        self._do("rolling_buffer", b, self._buffer(b, write_buffer_index, "write"))

    def transform_layout(
        self,
        block: Any,
        buffer: Any,
        index_map: Any,
        pad_value: Any = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """TVM's transform_layout."""
        b = self._block(block)
        found = self._buffer(b, buffer, "write")
        given = map_of(index_map, self._rank(found))
        if callable(pad_value):
            pad_value = map_of(pad_value, len(given.results))
        self._do("transform_layout", b, found, given, pad=pad_value, assume_injective=assume_injective_transform)

    def transform_block_layout(self, block: Any, index_map: Any) -> None:
        """TVM's transform_block_layout."""
        b = self._block(block)
        self._do("transform_block_layout", b, map_of(index_map, len(self._node(b).axes)))

    def sample_perfect_tile(self, loop: Handle, n: int, max_innermost_factor: int = 16, decision: Any = None) -> Any:
        """TVM's sample_perfect_tile."""
        name = f"t{len(self.own.session.instructions)}"
        cap = None if max_innermost_factor < 0 else max_innermost_factor
        return list(self.own.perfect_tile(loop, n, cap, name=name, decision=decision))

    def sample_categorical(self, candidates: Sequence[int], probs: Sequence[float], decision: Any = None) -> Any:
        """TVM's sample_categorical."""
        name = f"c{len(self.own.session.instructions)}"
        chosen = None if decision is None else candidates[decision]
        return self.own.choose(list(candidates), list(probs), name=name, decision=chosen)


def _out_of_range(index: int) -> ScheduleError:
    return ScheduleError(problem("MS330", f"there is no buffer number {index}"))
