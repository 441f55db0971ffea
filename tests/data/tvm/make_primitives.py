"""Makes `primitives.json` beside this file: `python tests/data/tvm/make_primitives.py`, where TVM 0.27 is installed.

Each entry is a program of ours, and the trace that TVM recorded when one of its primitives was applied to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import Schedule

from mslang.interop.tvm.program_out import to_graph
from mslang.sema.program import parse_program

HERE = Path(__file__).parent

GEMM = """program gemm(A: f32[32, 24], B: f32[24, 16], out C: f32[32, 16]) {
    alloc D: f32[32, 16]
    block mm[i: 32, j: 16 | k: 24] { D[i, j] += A[i, k] * B[k, j] }
    block relu[i: 32, j: 16] { C[i, j] = max(D[i, j], 0.0) }
}"""

PLAIN = """program gemm(A: f32[32, 24], B: f32[24, 16], out C: f32[32, 16]) {
    block mm[i: 32, j: 16 | k: 24] { C[i, j] += A[i, k] * B[k, j] }
}"""

TWO = """program two(A: f32[32, 16], out B: f32[32, 16], out C: f32[32, 16]) {
    block one[i: 32, j: 16] { B[i, j] = A[i, j] + 1.0 }
    block other[i: 32, j: 16] { C[i, j] = A[i, j] * 2.0 }
}"""

INPLACE = """program inp(inout A: f32[32, 16]) {
    block one[i: 32, j: 16] { A[i, j] = A[i, j] + 1.0 }
}"""

PAD = """program pad(A: f32[30], out B: f32[32]) {
    block p[i: 32] { B[i] = select(1 <= i and i < 31, A[i - 1], 0.0) }
}"""

BIAS = """program bias(A: f32[32, 24], B: f32[24, 16], b: f32[16], out C: f32[32, 16]) {
    alloc D: f32[32, 16]
    block mm[i: 32, j: 16 | k: 24] { D[i, j] += A[i, k] * B[k, j] }
    block add[i: 32, j: 16] { C[i, j] = D[i, j] + b[j] }
}"""

TR = """program tr(A: f32[32, 16], out C: f32[16, 32]) {
    alloc T: f32[32, 16]
    block t[i: 32, j: 16] { T[i, j] = A[i, j] + 1.0 }
    block c[j: 16, i: 32] { C[j, i] = T[i, j] }
}"""

STENCIL = """program st(A: f32[12, 12], out C: f32[10, 10]) {
    alloc T: f32[12, 12]
    block t[i: 12, j: 12] { T[i, j] = A[i, j] + 1.0 }
    block c[i: 10, j: 10] { C[i, j] = T[i, j] + T[i + 1, j] + T[i + 2, j] }
}"""

ODD = """program gemm(A: f32[31, 23], B: f32[23, 15], out C: f32[31, 15]) {
    block mm[i: 31, j: 15 | k: 23] { C[i, j] += A[i, k] * B[k, j] }
}"""


class Subject:
    """A schedule of TVM's, with short ways to its blocks and loops."""

    def __init__(self, program: str) -> None:
        self.s: Any = Schedule(tvm.ir.load_json(to_graph(parse_program(program))), seed=3)

    def b(self, name: str) -> Any:
        """A block."""
        return self.s.get_sblock(name)

    def l(self, name: str, k: int) -> Any:  # noqa: E743
        """A loop above a block."""
        return self.s.get_loops(self.b(name))[k]


Case = Callable[[Subject], object]


def blockize(x: Subject) -> None:
    """The inner part of a split loop as a block."""
    i, j, k = x.s.get_loops(x.b("mm"))
    outer, inner = x.s.split(i, [None, 4])
    x.s.reorder(outer, j, k, inner)
    x.s.annotate(x.s.blockize(inner), "tile", 1)


def kinds(x: Subject) -> None:
    """All kinds of loops but those of GPUs."""
    i, j, k = x.s.get_loops(x.b("mm"))
    x.s.reorder(k, j)
    x.s.parallel(i)
    x.s.vectorize(j)
    x.s.unroll(k)


def remarks(x: Subject) -> None:
    """Annotations of every type."""
    i, j, k = x.s.get_loops(x.b("mm"))
    x.s.annotate(i, "text", "words")
    x.s.annotate(x.b("mm"), "list", [1, 2, 3])
    x.s.annotate(j, "number", 1.5)
    x.s.annotate(k, "gone", 1)
    x.s.unannotate(k, "gone")


def getters(x: Subject) -> None:
    """Every getter, each of what it finds remarked on."""
    root = x.b("root")
    found = [
        x.s.get_child_blocks(root)[1],
        x.s.get_consumers(x.b("mm"))[0],
        x.s.get_producers(x.b("relu"))[0],
        x.s.get_output_blocks(root)[0],
        x.s.get_child_blocks(x.l("mm", 0))[0],
    ]
    for k, block in enumerate(found):
        x.s.annotate(block, f"found.{k}", k)


def sampled(x: Subject) -> None:
    """A tile and a choice."""
    x.s.split(x.l("mm", 0), x.s.sample_perfect_tile(x.l("mm", 0), 3, 8))
    x.s.annotate(x.b("mm"), "choice", x.s.sample_categorical([0, 16], [0.25, 0.75]))


def rfactor(x: Subject) -> None:
    """Partial sums."""
    _, inner = x.s.split(x.l("mm", 2), [None, 4])
    x.s.rfactor(inner, 2)


def rolling(x: Subject) -> None:
    """A circular buffer."""
    x.s.compute_at(x.b("t"), x.l("c", 0), preserve_unit_loops=True)
    x.s.rolling_buffer(x.b("t"), 0)


def copies(x: Subject) -> None:
    """Copies moved into the loops that use them, unit loops kept."""
    x.s.compute_at(x.s.cache_read(x.b("mm"), 0, "shared"), x.l("mm", 0), preserve_unit_loops=True)
    x.s.reverse_compute_at(x.s.cache_write(x.b("mm"), 0, "local"), x.l("mm", 1), preserve_unit_loops=True)


def reindexed(x: Subject) -> None:
    """Operands in the layout of the block's axes."""
    x.s.reindex(x.b("mm"), ("read", 1))
    x.s.reindex(x.b("mm"), ("write", 0))


CASES: dict[str, tuple[str, Case]] = {
    "split": (GEMM, lambda x: (x.s.split(x.l("mm", 0), [None, 8]), x.s.split(x.l("mm", 3), [2, 12]))),
    "split that guards": (GEMM, lambda x: x.s.split(x.l("mm", 0), [None, 7])),
    "loop_partition": (GEMM, lambda x: x.s.loop_partition(x.l("mm", 0), [8, None])),
    "merge": (TWO, lambda x: x.s.merge(x.l("one", 1), x.l("other", 1))),
    "fuse": (GEMM, lambda x: x.s.fuse(x.l("mm", 0), x.l("mm", 1))),
    "reorder": (GEMM, lambda x: x.s.reorder(x.l("mm", 2), x.l("mm", 0))),
    "reorder_block_iter_var": (GEMM, lambda x: x.s.reorder_block_iter_var(x.b("mm"), [1, 0, 2])),
    "add_unit_loop": (GEMM, lambda x: (x.s.add_unit_loop(x.b("relu")), x.s.add_unit_loop(x.l("relu", 1)))),
    "kinds": (GEMM, kinds),
    "bind": (GEMM, lambda x: (x.s.bind(x.l("mm", 0), "blockIdx.x"), x.s.bind(x.l("mm", 1), "threadIdx.x"))),
    "bind to virtual threads": (GEMM, lambda x: x.s.bind(x.l("mm", 0), "vthread.x")),
    "cache_read and cache_write": (GEMM, copies),
    "cache_read for some": (GEMM, lambda x: x.s.cache_read(x.b("relu"), 0, "local", [x.b("relu")])),
    "cache_inplace": (INPLACE, lambda x: x.s.cache_inplace(x.b("one"), 0, "local")),
    "cache_index": (STENCIL, lambda x: x.s.cache_index(x.b("c"), "global", 0)),
    "reindex": (PLAIN, reindexed),
    "reindex_cache_read": (PLAIN, lambda x: x.s.reindex_cache_read(x.b("mm"), 0, "shared", lambda i, j, k: (k, i))),
    "reindex_cache_write": (PLAIN, lambda x: x.s.reindex_cache_write(x.b("mm"), 0, "shared", lambda i, j, k: (j, i))),
    "read_at": (GEMM, lambda x: x.s.read_at(x.l("mm", 0), x.b("mm"), 0, "shared")),
    "write_at": (PLAIN, lambda x: x.s.write_at(x.l("mm", 0), x.b("mm"), 0, "shared")),
    "compute_at": (GEMM, lambda x: x.s.compute_at(x.b("mm"), x.l("relu", 0), preserve_unit_loops=True)),
    "reverse_compute_at": (GEMM, lambda x: x.s.reverse_compute_at(x.b("relu"), x.l("mm", 0), preserve_unit_loops=True)),
    "compute_inline": (TR, lambda x: x.s.compute_inline(x.b("t"))),
    "reverse_compute_inline": (TR, lambda x: x.s.reverse_compute_inline(x.b("c"))),
    "fuse_reduction_epilogue": (BIAS, lambda x: x.s.fuse_reduction_epilogue(x.b("mm"), x.b("add"))),
    "decompose_reduction": (GEMM, lambda x: x.s.decompose_reduction(x.b("mm"), x.l("mm", 2))),
    "rfactor": (PLAIN, rfactor),
    "blockize": (GEMM, blockize),
    "annotate": (GEMM, remarks),
    "getters": (GEMM, getters),
    "storage_align": (TR, lambda x: x.s.storage_align(x.b("t"), 0, 0, 32, 8)),
    "set_scope": (GEMM, lambda x: x.s.set_scope(x.b("mm"), 0, "shared")),
    "unsafe_set_dtype": (TR, lambda x: x.s.unsafe_set_dtype(x.b("t"), 0, "float16")),
    "unsafe_hide_buffer_access": (GEMM, lambda x: x.s.unsafe_hide_buffer_access(x.b("mm"), "read", [0])),
    "annotate_buffer_access": (
        TR,
        lambda x: x.s.annotate_buffer_access(x.b("c"), 0, "read", lambda j, i: ((i, i + 1), (j, j + 1))),
    ),
    "transform_layout": (TR, lambda x: x.s.transform_layout(x.b("t"), ("write", 0), lambda i, j: (j // 4, i, j % 4))),
    "transform_layout that pads": (
        STENCIL,
        lambda x: x.s.transform_layout(x.b("t"), ("write", 0), lambda i, j: (j // 5, i, j % 5), pad_value=0.0),
    ),
    "transform_block_layout": (TR, lambda x: x.s.transform_block_layout(x.b("t"), lambda i, j: (i * 16 + j,))),
    "pad_einsum": (ODD, lambda x: x.s.pad_einsum(x.b("mm"), [32, 16, 8])),
    "decompose_padding": (PAD, lambda x: x.s.decompose_padding(x.b("p"), x.l("p", 0))),
    "rolling_buffer": (STENCIL, rolling),
    "samplers": (GEMM, sampled),
    "sample_partitioned_tile": (
        GEMM,
        lambda x: x.s.split(x.l("mm", 0), x.s.sample_partitioned_tile(x.l("mm", 0), 3, 1, 4)),
    ),
    "sample_compute_location": (TR, lambda x: x.s.compute_at(x.b("t"), x.s.sample_compute_location(x.b("t")))),
}


def plain(value: Any) -> object:
    """What TVM's containers hold, as JSON can."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tvm.tirx.IndexMap):
        return json.dumps(json.loads(tvm.ir.save_json(value)), separators=(",", ":"))
    if hasattr(value, "items"):
        return {str(k): plain(v) for k, v in value.items()}
    return [plain(x) for x in value] if hasattr(value, "__len__") else value.value


def main() -> None:
    """Write the file anew."""
    entries = []
    for name, (program, apply) in CASES.items():
        subject = Subject(program)
        apply(subject)
        entries.append({"name": name, "program": program, "trace": plain(subject.s.trace.as_json())})
    text = ",\n".join(json.dumps(e, separators=(",", ":")) for e in entries)
    (HERE / "primitives.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
