"""Matrix tiles (AMX): the code of the library's instructions, what they mean, and the system's permission."""

import msgspec
import numpy as np
import pytest

from mslang.api.source import load
from mslang.backend.llvm.compile import compile
from mslang.backend.reference.interpret import run
from mslang.diagnostics import TargetError
from mslang.lower.passes import lower
from mslang.resources import stdlib_folder
from mslang.runtime.tiles import request_tiles
from mslang.target.description import AVX512
from mslang.target.detect import host

TILES = msgspec.structs.replace(
    AVX512,
    name="tiles",
    cpu="sapphirerapids",
    features=(*AVX512.features, "amx-tile", "amx-int8", "amx-bf16", "avx512vnni", "avx512bf16"),
)
SIZES = {"M": 64, "N": 32, "K": 512}


SQUARE = {"t/rows": 2, "t/columns": 2}
"""4 tiles of sums at a time."""


def scheduled(name: str, sizes: dict[str, int]):
    space = load(stdlib_folder() / "cpu" / "amx.ms").space(name, sizes=sizes, target=TILES)
    return space.sample(0, pins=SQUARE).program


@pytest.mark.parametrize(
    ("name", "multiply"), [("s8s8_on_amx", "tdpbssd"), ("u8s8_on_amx", "tdpbusd"), ("bf16_on_amx", "tdpbf16ps")]
)
def test_sums_stay_in_tile_registers(name, multiply):
    made = compile(lower(scheduled(name, SIZES), TILES), TILES)
    code = made.assembly
    counts = {word: code.count(f"\t{word}\t") for word in (multiply, "tileloadd", "tilestored")}
    # For 4 products 2 tiles of each operand are loaded; the 4 tiles of sums are stored once: none is spilled.
    assert counts[multiply] >= 4 and counts["tileloadd"] == counts[multiply] and counts["tilestored"] == 4
    assert code.count("ldtilecfg") == code.count("tilerelease") == 1, "tiles are configured in the function"
    assert made.signature.tiles


def test_other_kernels_ask_for_nothing():
    space = load(stdlib_folder() / "cpu" / "gemm_bytes.ms").space("u8s8_on_vnni", sizes=SIZES, target=TILES)
    assert not compile(lower(space.sample(0).program, TILES), TILES).signature.tiles


def test_the_product_where_nothing_divides():
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (3, 5)).astype(np.int8), rng.integers(-128, 128, (5, 4)).astype(np.int8)
    found = run(scheduled("s8s8_on_amx", {"M": 3, "N": 4, "K": 5}), {"A": a, "B": b})
    assert (found["C"] == a.astype(np.int32) @ b.astype(np.int32)).all()


def test_the_system_is_asked():
    if host().has("amx-tile"):
        request_tiles()
        return
    with pytest.raises(TargetError, match="MS427"):
        request_tiles()
