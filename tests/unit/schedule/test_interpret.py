"""What each statement of the schedule language does, and how it fails."""

import pytest

from mslang.diagnostics import MsError
from mslang.ir.buckets import buckets_of, restricted
from mslang.ir.expr import Const
from mslang.ir.find import blocks_of, loops_of, path_to_block
from mslang.schedule.instruction import Operand
from mslang.schedule.replay import replay
from mslang.schedule.space import Candidate, Space
from mslang.schedule.strategies import space_of
from mslang.sema.program import instantiate
from tests.unit.schedule.samples import body, module, space


def loops(candidate: Candidate, block: str = "mm") -> list[str]:
    path = path_to_block(candidate.program, block)
    assert path is not None
    return [s.var for s in loops_of(path)]


def failing(statements: str, program: str = "matmul") -> MsError:
    with pytest.raises(MsError) as caught:
        body(statements, program).sample(0)
    return caught.value


def text_at(error: MsError, statements: str) -> str:
    d = error.diagnostic
    source = body(statements)
    assert source is not None and d.span is not None
    whole = module(f"schedule s for matmul on wide {{\n{statements}\n}}\n").file.text
    return whole[d.span.start : d.span.end]


# ------------------------------------------------------------------ names and handles
def test_binders_name_the_loops():
    assert loops(body("let io, ii = mm.i.split([_, 16])").sample(0))[:2] == ["io", "ii"]


def test_a_discarded_result_keeps_its_derived_name():
    names = loops(body("let _, inner = mm.i.split([_, 16])").sample(0))
    assert names[1] == "inner" and names[0] not in ("_", "inner")


def test_a_star_takes_what_is_left_on_either_side():
    found = body("let *outer, last = mm.i.split([2, 2, 2, 8])\nlast.unroll()\nlet first, *_x = mm.j.split([2, 24])")
    names = loops(found.sample(0))
    assert names[3] == "last" and names[4] == "first"


def test_a_taken_binder_gets_a_number():
    found = body("let a, b = mm.i.split([_, 8])\nlet a, c = mm.j.split([_, 8])\na.parallel()\nreorder(a, c)")
    assert loops(found.sample(0))[:4] == ["a", "b", "a_1", "c"]


def test_axes_are_found_again_after_rewrites():
    trace = body("reorder(mm.k, mm.i)\nmm.i.parallel()").sample(0).trace
    assert [i.op for i in trace.instructions] == ["reorder", "parallel"]


@pytest.mark.parametrize(
    ("statements", "code", "place", "words"),
    [
        ("let a, b = mm.i.split([_, 8])\nmm.i.unroll()", "MS302", "mm.i", "several loops"),
        ("let i = mm.i\nlet a, b = i.split([_, 8])\ni.unroll()", "MS211", "i.unroll()", "split"),
        ("nowhere.unroll()", "MS201", "nowhere", "unknown name"),
        ("mm.i.unrol()", "MS202", "mm.i.unrol()", "unrol"),
        ("mm.x.unroll()", "MS302", "mm.x", "no axis"),
        ("mm.i.split(3)", "MS203", "mm.i.split(3)", "factors"),
        ("mm.i.split()", "MS205", "mm.i.split()", "missing"),
        ("mm.parallel()", "MS203", "mm.parallel()", "loop"),
        ("let a, b, c = mm.i.split([_, 8])", "MS206", "let a, b, c = mm.i.split([_, 8])", "3 names for 2"),
        ("let x = machine.speed", "MS204", "machine.speed", "no field"),
        ("let x ~ gauss(1, 2)", "MS202", "gauss", "perfect_tile"),
        ("let x = 1 / 2", "MS203", "1 / 2", "sizes divide"),
        ('let x = "%q" % "x"', "MS203", '"%q" % "x"', "does not apply"),
        ('let x = "%999999999s" % "x"', "MS203", '"%999999999s" % "x"', "does not apply"),
        ("let x = [1] * [2]", "MS203", "[1] * [2]", "does not apply"),
        (
            "let x ~ choose([1, 2], weights = [1e999, 1.0])",
            "MS203",
            "let x ~ choose([1, 2], weights = [1e999, 1.0])",
            "finite",
        ),
        ("let t ~ perfect_tile(mm.i, n = 2)\nlet y = t[2]", "MS203", "t[2]", "no element 2"),
        ("check 1 == 1", "MS207", "check 1 == 1", "test"),
        ('require 3 < 2, "never"', "MS260", 'require 3 < 2, "never"', "never"),
        ("for x in 3 { mm.i.unroll() }", "MS203", "3", "not a list"),
        ("tiled()", "MS207", "tiled()", "it gives the schedule `tiled()`"),
        ("mm.i.unroll()\nmark()", "MS207", "mark()", "apply(rule)"),
        ("let r = mark\nr()", "MS207", "r()", "apply(rule)"),
        ("std.cpu.auto()", "MS207", "std.cpu.auto()", "apply(rule)"),
        ("std.cpu.auto(mm)", "MS205", "std.cpu.auto(mm)", "takes no arguments"),
        ("std.cpu.auto_parallel(mm.i)", "MS203", "std.cpu.auto_parallel(mm.i)", "takes blocks, not the loop `i`"),
        ("std.rules.auto_inline(mm, 3)", "MS203", "std.rules.auto_inline(mm, 3)", "not the number 3"),
        ('std.tiling.multi_level(mm.i, "SRS")', "MS203", 'std.tiling.multi_level(mm.i, "SRS")', "takes blocks"),
        ("apply(std.tiling.multi_level)", "MS203", "apply(std.tiling.multi_level)", "takes a structure, not none"),
        ("apply(std.rules.named)", "MS203", "apply(std.rules.named)", "takes the name of a rule, not none"),
    ],
)
def test_faults_point_at_their_place(statements: str, code: str, place: str, words: str):
    error = failing(statements)
    d = error.diagnostic
    assert d.code == code
    assert text_at(error, statements) == place
    assert words in f"{d.message} {d.why} {d.help}"
    assert d.path == "samples.ms"


def test_a_consumed_handle_names_its_consumer_and_what_replaced_it():
    d = failing("let i = mm.i\nlet a, b = i.split([_, 8])\ni.unroll()").diagnostic
    assert d.why is not None and "i.split([_, 8])" in d.why
    assert d.help is not None and "`a`" in d.help and "`b`" in d.help
    assert d.notes and d.notes[0].message == "consumed here"


def test_a_fault_in_a_helper_notes_its_caller():
    extra = "fn bad(l: loop) { l.split([3, 3]) }\nschedule s for matmul on wide { bad(mm.i) }\n"
    with pytest.raises(MsError) as caught:
        space("s", extra).sample(0)
    d = caught.value.diagnostic
    assert [n.message for n in d.notes] == ["called from here"]


def test_endless_helpers_are_stopped():
    with pytest.raises(MsError, match="endlessly"):
        space("s", "fn f(l: loop) { f(l) }\nschedule s for matmul on wide { f(mm.i) }\n").sample(0)


# ------------------------------------------------------------------ control
def test_lists_and_comprehensions_tile_any_structure():
    candidate = body("""
        let tiles = [l.split([_, 4]) for l in mm.spatial_loops() if l.extent() > 4]
        let outer = [t[0] for t in tiles]
        let inner = [t[1] for t in tiles]
        reorder(*outer, *inner)
        if len(outer) == 2 { outer[0].parallel() }
        for l in inner { l.unroll() }
    """).sample(0)
    kinds = [(s.var, s.kind) for s in loops_of(path_to_block(candidate.program, "mm") or ())]
    assert [k for _, k in kinds] == ["parallel", "serial", "unrolled", "unrolled", "serial"]


def test_rules_apply_in_order_and_where_their_condition_holds():
    extra = """
        @order(consumers_first)
        rule inline_all(b: block, note: int = 3) when b.is_injective() and not b.is_output() {
            b.annotate("n", note)
        }
        schedule s for chain on wide { apply(inline_all(note = 5)) }
    """
    candidate = space("s", extra).sample(0)
    assert [(b.name, b.annotations) for b in blocks_of(candidate.program.body)] == [
        ("first", (("n", 5),)),
        ("second", (("n", 5),)),
        ("third", ()),
    ]
    assert candidate.trace.instructions[0].argument("target") == Operand("second")


def test_a_rule_is_a_method_too():
    extra = (
        'rule note(b: block) when b.is_reduction() { b.annotate("n") }\nschedule s for matmul on wide { mm.note() }\n'
    )
    (block,) = blocks_of(space("s", extra).sample(0).program.body)
    assert block.annotations == (("n", True),)


def test_consts_targets_and_sizes_are_in_scope():
    extra = (
        "const STEP = 4\nschedule s(twice: int = STEP * 2) for matmul on wide {\n"
        "    let a, b = mm.i.split([_, twice])\n    let c, d = mm.j.split([_, machine.vector_lanes])\n"
        '    b.annotate("lanes", wide.vector_lanes)\n}\n'
    )
    candidate = space("s", extra).sample(0)
    path = path_to_block(candidate.program, "mm") or ()
    assert [str(getattr(s.extent, "value", "")) for s in loops_of(path)][1] == "8"
    assert loops_of(path)[1].annotations == (("lanes", 16),)


def test_the_sizes_of_the_program_are_in_scope():
    made = body('let a, b = mm.i.split([M // 4, 4])\nb.annotate("k", K)', M=24, K=7)
    path = path_to_block(made.sample(0).program, "mm") or ()
    assert [s.extent for s in loops_of(path)][:2] == [Const(6), Const(4)]
    assert loops_of(path)[1].annotations == (("k", 7),)


STRIDED = """
    program strided[H = 9, S = 2, M: dyn(1..64, buckets = [8])](A: f32[M, (H - 1) * S + 1], out B: f32[M, H]) {
        block b[m: M, i: H] { B[m, i] = A[m, i * S] }
    }
    schedule by_stride for strided { b.annotate("S", S) }
"""


def test_sizes_that_no_shape_gives_are_in_scope():
    def noted(space: Space) -> object:
        return next(b for b in blocks_of(space.sample(0).program.body) if b.name == "b").annotations

    made = module(STRIDED)
    assert noted(space_of(made, "by_stride")) == (("S", 2),)
    assert noted(space_of(made, "by_stride", sizes={"S": 3})) == (("S", 3),)
    whole = instantiate(made, "strided")
    assert [noted(space_of(made, "by_stride", restricted(whole, b))) for b in buckets_of(whole)] == [(("S", 2),)] * 2
    with pytest.raises(MsError) as unknown:  # What the stride of another program is nothing says.
        space_of(made, "by_stride", instantiate(made, "strided", {"S": 3})).sample(0)
    assert unknown.value.diagnostic.code == "MS201"


def test_conditions_on_dynamic_sizes_are_settled_or_refused():
    program = """
        program dyn[N: dyn(1..64)](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] } }
        schedule fine for dyn on wide { if N <= 64 { b.i.unroll() } }
        schedule bad for dyn on wide { if N <= 32 { b.i.unroll() } }
        schedule chunks for dyn on wide {
            let t ~ tile(b.i, n = 2, max_inner = 8)
            let a, c = b.i.split(t)
        }
    """
    assert [i.op for i in space("fine", program).sample(0).trace.instructions] == ["unroll"]
    with pytest.raises(MsError) as caught:
        space("bad", program).sample(0)
    assert caught.value.diagnostic.code == "MS256"
    made = space("chunks", program)
    c = made.sample(0)
    tile = c.decisions["t"]
    assert isinstance(tile, tuple) and tile[0] is None and isinstance(tile[1], int) and 1 <= tile[1] <= 8
    assert f"= [_, {tile[1]}]" in c.trace.as_ms()
    assert replay(made.program, c.trace).program == c.program


def test_a_condition_on_decisions_is_a_guard():
    made = body("let t ~ perfect_tile(mm.i, n = 2)\nlet a, b = mm.i.split(t)\nif t[1] > 4 { b.unroll() }")
    sketches = list(made.sketches())
    assert [s.guards[0].answer for s in sketches] == [True, False]
    for seed in range(20):
        c = made.sample(seed)
        tile = c.decisions["t"]
        assert isinstance(tile, tuple) and isinstance(tile[1], int)
        kinds = {s.var: s.kind for s in loops_of(path_to_block(c.program, "mm") or ())}
        assert kinds["b"] == ("unrolled" if tile[1] > 4 else "serial")
        assert "if" not in c.trace.as_ms()


def test_a_condition_that_the_symbols_settle_is_no_guard():
    made = body("let t ~ perfect_tile(mm.i, n = 2, max_inner = 8)\nif t[1] <= 8 { mm.i.unroll() }")
    assert [s.guards for s in made.sketches()] == [()]


# ------------------------------------------------------------------ addresses
def test_addresses():
    extra = """
        fn two(l: loop) {
            let t ~ perfect_tile(l, n = 2)
            let a, b = l.split(t)
            let u = deeper(a)
        }
        fn deeper(l: loop) { let v ~ choose([1, 2]) l.annotate("v", v) }
        rule note(b: block) { let w ~ choose([1, 2]) b.annotate("w", w) }
        schedule s for matmul on wide {
            let x ~ choose([1, 2])
            let one = two(mm.i)
            let many = [two(l) for l in [mm.j]]
            for k in 0..2 { let y ~ choose([1, 2]) }
            let named as "other/name" ~ choose([1, 2])
            fork way { case a { let z ~ choose([1, 2]) } }
            apply(note)
        }
    """
    assert list(space("s", extra).sample(0).decisions) == [
        "x",
        "one/t",
        "one/u/v",
        "many[j]/t",
        "many[j]/u/v",
        "y[0]",
        "y[1]",
        "other/name",
        "way",
        "z",
        "note:mm/w",
    ]


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        ("let x ~ choose([1, 2])\nlet x ~ choose([1, 2])", "MS209"),
        ('let x ~ choose([1, 2])\nlet y as "x" ~ choose([1, 2])', "MS209"),
        ("fork { case a {} }\nfork { case b {} }", "MS209"),
        ("tiles(mm.i, 2)", "MS264"),
    ],
)
def test_bad_addresses(statements: str, code: str):
    assert failing(statements).diagnostic.code == code


def test_a_statement_added_moves_no_draw():
    before = body("let t ~ perfect_tile(mm.i, n = 3)\nlet u ~ perfect_tile(mm.j, n = 3)").sample(5)
    after = body(
        "let new ~ choose([1, 2, 3])\nlet t ~ perfect_tile(mm.i, n = 3)\nmm.k.unroll()\n"
        "let u ~ perfect_tile(mm.j, n = 3)"
    ).sample(5)
    assert before.decisions == {a: v for a, v in after.decisions.items() if a != "new"}


# ------------------------------------------------------------------ structural samplers
def test_compute_location_is_structure_and_pins_by_name():
    text = "let third_i, third_j = [third.i, third.j]\nlet at_ ~ compute_location(second)\nsecond.compute_at(at_)"
    made = body(text, "chain")
    labels = [dict(s.structure)["at_"] for s in made.sketches()]
    assert "root" in labels and any(str(x).startswith("at(") for x in labels) and len(set(labels)) == len(labels)
    place = next(str(x) for x in labels if str(x).startswith("at("))
    pinned = made.sample(0, {"at_": place})
    assert pinned.decisions["at_"] == place
    written = body(text.replace("(second)\n", f"(second) = {place}\n"), "chain").sample(1)
    assert written.program == pinned.program


def test_hooks_see_each_statement():
    from mslang.schedule.interpret import World
    from mslang.schedule.statements import Step
    from mslang.schedule.strategies import space_of
    from tests.unit.schedule.samples import module

    seen: list[Step] = []
    text = "schedule s for matmul on wide {\n    let a, b = mm.i.split([_, 8])\n    b.unroll()\n}\n"
    loaded = module(text)
    space_of(loaded, "s", world=World(on_step=seen.append)).sample(0)
    assert [s.site.text for s in seen] == ["let a, b = mm.i.split([_, 8])", "b.unroll()"]
    assert seen[0].after == seen[1].before != seen[1].after
    assert seen[0].instructions == 1 and set(seen[0].names) == {"a", "b"}
    span = seen[1].site.span
    assert span is not None and loaded.file.text[span.start : span.end] == "b.unroll()"
