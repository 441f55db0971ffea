"""Dependences between the blocks of a scope, by the buffers that they access."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

import msgspec

from mslang.ir.by_identity import by_identity
from mslang.ir.find import block_paths, blocks_of
from mslang.ir.program import Block, Program, Stmt
from mslang.ir.visit import CACHED, Path
from mslang.transform.analysis.accesses import bound_loads, guard_loads, init_footprint, updated_regions
from mslang.transform.analysis.position import block_at, leaves, loops_between, scope_body, scope_buffers


class DependenceKind(StrEnum):
    """What the later block does after the earlier one."""

    RAW = "read after write"
    WAR = "write after read"
    WAW = "write after write"


class Dependence(msgspec.Struct, frozen=True):
    """Block `target` comes after block `source` and accesses `buffer`, which it accessed."""

    source: str
    target: str
    kind: DependenceKind
    buffer: str


@by_identity(size=256)
def _aliases(program: Program) -> dict[str, str]:
    views = {v.buffer.name: v.source.buffer for b in blocks_of(program.body) for v in b.views}

    def root(name: str) -> str:
        return root(views[name]) if name in views else name

    return {name: root(name) for name in views}


def storage_of(program: Program, buffer: str) -> str:
    """The buffer whose memory a name stands for: for a view the buffer that it looks at, else the name itself."""
    return _aliases(program).get(buffer, buffer)


def buffers_read(block: Block) -> tuple[str, ...]:
    """The buffers in the read signature, each once, in order."""
    return tuple(dict.fromkeys(r.buffer for r in block.reads))


def buffers_written(block: Block) -> tuple[str, ...]:
    """The buffers in the write signature, each once, in order."""
    return tuple(dict.fromkeys(r.buffer for r in block.writes))


def storages_read(program: Program, block: Block) -> frozenset[str]:
    """The memory that a block reads (see `storage_of`): by its signature, in its init, and in its predicate."""
    return _storages(program, _names_read(block))


@by_identity(size=CACHED)
def _names_read(block: Block) -> frozenset[str]:
    regions = (*block.reads, *init_footprint(block).reads)
    return frozenset((*(r.buffer for r in regions), *(x.buffer for x in guard_loads(block))))


def _storages(program: Program, buffers: Iterable[str]) -> frozenset[str]:
    views = _aliases(program)
    return frozenset(views.get(b, b) for b in buffers) if views else frozenset(buffers)


def storages_deciding(program: Program, path: Path, above: Path) -> frozenset[str]:
    """The memory (see `storage_of`) that decides which instances of the block at the end of a path run in one iteration
    of the loops of `above`: what its predicate, its bindings and the bounds of the loops between read."""
    loads = (*guard_loads(block_at(path)), *bound_loads(loops_between(path, above)))
    return _storages(program, (x.buffer for x in loads))


def reads_from(program: Program, block: Block, storage: str) -> bool:
    """Does a block read some memory (see `storage_of`), be it to update what it writes there?"""
    updated = (storage_of(program, r.buffer) for r in updated_regions(block))
    return storage in storages_read(program, block) or storage in updated


def storages_written(program: Program, block: Block) -> frozenset[str]:
    """The memory that a block writes (see `storage_of`)."""
    return _storages(program, buffers_written(block))


@lru_cache(maxsize=512)
def dependences(program: Program, body: tuple[Stmt, ...]) -> tuple[Dependence, ...]:
    """The dependences between the leaf blocks of a scope, in program order (`body`: see `position.scope_body`)."""
    found: list[Dependence] = []
    blocks = leaves(*body)
    for k, target in enumerate(blocks):
        reads, writes = storages_read(program, target), storages_written(program, target)
        for source in blocks[:k]:
            written, read = storages_written(program, source), storages_read(program, source)
            for kind, shared in (
                (DependenceKind.RAW, written & reads),
                (DependenceKind.WAW, written & writes),
                (DependenceKind.WAR, read & writes),
            ):
                found.extend(Dependence(source.name, target.name, kind, b) for b in sorted(shared))
    return tuple(found)


def dependences_of(program: Program, path: Path) -> tuple[Dependence, ...]:
    """The dependences in the scope in which the last statement of a path stands."""
    return dependences(program, scope_body(program, path))


def producers(program: Program, path: Path) -> tuple[Block, ...]:
    """The blocks of its scope whose results the block at the end of a path reads, in program order."""
    name = _name(path)
    return _named(
        scope_body(program, path),
        (d.source for d in dependences_of(program, path) if d.target == name and d.kind is DependenceKind.RAW),
    )


def consumers(program: Program, path: Path) -> tuple[Block, ...]:
    """The blocks of its scope that read results of the block at the end of a path, in program order."""
    name = _name(path)
    return _named(
        scope_body(program, path),
        (d.target for d in dependences_of(program, path) if d.source == name and d.kind is DependenceKind.RAW),
    )


def writers(program: Program, body: tuple[Stmt, ...], buffer: str) -> tuple[Block, ...]:
    """The leaf blocks of some statements that write the memory of a buffer, in program order."""
    storage = storage_of(program, buffer)
    return tuple(b for b in leaves(*body) if storage in storages_written(program, b))


def readers(program: Program, body: tuple[Stmt, ...], buffer: str) -> tuple[Block, ...]:
    """The leaf blocks of some statements that read the memory of a buffer, in program order."""
    storage = storage_of(program, buffer)
    return tuple(b for b in leaves(*body) if storage in storages_read(program, b))


def paths_touching(program: Program, buffer: str) -> tuple[Path, ...]:
    """The paths of all blocks, at any depth, that read or write the memory of a buffer."""
    storage = storage_of(program, buffer)
    return tuple([q for q in block_paths(program.body) if _touches(program, block_at(q), storage)])


def _touches(program: Program, block: Block, storage: str) -> bool:
    return storage in storages_read(program, block) or storage in storages_written(program, block)


def is_output(program: Program, path: Path) -> bool:
    """Does the block at the end of a path write a buffer that its scope does not allocate?"""
    block = block_at(path)
    local = {b.name for b in scope_buffers(program, path)}
    return any(storage_of(program, b) not in local for b in buffers_written(block))


def _name(path: Path) -> str:
    return block_at(path).name


def _named(body: tuple[Stmt, ...], names: Iterable[str]) -> tuple[Block, ...]:
    wanted = set(names)
    return tuple(b for b in leaves(*body) if b.name in wanted)
