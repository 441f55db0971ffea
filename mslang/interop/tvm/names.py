"""TVM's names of the blocks and buffers created by primitives, where they differ from ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mslang.interop.block_names import guess, tvm_names
from mslang.interop.tvm import words
from mslang.ir.program import Block
from mslang.ir.visit import all_buffers, blocks_of, path_to_block
from mslang.schedule.handles import Handle
from mslang.schedule.session import Session
from mslang.transform.outcome import BlockRef


class TvmNames:
    """TVM's names, by the handle of a block and by the name of a buffer."""

    def __init__(self, session: Session, blocks: Mapping[str, str] = MappingProxyType({})) -> None:
        known = {here: there for there, here in blocks.items()} or tvm_names(session.program)
        self._session = session
        self._blocks = {session.handles.handle(BlockRef(here)).number: there for here, there in known.items()}
        self._buffers: dict[str, str] = {}

    def of_block(self, name: str) -> str:
        """TVM's name of a block."""
        return self._blocks.get(self._session.handles.handle(BlockRef(name)).number, words.block_out(name))

    def block(self, name: str) -> Handle | None:
        """The block with a TVM name, if any."""
        program = self._session.program
        there = {b.name: self.of_block(b.name) for b in blocks_of(program.body)}
        plain = (n for n, known in there.items() if known == words.block_out(n))
        found = next((n for n, known in there.items() if known == name), guess(name, plain, all_buffers(program)))
        if found is None:
            return None
        handle = self._session.handles.handle(BlockRef(found))
        self._remember(handle, name)
        return handle

    def expected(self, op: str, arguments: Mapping[str, object]) -> tuple[str, ...]:
        """TVM's names of the blocks that an operation will create, as far as they are known in advance."""
        block = self._named(arguments.get("block"))
        buffer = self._named(arguments.get("buffer"))
        match op:
            case "cache_read" | "cache_write" | "cache_inplace" | "read_at" | "write_at" | "reindex_cache_read":
                made = f"{buffer}_{words.scope_out(str(arguments.get('scope', 'global')))}"
                return (made, made)
            case "reindex_cache_write":
                return (f"{buffer}_{words.scope_out(str(arguments.get('scope', 'global')))}",)
            case "reindex":
                return (f"{buffer}_reindex",)
            case "decompose_reduction":
                return (f"{block}_init", f"{block}_update")
            case "decompose_padding":
                return (f"{block}_pad_const",)
            case "blockize" | "rfactor":
                under = self._block_under(arguments.get("target", arguments.get("loop")))
                return (f"{under}_{'o' if op == 'blockize' else 'rf'}",) if under is not None else ()
        return ()

    def learn(self, op: str, block: object, results: Sequence[Handle], expected: Sequence[str]) -> None:
        """Record TVM's names of the results of an operation."""
        for handle, name in zip(results, expected, strict=False):
            self._remember(handle, name)
            if op in ("cache_read", "cache_write", "reindex"):
                self._buffers.update(dict.fromkeys(self._new_buffers(handle), name))
        if op == "decompose_reduction" and isinstance(block, Handle) and self._session.handles.alive(block):
            self._remember(block, expected[1])

    def _remember(self, handle: Handle, name: str) -> None:
        self._blocks[handle.number] = name

    def _new_buffers(self, block: Handle) -> list[str]:
        """The buffers that a copying block accesses and that the original program did not have."""
        name = self._session.handles.resolve(block).name
        path = path_to_block(self._session.program, name) or ()
        regions = (*path[-1].reads, *path[-1].writes) if path and isinstance(path[-1], Block) else ()
        first = all_buffers(self._session.origin)
        return [r.buffer for r in regions if r.buffer not in first and r.buffer not in self._buffers]

    def _named(self, handle: object) -> str:
        if not isinstance(handle, Handle):
            return ""
        name = self._session.handles.resolve(handle).name
        return self.of_block(name) if handle.kind == "block" else self._buffers.get(name, name)

    def _block_under(self, target: object) -> str | None:
        if not isinstance(target, Handle):
            return None
        if target.kind == "block":
            return self._named(target)
        found = self._session.call("children", (target,), {})
        return self._named(found[0]) if isinstance(found, tuple) and found else None
