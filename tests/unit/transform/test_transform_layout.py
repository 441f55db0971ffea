"""transform_layout: what it makes of buffers, padding, regions; what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from mslang.ide.findings import findings
from mslang.ir.expr import Const
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.schedule.replay import space_of_text
from mslang.schedule.schedule import Schedule
from mslang.sema.modules import load
from mslang.sema.program import instantiate, parse_program
from mslang.transform.outcome import Gone, LoopRef
from mslang.transform.primitives.caching import cache_write
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.loop_kinds import bind, parallel
from mslang.transform.primitives.transform_layout import transform_layout
from tests.unit.transform.layouts import fn, reads_as, same_meaning
from tests.unit.transform.programs import block, buffer, loop, refused

TILED = fn(lambda i, j: [i // 4, j, i % 4])


def two(n: int = 16) -> Program:
    return parse_program(f"""program p(A: f32[{n}, 8], out B: f32[{n}, 8]) {{
        alloc T: f32[{n}, 8]
        for i in {n}, j in 8 {{ block a[x: {n} = i, y: 8 = j] {{ T[x, y] = A[x, y] * 2.0 }} }}
        for k in {n}, l in 8 {{ block b[x: {n} = k, y: 8 = l] {{ B[x, y] = T[x, y] + 1.0 }} }}
    }}""")


def total(n: int = 14) -> Program:
    return parse_program(f"""program p(A: f32[{n}, 8], out B: f32[{n}]) {{
        alloc T: f32[{n}]
        for i in {n}, r in 8 {{ block a[x: {n} = i | z: 8 = r] {{ T[x] += A[x, z] }} }}
        for k in {n} {{ block b[x: {n} = k] {{ B[x] = T[x] + 1.0 }} }}
    }}""")


# ------------------------------------------------------------------ accepted
def test_shape_and_all_accesses_are_rewritten() -> None:
    p = two()
    done = transform_layout(p, block("b"), buffer("T"), TILED)
    assert done.handles == () and dict(done.forward) == {}
    reads_as(
        done.program,
        """program p(A: f32[16, 8], out B: f32[16, 8]) {
        alloc T: f32[4, 8, 4]
        for i in 16, j in 8 { block a[x: 16 = i, y: 8 = j] { T[x // 4, y, x % 4] = A[x, y] * 2.0 } }
        for k in 16, l in 8 { block b[x: 16 = k, y: 8 = l] { B[x, y] = T[x // 4, y, x % 4] + 1.0 } }
        }""",
    )
    same_meaning(p, done.program)


def test_indices_are_simplified_by_what_axes_are() -> None:
    p = parse_program("""program p(A: f32[4, 4], out B: f32[16]) {
        alloc T: f32[16]
        for i in 4, j in 4 { block a[x: 4 = i, y: 4 = j] { T[x * 4 + y] = A[x, y] } }
        for k in 16 { block b[x: 16 = k] { B[x] = T[x] } }
    }""")
    done = transform_layout(p, block("a"), buffer("T"), fn(lambda i: [i // 4, i % 4])).program
    assert [r.buffer for b in blocks_of(done.body) for r in b.writes] == ["T", "B"]
    reads_as(
        done,
        """program p(A: f32[4, 4], out B: f32[16]) {
        alloc T: f32[4, 4]
        for i in 4, j in 4 { block a[x: 4 = i, y: 4 = j] { T[x, y] = A[x, y] } }
        for k in 16 { block b[x: 16 = k] { B[x] = T[x // 4, x % 4] } }
        }""",
    )
    same_meaning(p, done)


def test_strides_and_offset_are_those_of_the_new_layout() -> None:
    p = parse_program("""program p(A: f32[8], out B: f32[8]) {
        alloc T: f32[8] @ global(strides = [3], align = 64)
        for i in 8 { block a[x: 8 = i] { T[x] = A[x] } }
        for k in 8 { block b[x: 8 = k] { B[x] = T[x] } }
    }""")
    done = transform_layout(p, block("a"), buffer("T"), fn(lambda i: [7 - i])).program
    found = all_buffers(done)["T"]
    assert found.strides is None and found.align == 64
    same_meaning(p, done)


def test_the_only_writer_writes_the_padding() -> None:
    p = two(14)
    done = transform_layout(p, block("a"), buffer("T"), TILED, pad=0)
    reads_as(
        done.program,
        """program p(A: f32[14, 8], out B: f32[14, 8]) {
        alloc T: f32[4, 8, 4]
        for i in 4, j in 8, l in 4 {
            block a[x: 4 = i, y: 8 = j, z: 4 = l] {
                T[x, y, z] = select(x * 4 + z < 14, A[x * 4 + z, y] * 2.0, 0.0)
            }
        }
        for k in 14, l_1 in 8 { block b[x: 14 = k, y: 8 = l_1] { B[x, y] = T[x // 4, y, x % 4] + 1.0 } }
        }""",
    )
    gone = done.forward[LoopRef("i")]
    assert isinstance(gone, Gone) and gone.by == "transform_layout" and len(gone.into) == 3
    same_meaning(p, done.program)
    # What the writer fills, consumers may be computed with.
    same_meaning(p, transform_layout(done.program, block("a"), buffer("T"), fn(lambda a, b, c: [b, a, c])).program)


def test_else_a_block_after_the_writer_fills_the_padding() -> None:
    p = total()
    done = transform_layout(p, block("a"), buffer("T"), fn(lambda i: [i // 4, i % 4]), pad=7)
    reads_as(
        done.program,
        """program p(A: f32[14, 8], out B: f32[14]) {
        alloc T: f32[4, 4]
        for i in 14, r in 8 {
            block a[x: 14 = i | z: 8 = r] {
                init { T[x // 4, x % 4] = 0.0 }
                T[x // 4, x % 4] += A[x, z]
            }
        }
        for u in 4, v in 4 { block T_pad[x: 4 = u, y: 4 = v] { where x * 4 + y >= 14  T[x, y] = 7.0 } }
        for k in 14 { block b[x: 14 = k] { B[x] = T[x // 4, x % 4] + 1.0 } }
        }""",
    )
    same_meaning(p, done.program)


def test_padding_is_filled_where_the_buffer_is_private() -> None:
    p = compute_at(total(), block("a"), loop("k")).program
    p = parallel(p, loop("k")).program
    done = transform_layout(p, block("a"), buffer("T"), fn(lambda i: [i + 2]), pad=3).program
    assert [b.name for b in blocks_of(done.body)] == ["a", "T_pad", "b"]
    same_meaning(p, done)


def test_a_map_onto_its_box_needs_no_padding_though_one_is_given() -> None:
    p = two()
    assert transform_layout(p, block("a"), buffer("T"), TILED, pad=0) == transform_layout(
        p, block("a"), buffer("T"), TILED
    )


def test_assume_injective_takes_your_word() -> None:
    p = parse_program("""program p(A: f32[4], out B: f32[4]) {
        alloc T: f32[4, 4]
        for i in 4 { block a[x: 4 = i] { T[x, x] = A[x] } }
        for k in 4 { block b[x: 4 = k] { B[x] = T[x, x] } }
    }""")
    diagonal = fn(lambda i, j: [i + j])
    with refused("MS384", "apart"):
        transform_layout(p, block("a"), buffer("T"), diagonal)
    done = transform_layout(p, block("a"), buffer("T"), diagonal, assume_injective=True).program
    assert [int(e.value) for e in all_buffers(done)["T"].shape] == [7]  # type: ignore[attr-defined]
    same_meaning(p, done)
    with refused("MS384", "which elements the map adds"):
        transform_layout(p, block("a"), buffer("T"), diagonal, pad=0, assume_injective=True)
    free = transform_layout(two(14), block("a"), buffer("T"), TILED, assume_injective=True).program
    same_meaning(two(14), free)


def test_a_block_of_blocks_declares_the_boxes_that_become_boxes() -> None:
    p = parse_program("""program p(A: f32[16, 4], out B: f32[16, 4]) {
        alloc T: f32[16, 4]
        for i in 4 {
            block o[v: 4 = i] {
                reads A[v * 4 .. v * 4 + 4, 0 .. 4]
                writes T[v * 4 .. v * 4 + 4, 0 .. 4]
                for j in 4, l in 4 { block a[x: 16 = v * 4 + j, y: 4 = l] { T[x, y] = A[x, y] } }
            }
        }
        for k in 16, l_1 in 4 { block b[x: 16 = k, y: 4 = l_1] { B[x, y] = T[x, y] } }
    }""")
    done = transform_layout(p, block("o"), buffer("T"), TILED).program
    outer = next(b for b in blocks_of(done.body) if b.name == "o")
    assert [[str(getattr(r.extent, "value", "")) for r in g.ranges] for g in outer.writes] == [["1", "4", "4"]]
    same_meaning(p, done)


def test_a_block_of_blocks_whose_box_is_scattered_declares_all_that_it_may_touch() -> None:
    p = parse_program("""program p(A: f32[16, 4], out B: f32[16, 4]) {
        alloc T: f32[16, 4]
        for i in 4 {
            block o[v: 4 = i] {
                reads A[v * 4 .. v * 4 + 4, 0 .. 4]
                writes T[v * 4 .. v * 4 + 4, 0 .. 4]
                for j in 4, l in 4 { block a[x: 16 = v * 4 + j, y: 4 = l] { T[x, y] = A[x, y] } }
            }
        }
        for k in 16, l_1 in 4 { block b[x: 16 = k, y: 4 = l_1] { B[x, y] = T[x, y] } }
    }""")
    done = transform_layout(p, block("o"), buffer("T"), fn(lambda i, j: [i // 8 + i % 8 * 2, j])).program
    assert not verify(done)
    same_meaning(p, done)
    with refused("MS332", "`T`"):
        cache_write(done, block("o"), buffer("T"))


def test_reads_of_several_elements_are_told_anew() -> None:
    p = parse_program("""program p(A: f32[10], out B: f32[8]) {
        alloc T: f32[10]
        for i in 10 { block a[x: 10 = i] { T[x] = A[x] } }
        for k in 8 { block b[x: 8 = k] { B[x] = T[x] + T[x + 2] } }
    }""")
    for f in (lambda i: [i // 5, i % 5], lambda i: [i % 3, i // 3], lambda i: [9 - i]):
        same_meaning(p, transform_layout(p, block("a"), buffer("T"), fn(f), pad=0).program)


def test_padding_by_the_index() -> None:
    p = two(14)
    by_index = fn(lambda i, j, k: [i * 100 + j * 10 + k])
    done = transform_layout(p, block("a"), buffer("T"), TILED, pad=by_index).program
    assert "f32(v0 * 100 + v1 * 10 + v2)" in print_program(done)
    same_meaning(p, done)
    after = transform_layout(
        total(), block("a"), buffer("T"), fn(lambda i: [i // 4, i % 4]), pad=fn(lambda i, j: [i - j])
    )
    assert "f32(v0 - v1)" in print_program(after.program)
    same_meaning(total(), after.program)
    for bad in (fn(lambda i, j: [i]), fn(lambda i, j, k: [i, j])):
        with refused("MS387", "for each element"):
            transform_layout(p, block("a"), buffer("T"), TILED, pad=bad)
    with refused("MS387", "one number"):
        transform_layout(p, block("a"), buffer("A"), TILED, pad=by_index)
    same_meaning(p, transform_layout(p, block("b"), buffer("B"), TILED, pad=by_index).program)


def test_a_pad_that_is_a_map_is_written_in_schedules() -> None:
    module = load(
        "pad.ms",
        """
        program p(A: f32[14], out B: f32[14]) {
            alloc T: f32[14]
            block a[i: 14] { T[i] = A[i] }
            block b[i: 14] { B[i] = T[i] }
        }
        schedule s for p { a.transform_layout(T, fn (i) -> [i // 4, i % 4], pad = fn (i, j) -> [i + j]) }
        """,
    )
    assert findings(module) == ()
    made = Schedule(instantiate(module, "p"))
    made.transform_layout(made.get("a"), made.get("T"), fn(lambda i: [i // 4, i % 4]), pad=fn(lambda i, j: [i + j]))
    again = space_of_text(made.trace.as_ms("s"), instantiate(module, "p")).sample(0)
    assert again.program == made.program
    with refused("MS203"):
        made.annotate(made.get("a"), "x", fn(lambda i: [i]))


@pytest.mark.parametrize("n", [3, 14, 16])
@pytest.mark.parametrize(
    ("f", "first"),
    [
        (fn(lambda i: [(i + 2) // 4, (i + 2) % 4]), 0),
        (fn(lambda i: [(i + 6) // 4, (i + 6) % 4]), 1),
        (fn(lambda i: [(i + 2) // 4, (i + 2) % 4 // 2, i % 2]), 0),
    ],
)
def test_padding_on_the_left(n: int, f: Any, first: int) -> None:
    p = total(n)
    done = transform_layout(p, block("a"), buffer("T"), f, pad=3).program
    same_meaning(p, done)
    rows = all_buffers(done)["T"].shape[0]
    assert isinstance(rows, Const) and rows.value == (n + 2 + 3) // 4 + first


def test_padding_on_the_left_of_two_dimensions_and_of_parameters() -> None:
    p = two(14)
    both = fn(lambda i, j: [(i + 1) // 4, (j + 3) // 2, (j + 3) % 2, (i + 1) % 4])
    for where, name in (("a", "T"), ("a", "A"), ("b", "B")):
        same_meaning(p, transform_layout(p, block(where), buffer(name), both, pad=3).program)


# ------------------------------------------------------------------ refused
@pytest.mark.parametrize(
    ("target", "f", "named", "code", "words"),
    [
        (("b", "A"), TILED, {}, "MS385", ["does not access", "`T`"]),
        (("a", "T"), fn(lambda i: [i]), {}, "MS383", ["1 indices, not 2"]),
        (("a", "T"), fn(lambda i, j: [i + j]), {}, "MS384", ["apart", "assume_injective"]),
        (("a", "T"), fn(lambda i, j: [i // 3, j, i % 3]), {}, "MS386", ["[6, 8, 3]", "v0 * 3 + v2 >= 16", "pad"]),
        (("a", "T"), fn(lambda i, j: [i // 3, j, i % 3]), {"pad": "x"}, "MS387", ["f32"]),
        (("a", "T"), fn(lambda i, j: [i // 3, j, i % 3]), {"pad": True}, "MS387", ["f32"]),
        (("no", "T"), TILED, {}, "MS301", ["`no`"]),
        (("a", "no"), TILED, {}, "MS301", ["`no`"]),
    ],
)
def test_refused(target: tuple[str, str], f: Any, named: dict[str, Any], code: str, words: list[str]) -> None:
    with refused(code, *words):
        transform_layout(two(), block(target[0]), buffer(target[1]), f, **named)


def test_padding_fits_the_type() -> None:
    p = parse_program("""program p(A: i8[7], out B: i8[7]) {
        alloc T: i8[7]
        for i in 7 { block a[x: 7 = i] { T[x] = A[x] } }
        for k in 7 { block b[x: 7 = k] { B[x] = T[x] } }
    }""")
    halves = fn(lambda i: [i // 4, i % 4])
    same_meaning(p, transform_layout(p, block("a"), buffer("T"), halves, pad=-128).program)
    for value in (128, -129, 1.5):
        with refused("MS387", "i8"):
            transform_layout(p, block("a"), buffer("T"), halves, pad=value)


def test_views_are_refused() -> None:
    p = parse_program(
        """program p(A: f32[8], out B: f32[8]) {
        alloc T: f32[8]
        for i in 8 { block a[x: 8 = i] { T[x] = A[x] } }
        for k in 2 {
            block b[x: 2 = k] {
                reads T[x * 4 .. x * 4 + 4]
                writes B[x * 4 .. x * 4 + 4]
                view V: f32[4] = T[x * 4 .. x * 4 + 4]
                for l in 4 { block c[y: 4 = l] { B[x * 4 + y] = V[y] } }
            }
        }
    }""".replace("B[x * 4 + y] = V[y]", "B[y] = V[y]").replace("writes B[x * 4 .. x * 4 + 4]", "writes B[0 .. 4]")
    )
    for name, touched in (("a", "T"), ("c", "V")):
        with refused("MS385", "view"):
            transform_layout(p, block(name), buffer(touched), fn(lambda i: [7 - i]))


def test_padding_is_not_filled_among_threads_or_lanes() -> None:
    p = compute_at(total(), block("a"), loop("k")).program
    for marked in (bind(p, loop("k"), "threadIdx.x").program,):
        with refused("MS388", "`k`", "concurrent"):
            transform_layout(marked, block("a"), buffer("T"), fn(lambda i: [i + 2]), pad=3)
