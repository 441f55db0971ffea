"""The library's CUDA instructions: every text compiles, and does what its description says, lane by lane."""

import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.cuda.texts import read_text
from mslang.diagnostics import MsError
from mslang.ir.dtype import size_of
from mslang.ir.expr import Binary, Const, Expr, Load, Var
from mslang.ir.intrin import Formal, Intrin
from mslang.ir.program import Buffer
from mslang.kernel.nodes import Allocate, Barrier, Body, For, Invoke, Module, Store
from mslang.lower.gpu.scratch import ScratchBuffers
from mslang.resources import stdlib_folder
from mslang.runtime.arguments import numpy_name
from mslang.sema.modules import load
from mslang.sema.named_intrin import library_intrin
from mslang.target.description import SM_90
from tests.cuda.emulator import why_not
from tests.unit.cuda.kernels import TX, buffer, cuda_source, launch, module, n, plus, times
from tests.unit.cuda.test_meaning import emulated

FILES = sorted((stdlib_folder() / "cuda").glob("*.ms"))
ADDRESSES = [f"std.cuda.{f.stem}.{name}" for f in FILES for name in load(str(f)).intrins]


def placed(intrin: Intrin, operands: dict[str, tuple[Buffer, tuple[Expr, ...]]]) -> Invoke:
    """An instruction over elements of buffers; it writes what it declares as written."""
    params = intrin.desc.params
    given = [operands[p.buffer.name] for p in params]
    meaning = tuple(
        Store(b.name, at, Const(0, b.dtype)) for p, (b, at) in zip(params, given, strict=True) if p.direction != "in"
    )
    return Invoke(
        intrin.name,
        dict(intrin.texts)["cuda"],
        tuple(Formal(p.buffer.name, p.buffer.dtype) for p in params),
        tuple(len(p.buffer.shape) for p in params),
        tuple(Load(b.name, at, b.dtype) for b, at in given),
        meaning,
    )


def shape_of(b: Buffer) -> tuple[int, ...]:
    return tuple(int(e.value) for e in b.shape if isinstance(e, Const))


def alone(address: str) -> Module:
    """A kernel of one warp in which the instruction stands on buffers of the scopes that it asks for."""
    intrin = library_intrin(address)
    pieces = read_text(intrin.name, dict(intrin.texts)["cuda"]).contiguous
    operands: dict[str, tuple[Buffer, tuple[Expr, ...]]] = {}
    for p in intrin.desc.params:
        b = p.buffer
        sizes = shape_of(b)
        # Twice the tile, but for dimensions that are in one piece: what is asked for begins in the middle.
        split = len(sizes) - len(pieces.get(b.name, ()))
        shape = (*(2 * k for k in sizes[:split]), *sizes[split:])
        made = buffer(f"{b.name}_{b.dtype}", b.dtype, *shape, scope=b.scope)
        operands[b.name] = (made, (*(n(k) for k in sizes[:split]), *(n(0) for _ in sizes[split:])))
    scratch = ScratchBuffers({}, ())
    body: Body = (scratch.given(placed(intrin, operands), frozenset()),)
    outside = [b for b, _ in operands.values() if b.scope == "global"]
    for b in (*(b for b, _ in operands.values() if b.scope != "global"), *scratch.buffers):
        body = (Allocate(b, body),)
    return module(address.replace(".", "_"), body, tuple(outside), launch((1,), (32,)))


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_instruction_is_printed(address: str) -> None:
    assert "{" in cuda_source(alone(address), SM_90).text


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"strides": (n(64), n(2))}, "its strides differ"),
        ({"dtype": "bf16"}, "its elements are bf16"),
        ({"strides": (n(33), n(1))}, "has rows 33 elements of 2 bytes apart"),
    ],
)
def test_memory_that_is_not_what_the_text_relies_on_is_refused(changed: dict[str, Any], says: str) -> None:
    intrin = library_intrin("std.cuda.mma.load_a")
    src = replace(buffer("src", "f16", 32, 32, scope="shared"), **changed)
    dst = buffer("dst", "f16", 16, 16, scope="mma.a")
    call = placed(intrin, {"src": (src, (n(0), n(0))), "dst": (dst, (n(0), n(0)))})
    with pytest.raises(MsError) as caught:
        cuda_source(module("k", (Allocate(src, (Allocate(dst, (call,)),)),), (), launch((1,), (32,))), SM_90)
    assert caught.value.diagnostic.code == "MS419"
    assert says in str(caught.value.diagnostic.why)


@pytest.mark.parametrize(
    ("strides", "says"),
    [
        ((128, 64, 16, 1), "its tiles of 8 × 8 elements are not in one piece: a stride is 16, not 8"),
        ((132, 64, 8, 1), "has rows 132 elements of 2 bytes apart, not a multiple of 16 bytes"),
    ],
)
def test_a_tile_that_is_not_in_one_piece_or_begins_elsewhere_is_refused(strides: tuple[int, ...], says: str) -> None:
    intrin = library_intrin("std.cuda.wgmma.f16f16f32")
    a = replace(buffer("a", "f16", 8, 2, 8, 8, scope="shared"), strides=tuple(map(n, strides)))
    b, c = buffer("b", "f16", 8, 2, 8, 8, scope="shared"), buffer("c", "f32", 64, 64, scope="wgmma.acc")
    call = placed(intrin, {x.name: (x, tuple(n(0) for _ in x.shape)) for x in (a, b, c)})
    body: Body = (call,)
    for x in (a, b, c):
        body = (Allocate(x, body),)
    with pytest.raises(MsError) as caught:
        cuda_source(module("k", body, (), launch((1,), (128,))), SM_90)
    assert caught.value.diagnostic.code == "MS419"
    assert says in str(caught.value.diagnostic.why)


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize(("arch", "file"), [(a, f) for a in ("sm_80", "sm_90a") for f in FILES], ids=str)
@pytest.mark.one_in(2)
def test_nvcc_takes_every_instruction(arch: str, file: Path, tmp_path: Path) -> None:
    functions = []
    for address in ADDRESSES:
        needed = (
            int(dict(c.split(" >= ") for c in guard.conditions)["sm"])
            if (guard := library_intrin(address).guard)
            else 0
        )
        if address.split(".")[2] == file.stem and needed <= int(arch[3:5]):
            functions += alone(address).functions
    if not functions:
        pytest.skip(f"{arch} has none of these")
    text = cuda_source(Module("all", (), tuple(functions)), SM_90).text
    source = tmp_path / "all.cu"
    source.write_text(text)
    command = ["nvcc", "-cubin", f"-arch={arch}", "-std=c++17", str(source), "-o", str(tmp_path / "all.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Family(NamedTuple):
    """Instructions that make a product of one warp: `m` rows, `n` columns, `k` summands."""

    load_a: str
    load_b: str
    fill: str
    product: str
    store: str
    shape: tuple[int, int, int]
    transposed: bool = False


def wmma(file: str, kind: str, acc: str, product: str, k: int = 16, dyn: str = "", trans: bool = False) -> Family:
    t = "_trans" if trans else ""
    return Family(
        f"{file}.load_a{kind}{dyn}",
        f"{file}.load_b{kind}{t}{dyn}",
        f"wmma.fill_{acc}" if file == "wmma_wide" and acc == "f32" else f"{file}.fill_{acc}",
        f"{file}.{product}{t}",
        f"wmma.store_{acc}" if file == "wmma_wide" and acc == "f32" else f"{file}.store_{acc}",
        (16, 16, k),
        trans,
    )


FAMILIES = [
    *(
        wmma("wmma", "", a, f"f16f16{a}", dyn=d, trans=t)
        for a in ("f32", "f16")
        for d in ("", "_dyn")
        for t in (False, True)
    ),
    *(wmma("wmma_s8", "", "s32", "s8s8s32", dyn=d, trans=t) for d in ("", "_dyn") for t in (False, True)),
    *(wmma("wmma_wide", "_bf16", "f32", "bf16bf16f32", trans=t) for t in (False, True)),
    *(wmma("wmma_wide", "_tf32", "tf32", "tf32tf32f32", k=8, trans=t) for t in (False, True)),
    *(
        Family(
            f"mma.load_a{s}{d}",
            f"mma.load_b{s}{t}{d}",
            f"mma.fill_{a}",
            f"mma.{p}{t}",
            f"mma.store_{a}",
            (16, 16, 16),
            bool(t),
        )
        for s, a, p in (("", "f32", "f16f16f32"), ("", "f16", "f16f16f16"), ("_bf16", "f32", "bf16bf16f32"))
        for d in ("", "_dyn")
        for t in ("", "_trans")
    ),
    *(
        Family(
            f"mma_s8.load_a{d}",
            f"mma_s8.load_b{t}{d}",
            "mma_s8.fill_s32",
            f"mma_s8.s8s8s32{t}",
            f"mma_s8.store_s32{d}",
            (16, 16, 32),
            bool(t),
        )
        for d in ("", "_dyn")
        for t in ("", "_trans")
    ),
    *(
        Family(
            "mma.load_a_32x8_dyn",
            "mma.load_b_8x32_dyn",
            f"mma.fill_{a}",
            f"mma.f16f16{a}_k8",
            f"mma.store_{a}_dyn",
            (32, 32, 8),
        )
        for a in ("f32", "f16")
    ),
]


def intrin(name: str) -> Intrin:
    return library_intrin(f"std.cuda.{name}")


def tiles(of: Buffer, tile: tuple[int, ...]) -> list[tuple[Expr, ...]]:
    """Where each tile of a matrix begins."""
    rows, columns = shape_of(of)
    return [(n(i), n(j)) for i in range(0, rows, tile[0]) for j in range(0, columns, tile[1])]


def copied(to: Buffer, source: Buffer) -> Body:
    """A copy of a matrix by a warp."""
    rows, columns = shape_of(to)
    at = plus(times(Var("step"), 32), TX)
    index = (Binary("//", at, n(columns)), Binary("%", at, n(columns)))
    return (For("step", n(rows * columns // 32), (Store(to.name, index, Load(source.name, index, to.dtype)),)),)


def product(f: Family) -> Module:
    """`out = A B` of one warp: staged in shared memory, loaded, multiplied by all products of tiles, and stored."""
    m, columns, k = f.shape
    loads, adds, stores = intrin(f.load_a), intrin(f.product), intrin(f.store)
    dtypes = {p.buffer.name: p.buffer.dtype for p in adds.desc.params}
    src = {p.buffer.name: p.buffer for p in loads.desc.params}["src"]
    scope = src.scope if src.scope != "global" else "shared"
    b_shape = (columns, k) if f.transposed else (k, columns)
    pad = 16 // size_of(dtypes["a"])
    a, b, out = (
        buffer("A", dtypes["a"], m, k),
        buffer("B", dtypes["b"], *b_shape),
        buffer("out", dtypes["c"], m, columns),
    )
    a_shared = buffer("A_shared", a.dtype, m, k, scope=scope, strides=(k + pad, 1))
    b_shared = buffer("B_shared", b.dtype, *b_shape, scope=scope, strides=(b_shape[1] + pad, 1))
    held = {p.buffer.name: p.buffer.scope for p in adds.desc.params}
    a_held, b_held = (
        buffer("A_held", a.dtype, m, k, scope=held["a"]),
        buffer("B_held", b.dtype, *b_shape, scope=held["b"]),
    )
    sums = buffer("sums", out.dtype, m, columns, scope=held["c"])
    dst = {p.buffer.name: p.buffer for p in stores.desc.params}["dst"]
    through = dst.scope != "global"
    staged = buffer("staged", out.dtype, m, columns, scope=dst.scope) if through else out
    at = {p.buffer.name: shape_of(p.buffer) for p in adds.desc.params}

    def each(name: str, first: str, one: Buffer, second: str, other: Buffer, over: Buffer) -> Body:
        made = intrin(name)
        tile = shape_of({p.buffer.name: p.buffer for p in made.desc.params}[first])
        return tuple(placed(made, {first: (one, x), second: (other, x)}) for x in tiles(over, tile))

    fill = intrin(f.fill)
    acc_tile = shape_of(fill.desc.params[0].buffer)
    zero = tuple(placed(fill, {"dst": (sums, x)}) for x in tiles(sums, acc_tile))
    update = tuple(
        placed(
            adds,
            {
                "a": (a_held, (n(i), n(s))),
                "b": (b_held, (n(j), n(s)) if f.transposed else (n(s), n(j))),
                "c": (sums, (n(i), n(j))),
            },
        )
        for i in range(0, m, at["c"][0])
        for j in range(0, columns, at["c"][1])
        for s in range(0, k, at["a"][1])
    )
    body: Body = (
        *copied(a_shared, a),
        *copied(b_shared, b),
        Barrier(),
        *zero,
        *each(f.load_a, "src", a_shared, "dst", a_held, a_held),
        *each(f.load_b, "src", b_shared, "dst", b_held, b_held),
        *update,
        *each(f.store, "src", sums, "dst", staged, sums),
        *((Barrier(), *copied(out, staged)) if through else ()),
    )
    for allocated in (a_shared, b_shared, a_held, b_held, sums, *((staged,) if through else ())):
        body = (Allocate(allocated, body),)
    return module("product", body, (a, b, out), launch((1,), (32,)))


def small_integers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).integers(-3, 4, shape)
    if dtype == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(numpy_name(dtype))


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f"{f.product}-{f.load_a}")
def test_a_product_of_a_warp_is_exact_on_small_integers(family: Family) -> None:
    made = product(family)
    a, b, out = (p.buffer for p in made.params)
    arrays = {x.name: small_integers(shape_of(x), x.dtype, k) for k, x in enumerate((a, b))}
    found = emulated(
        cuda_source(made, SM_90), {**arrays, "out": np.zeros(shape_of(out), numpy_name(out.dtype))}, {}, ("out",)
    )
    assert not found.faults, found.faults[0].text

    def exact(x: Buffer) -> np.ndarray:
        raw = arrays[x.name]
        return (raw.astype(np.uint32) << 16).view(np.float32) if x.dtype == "bf16" else raw.astype(np.float64)

    right = exact(b).T if family.transposed else exact(b)
    assert found.arrays["out"].tolist() == (exact(a) @ right).tolist()


DOTS = [a for a in ADDRESSES if ".dot." in a]


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("address", DOTS)
def test_dot_products_of_bytes(address: str) -> None:
    made = intrin(address.removeprefix("std.cuda."))
    types = {p.buffer.name: p.buffer for p in made.desc.params}
    a, b, out = (buffer(x, types[y].dtype, 32, 4) for x, y in (("A", "a"), ("B", "b"), ("out", "c")))
    out = buffer("out", out.dtype, 32)
    a_shared, b_shared = (buffer(f"{x.name}_shared", x.dtype, 32, 4, scope="shared") for x in (a, b))
    total = buffer("total", out.dtype, 1, scope="local")
    call = placed(made, {"a": (a_shared, (TX, n(0))), "b": (b_shared, (TX, n(0))), "c": (total, (n(0),))})
    body: Body = (
        *copied(a_shared, a),
        *copied(b_shared, b),
        Barrier(),
        Store("total", (n(0),), Const(5, out.dtype)),
        call,
        Store("out", (TX,), Load("total", (n(0),), out.dtype)),
    )
    for x in (a_shared, b_shared, total):
        body = (Allocate(x, body),)
    given = {
        x.name: np.random.default_rng(k)
        .integers(*((0, 256) if x.dtype == "u8" else (-128, 128)), (32, 4))
        .astype(numpy_name(x.dtype))
        for k, x in enumerate((a, b))
    }
    source = cuda_source(module("dots", body, (a, b, out), launch((1,), (32,))), SM_90)
    found = emulated(source, {**given, "out": np.zeros(32, numpy_name(out.dtype))}, {}, ("out",))
    assert not found.faults, found.faults[0].text
    wanted = (given["A"].astype(np.int64) * given["B"].astype(np.int64)).sum(1) + 5
    assert found.arrays["out"].tolist() == wanted.tolist()
