"""reindex_cache_read and reindex_cache_write: layouts of one's own, and the maps that are refused."""

from mslang.transform.outcome import BlockRef
from mslang.transform.primitives.reindex import reindex_cache_read, reindex_cache_write
from tests.unit.transform.programs import block, buffer, index_map, matmul, refused
from tests.unit.transform.staged import accepted, program

COPY = program("A: f32[8, 4], out C: f32[8, 4]", "block b[i: 8, j: 4] { C[i, j] = A[i, j] }")
TURNED = index_map("ij", lambda i, j: (j, i))


def test_a_tiled_layout_to_read():
    p = matmul(8, 6, 4)
    made = reindex_cache_read(
        p, block("mm"), buffer("A"), "shared", index_map("xyz", lambda x, y, z: (z // 2, x, z % 2))
    )
    text = accepted(p, made)
    assert made.handles == (BlockRef("A_shared"),)
    assert "alloc A_shared_1: f32[2, 8, 2] @ shared" in text


def test_a_flat_layout_to_write():
    p = matmul(8, 6, 4)
    made = reindex_cache_write(p, block("mm"), buffer("C"), "local", index_map("xyz", lambda x, y, z: (x * 6 + y,)))
    assert "alloc C_local_1: f32[48] @ local" in accepted(p, made)


def test_the_copy_stands_after_the_writer_in_the_loop_shared_with_it():
    p = program(
        "A: f32[8, 4], out C: f32[8, 4]",
        """
        alloc T: f32[8, 4]
        for i in 0..8 {
            for j in 0..4 { block a[i: 8 = i, j: 4 = j] { T[i, j] = A[i, j] * 2.0 } }
            for j1 in 0..4 { block b[i: 8 = i, j: 4 = j1] { C[i, j] = T[i, j] } }
        }
        """,
    )
    text = accepted(p, reindex_cache_read(p, block("b"), buffer("T"), "local", TURNED))
    assert text.index("block a") < text.index("block T_local") < text.index("block b")
    assert text.count("for i ") == 1
    text = accepted(p, reindex_cache_write(p, block("a"), buffer("T"), "local", TURNED))
    assert text.index("block a") < text.index("block T_local") < text.index("block b")


def test_a_map_that_gives_the_same_indices_twice_is_refused():
    for given in (index_map("ij", lambda i, j: (i + j,)), index_map("ij", lambda i, j: (i // 2, j))):
        with refused("MS361", "same indices"):
            reindex_cache_read(COPY, block("b"), buffer("A"), "local", given)
        with refused("MS361", "same indices"):
            reindex_cache_write(COPY, block("b"), buffer("C"), "local", given)


def test_a_map_of_other_axes_is_refused():
    with refused("MS361", "axis `j`"):
        reindex_cache_read(COPY, block("b"), buffer("A"), "local", index_map("ij", lambda i, j: (i,)))
    p = matmul(8, 6, 4)
    with refused("MS361", "axis `y`", "map alone"):
        reindex_cache_read(p, block("mm"), buffer("A"), "local", index_map("xyz", lambda x, y, z: (x, y, z)))


def test_a_map_that_goes_below_0_or_has_another_arity_or_ranges_is_refused():
    with refused("MS361", "below 0"):
        reindex_cache_read(COPY, block("b"), buffer("A"), "local", index_map("ij", lambda i, j: (i - 1, j)))
    with refused("MS361", "takes 1 indices"):
        reindex_cache_read(COPY, block("b"), buffer("A"), "local", index_map("i", lambda i: (i,)))
    with refused("MS361", "range"):
        reindex_cache_read(COPY, block("b"), buffer("A"), "local", index_map("ij", lambda i, j: ((i, i + 1), j)))


def test_a_region_of_several_elements_is_refused():
    p = program("A: f32[9], out C: f32[8]", "block b[i: 8] { C[i] = A[i] + A[i + 1] }")
    with refused("MS360"):
        reindex_cache_read(p, block("b"), buffer("A"), "local", index_map("i", lambda i: (i,)))


def test_several_writers_are_refused():
    p = program("A: f32[8], out C: f32[16]", "block a[i: 8] { C[i] = A[i] }\n block b[i: 8] { C[i + 8] = A[i] }")
    with refused("MS331"):
        reindex_cache_write(p, block("a"), buffer("C"), "local", index_map("i", lambda i: (i,)))


def test_a_reader_inside_of_a_loop_that_still_reduces_is_refused():
    p = program(
        "A: f32[8, 4], out C: f32[8], out D: f32[8]",
        """
        for k in 0..4, i in 0..8 {
            block s[i: 8 = i | k: 4 = k] { C[i] += A[i, k] }
            block r[i: 8 = i] { D[i] = C[i] }
        }
        """,
    )
    with refused("MS346", "`k` still reduces"):
        reindex_cache_write(p, block("s"), buffer("C"), "local", index_map("ik", lambda i, k: (i,)))


def test_unknown_scopes_and_buffers_are_refused():
    with refused("MS334"):
        reindex_cache_read(COPY, block("b"), buffer("A"), "attic", TURNED)
    with refused("MS330", "does not write `A`"):
        reindex_cache_write(COPY, block("b"), buffer("A"), "local", TURNED)


def test_iterations_that_run_at_once_stay_apart():
    # Each iteration uses the one element that it wrote; told by `x` and `y` apart, the copy would read others, too.
    p = program(
        "A: f32[8], inout C: f32[32], out B: f32[32]",
        """
        for p in 0..8 @ parallel {
            block w[x: 8 = p] { C[x * 4] = A[x] }
            for j in 0..4 { block b[x: 32 = p * 4 + j, y: 4 = j] { B[x] = C[x - y] } }
        }
        """,
    )
    with refused("MS346", "iterations of the parallel loop `p` would access the same elements", "`C`", "gets its kind"):
        reindex_cache_read(p, block("b"), buffer("C"), "local", index_map("xy", lambda x, y: (x, y)))


def test_a_copy_reads_no_more_than_the_block_around_it():
    """Axes have more values than they take: `k` is even here (seed 37, pair 1323 of `instances`)."""
    text = """
        for z in 0..1 {
            block around[z: 1 = z] {
                reads A[0 .. LAST, 0], C[0, 0]
                writes C[0, 0]
                for l in 0..4 { block b[j: 1 = z | k: 7 = l * 2] { init {} C[j, j] = max(C[j, j], A[k % 2, 0]) } }
            }
        }
        """
    one, both = (program("A: f32[2, 1], inout C: f32[1, 1]", text.replace("LAST", n)) for n in "12")
    columns = index_map("jk", lambda j, k: (k,))
    with refused("MS332", "more of `A` than block `around`"):
        reindex_cache_read(one, block("b"), buffer("A"), "global", columns)
    accepted(both, reindex_cache_read(both, block("b"), buffer("A"), "global", columns))
