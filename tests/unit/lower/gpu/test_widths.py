"""How many neighbours a load or a store takes after the pass `widths`."""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir.expr import Binary, Const, DynamicRange, Expr, Load, Ramp, Select, Symbol
from mslang.ir.program import Buffer
from mslang.kernel import Store
from mslang.kernel.print import print_body
from mslang.kernel.verify import faults
from mslang.lower.gpu.widths import widths
from mslang.target.description import CUDA
from tests.unit.cuda.kernels import TX, buffer, launch, module, n, plus, times

X, OUT = buffer("X", "f32", 4096), buffer("out", "f32", 4096)


def lines(store: Store, *buffers: Buffer) -> list[str]:
    """What the pass makes of a store of a kernel of 64 threads."""
    made = widths(module("k", (store,), buffers or (X, OUT), launch((1,), (64,))), CUDA)
    assert not list(faults(made))
    return print_body(made.body).replace("`threadIdx.x`", "t").splitlines()


def copied(to: Expr, source: Expr, lanes: int = 4, value: Expr | None = None) -> Store:
    return Store("out", (Ramp(to, 1, lanes),), value or Load("X", (Ramp(source, 1, lanes),), "f32"))


def test_aligned_neighbours_are_one_instruction() -> None:
    assert lines(copied(times(TX, 4), times(TX, 4))) == [
        "let X_vector = X[ramp(t * 4, 1, 4)]",
        "out[ramp(t * 4, 1, 4)] = X_vector",
    ]


def test_the_widest_access_has_16_bytes() -> None:
    assert lines(copied(times(TX, 8), times(TX, 8), 8)) == [
        "let X_vector = X[ramp(t * 8, 1, 4)]",
        "let X_vector_1 = X[ramp(t * 8 + 4, 1, 4)]",
        "out[ramp(t * 8, 1, 4)] = X_vector",
        "out[ramp(t * 8 + 4, 1, 4)] = X_vector_1",
    ]


def test_each_access_is_as_wide_as_its_own_address_allows() -> None:
    assert lines(copied(plus(times(TX, 4), 2), times(TX, 4))) == [
        "let X_vector = X[ramp(t * 4, 1, 4)]",
        "out[ramp(t * 4 + 2, 1, 2)] = shuffle(X_vector, [0, 1])",
        "out[ramp(t * 4 + 2 + 2, 1, 2)] = shuffle(X_vector, [2, 3])",
    ]
    assert lines(copied(times(TX, 4), plus(times(TX, 4), 2))) == [
        "let X_vector = X[ramp(t * 4 + 2, 1, 2)]",
        "let X_vector_1 = X[ramp(t * 4 + 2 + 2, 1, 2)]",
        "out[ramp(t * 4, 1, 4)] = shuffle(X_vector, X_vector_1, [0, 1, 2, 3])",
    ]


def test_a_store_that_is_not_aligned_is_written_out() -> None:
    assert lines(copied(TX, times(TX, 2), 2)) == [
        "let X_vector = X[ramp(t * 2, 1, 2)]",
        "out[t] = shuffle(X_vector, [0])",
        "out[t + 1] = shuffle(X_vector, [1])",
    ]


def test_loads_apart_are_loaded_one_by_one_in_the_store() -> None:
    value = Load("X", (Ramp(TX, 64, 4),), "f32")
    assert lines(copied(times(TX, 4), n(0), value=value)) == ["out[ramp(t * 4, 1, 4)] = X[ramp(t, 64, 4)]"]


def test_what_a_condition_guards_is_not_loaded_ahead() -> None:
    load = Load("X", (Ramp(times(TX, 4), 1, 4),), "f32")
    value = Select(Binary("<", TX, n(8)), load, Const(0.0, "f32"))
    (line,) = lines(copied(times(TX, 4), n(0), value=value))
    assert line.startswith("out[ramp(t * 4, 1, 4)] = select(t < 8, X[ramp(t * 4, 1, 4)]")


def test_all_lanes_are_read_before_one_is_stored() -> None:
    store = Store("out", (Ramp(TX, 1, 2),), Load("out", (Ramp(plus(TX, 1), 1, 2),), "f32"))
    assert lines(store) == [
        "let value = `out`[t + 1]",
        "let value_1 = `out`[t + 1 + 1]",
        "out[t] = value",
        "out[t + 1] = value_1",
    ]


def test_masked_lanes_are_stored_under_a_condition() -> None:
    store = copied(times(TX, 2), n(0), 2, Const(0.0, "f32"))
    some = replace(store, mask=Binary("<", Ramp(TX, 1, 2), n(9)))
    assert [x.strip() for x in lines(some)] == [
        "if t < 9 {",
        "out[t * 2] = f32(0.0)",
        "}",
        "if t + 1 < 9 {",
        "out[t * 2 + 1] = f32(0.0)",
        "}",
    ]
    assert lines(replace(store, mask=Binary("<", Ramp(n(0), 1, 2), n(1)))) == ["out[t * 2] = f32(0.0)"]


def test_declared_alignment_and_strides_limit_the_width() -> None:
    narrow = replace(OUT, align=8)
    assert lines(copied(times(TX, 4), times(TX, 4)), X, narrow)[1:] == [
        "out[ramp(t * 4, 1, 2)] = shuffle(X_vector, [0, 1])",
        "out[ramp(t * 4 + 2, 1, 2)] = shuffle(X_vector, [2, 3])",
    ]
    row = (TX, Ramp(n(0), 1, 4))
    for multiple, first in (
        (4, "let X_vector = X[t, ramp(0, 1, 4)]"),
        (1, "out[t, ramp(0, 1, 4)] = X[t, ramp(0, 1, 4)]"),
    ):
        size = Symbol("N", DynamicRange(4, 1024, multiple))
        kernel = module(
            "k",
            (Store("out", row, Load("X", row, "f32")),),
            (buffer("X", "f32", 64, size), buffer("out", "f32", 64, 4)),
            launch((1,), (64,)),
            (size,),
        )
        assert print_body(widths(kernel, CUDA).body).replace("`threadIdx.x`", "t").splitlines()[0] == first
