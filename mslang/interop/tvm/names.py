"""TVM's names of the blocks and buffers created by primitives, where they differ from ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mslang.interop.block_names import guess, tvm_names
from mslang.interop.tvm import words
from mslang.ir.find import all_buffers, blocks_of, path_to_block
from mslang.ir.program import Block, Program
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
                made = f"{buffer}_reindex"
                # The block has the name of what it writes, with the suffix: for a read, that is the new buffer.
                return (f"{made}_reindex" if arguments.get("access") == "read" else made,)
            case "decompose_reduction":
                return (f"{block}_init", f"{block}_update")
            case "decompose_padding":
                return (f"{block}_pad_const",)
            case "blockize" | "rfactor":
                under = self._block_under(arguments.get("target", arguments.get("loop")))
                return (f"{under}_{'o' if op == 'blockize' else 'rf'}",) if under is not None else ()
        return ()

    def learn(
        self, op: str, block: object, results: Sequence[Handle], expected: Sequence[str], before: Program
    ) -> None:
        """Remember TVM's names for the blocks and buffers that an operation made.

        Args:
            op: the operation.
            block: its argument `block`.
            results: the handles that it returned.
            expected: the names that `expected` gave for them.
            before: the program that it was applied to.
        """
        for handle, name in zip(results, expected, strict=False):
            self._remember(handle, name)
            if op in ("cache_read", "cache_write", "reindex"):
                reads, writes = self._new_buffers(handle)
                self._buffers.update(dict.fromkeys(reads, name))
                self._buffers.update(dict.fromkeys(writes, name.removesuffix("_reindex") if op == "reindex" else name))
        if op == "decompose_reduction" and isinstance(block, Handle) and self._session.handles.alive(block):
            self._remember(block, expected[1])
        if op in ("pad_einsum", "transform_layout"):
            self._learn_paddings(before)

    def _learn_paddings(self, before: Program) -> None:
        """Names for the blocks that pad a buffer, which the primitives that make them do not return."""
        old, buffers = {b.name for b in blocks_of(before.body)}, all_buffers(before)
        for b in blocks_of(self._session.program.body):
            touched = [r.buffer for r in (*b.reads, *b.writes)]
            padded = next((n for n in touched if n in buffers), None)
            if b.name in old or padded is None:
                continue
            of = self._buffers.get(padded, padded)
            handle = self._session.handles.handle(BlockRef(b.name))
            copies = [n for n in touched if n not in buffers]
            if copies:
                self._remember(handle, f"{of}_pad")
                self._buffers.update(dict.fromkeys(copies, f"{of}_pad"))
            else:
                self._remember(handle, f"buffer_{of}_padding")

    def _remember(self, handle: Handle, name: str) -> None:
        self._blocks[handle.number] = name

    def _new_buffers(self, block: Handle) -> tuple[list[str], list[str]]:
        """The buffers that a copying block reads and writes and that have no name yet, without the first program's."""
        name = self._session.handles.resolve(block).name
        path = path_to_block(self._session.program, name) or ()
        if not path or not isinstance(path[-1], Block):
            return [], []
        named = {*all_buffers(self._session.origin), *self._buffers}
        return (
            [r.buffer for r in path[-1].reads if r.buffer not in named],
            [r.buffer for r in path[-1].writes if r.buffer not in named],
        )

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
