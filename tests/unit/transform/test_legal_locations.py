"""The places that compute_location draws from."""

from mslang.transform.compute_locations import Place, legal_locations
from mslang.transform.outcome import LoopRef
from mslang.transform.primitives.caching import cache_read
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.loop_kinds import parallel
from mslang.transform.primitives.loops import add_unit_loop, split
from tests.unit.transform.programs import block, buffer, chain, loop, matmul, outline, sizes
from tests.unit.transform.workloads import conv2d, diamond


def test_places():
    p = conv2d(5, 5, 2, 2)
    assert legal_locations(p, block("pad")) == (Place.INLINE, Place.ROOT, loop("h_1"), loop("w_1"), loop("co"))
    assert legal_locations(p, block("relu")) == (Place.ROOT,)
    assert legal_locations(p, block("conv")) == (Place.ROOT, loop("h_2"), loop("w_2"), loop("co_1"))


def test_places_skip_unit_loops_and_spatial_loops_under_reductions():
    p = split(matmul(8, 6, 4), loop("k"), sizes(None, 2)).program
    p = cache_read(p, block("mm"), buffer("A")).program
    p = add_unit_loop(p, loop("j")).program
    from mslang.transform.primitives.loops import reorder

    p = reorder(p, [loop("k_0"), loop("j")]).program
    found = [x.name for x in legal_locations(p, block("A_global")) if isinstance(x, LoopRef)]
    assert found == ["i", "k_0"]


def test_places_stop_at_the_loops_that_all_consumers_share():
    p = compute_at(diamond(), block("right"), loop("x_3")).program
    p = compute_at(p, block("left"), loop("x_3")).program
    assert legal_locations(p, block("first"))[2:] == (loop("x_3"),)
    assert legal_locations(diamond(), block("first")) == (Place.INLINE, Place.ROOT)


def test_parallel_loops_are_places():
    p = parallel(chain(), loop("x_1")).program
    assert loop("x_1") in legal_locations(p, block("first"))
    assert "x_1 in 0+8 @ parallel" in outline(p)
