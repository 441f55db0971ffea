"""Libraries for C whose kernels use matrix tiles (AMX): the first call asks the system, and a refusal is a status."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.aot.entry import OK, UNSUPPORTED, Entry, Variant, entries_ir
from mslang.backend.backend import LibraryPart
from mslang.backend.llvm.backend import LLVM
from mslang.backend.llvm.compile import machine, optimised
from mslang.ir.program import Program
from mslang.runtime.linker import Linker
from mslang.runtime.signature import Signature
from mslang.sema.program import parse_program
from mslang.target.description import AVX512, Target
from mslang.target.detect import host
from tests.unit.llvm.test_tiles import SIZES, TILES, scheduled

LINUX = "x86_64-unknown-linux-gnu"
here = pytest.mark.skipif(
    sys.platform != "linux" or not machine(Target()).triple.startswith("x86_64"),
    reason="runs code for Linux on x86-64",
)
SCALE = parse_program("program scale(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] * 2.0 } }")


def text_of(*parts: tuple[Program, Target]) -> str:
    """The LLVM module of a library."""
    return LLVM.library([LibraryPart(p, t) for p, t in parts], "f", "a test", False).forms[".ll"]().decode()  # type: ignore[misc]


def entry(*variants: Variant) -> str:
    """The LLVM module of a function without arguments whose variants do nothing."""
    text = entries_ir((Entry("f", Signature("f", ()), variants),), triple=LINUX, threads=False, asks=True)
    for v in variants:
        text = text.replace(f"declare i32 @{v.entry}(ptr)", f"define i32 @{v.entry}(ptr %c) {{\n  ret i32 0\n}}")
    return text


def called(text: str) -> int:
    """What the function of a module returns here."""
    target = Target()
    code = machine(target).emit_object(optimised(text, target))
    library = Linker(1).link(code, ("f",))
    return int(ctypes.CFUNCTYPE(ctypes.c_int32)(library["f"])())


def test_only_kernels_on_tiles_ask():
    asked = text_of((scheduled("s8s8_on_amx", SIZES), TILES))
    assert 'asm sideeffect "syscall"' in asked and "(i64 158, i64 4131, i64 18)" in asked
    assert 'asm sideeffect "syscall"' not in text_of((SCALE, TILES))
    assert 'asm sideeffect "syscall"' not in text_of((SCALE, AVX512))


@here
def test_a_refusal_is_a_status():
    """The variant needs no feature that could be missing: what decides is the system alone."""
    tiles = Variant("mslang_tiles", (), Signature("f_v0", (), tiles=True))
    expected = OK if host().has("amx-tile") else UNSUPPORTED
    assert called(entry(tiles)) == expected
    # The next variant runs instead, whatever the system says.
    assert called(entry(tiles, Variant("mslang_plain", (), Signature("f_v1", ())))) == OK


@here
def test_without_the_instructions_the_system_is_not_asked():
    """In the module the question stands behind that for the processor's features."""
    missing = Variant("mslang_tiles", ("amx-tile",), Signature("f_v0", (), tiles=True))
    text = entry(missing)
    assert "call i1 @mslang.request_tiles(i1 %f0.10)" in text
    assert called(text) == (OK if host().has("amx-tile") else UNSUPPORTED)


def test_other_systems_give_no_tiles():
    windows = replace(TILES, triple="x86_64-pc-windows-msvc")
    text = text_of((scheduled("s8s8_on_amx", {"M": 16, "N": 16, "K": 64}), windows))
    assert "syscall" not in text


@here
def test_the_library_of_a_product_returns_unsupported_where_there_are_no_tiles(tmp_path):
    import shutil

    if shutil.which("cc") is None:
        pytest.skip("there is no linker")
    sizes = {"M": 16, "N": 16, "K": 64}
    made = LLVM.library([LibraryPart(scheduled("s8s8_on_amx", sizes), TILES)], "product", "a test", False)  # type: ignore[misc]
    (tmp_path / "product.so").write_bytes(made.forms[".so"]())
    product = ctypes.CDLL(str(tmp_path / "product.so")).product
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (16, 64), np.int8), rng.integers(-128, 128, (64, 16), np.int8)
    c = np.full((16, 16), 7, np.int32)
    status = product(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)))
    if host().has("amx-int8"):
        assert status == OK and (c == a.astype(np.int32) @ b.astype(np.int32)).all()
    else:
        assert status == UNSUPPORTED and (c == 7).all()
