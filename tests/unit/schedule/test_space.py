"""Spaces: structures, draws, pins, unions and sequences."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import pytest

from mslang.diagnostics import MsError, Severity
from mslang.ir.print import print_program
from mslang.schedule.interpret import Interpreter, World
from mslang.schedule.space import DRAWS, Candidate, Illegal, NoCandidate, Rejection
from mslang.schedule.strategies import space_of
from mslang.target.description import Target
from tests.unit.schedule.samples import body, module, space

ROOT = Path(__file__).parents[3]


def test_structures_are_enumerated_once_each():
    sketches = list(space("tiled").sketches())
    keys = [(s.structure, tuple(g.answer for g in s.guards)) for s in sketches]
    assert keys == [((("order", o),), (a,)) for o in ("straight", "swapped") for a in (True, False)]


@pytest.mark.parametrize(
    ("values", "labels"),
    [('["a", "b", "a"]', ["a", "b"]), ("[1.5, 1.5, 2.5]", [1.5, 2.5]), ("[true, 1, false, true]", [True, 1, False])],
)
def test_an_alternative_that_is_listed_twice_is_one_structure(values: str, labels: list[object]):
    found = list(islice(body(f"let x ~ choose({values})").structures(), 8))
    assert [[x for _, x in s.structure] for s in found] == [[x] for x in labels]


def test_a_seed_gives_one_candidate_whatever_was_drawn_before():
    fresh = [space("either").sample(seed) for seed in range(10)]
    shared = space("either")
    backwards = [shared.sample(seed) for seed in reversed(range(10))]
    assert fresh == list(reversed(backwards))
    assert len({str(c.decisions) for c in fresh}) > 5
    assert shared.replays <= 9


def test_another_process_draws_the_same():
    code = (
        "from tests.unit.schedule.samples import space\n"
        "s = space('either')\n"
        "print([s.sample(k).trace.as_json() for k in range(4)])\n"
        "from mslang.ir.print import print_program\n"
        "print([print_program(s.sample(k).program) for k in range(4)])\n"
    )

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    traces, programs = out.stdout.strip().split("\n")
    made = space("either")
    assert traces == str([made.sample(k).trace.as_json() for k in range(4)])
    assert programs == str([print_program(made.sample(k).program) for k in range(4)])


def test_replaying_the_decisions_gives_the_candidate():
    made = space("either")
    for seed in range(8):
        c = made.sample(seed)
        assert space("either").replay(c.decisions) == c


def test_pins_are_kept_and_the_rest_is_drawn():
    made = space("tiled")
    c = made.sample(3, {"order": "swapped", "ti": (8, 2, 2, 2)})
    assert (c.decisions["order"], c.decisions["ti"]) == ("swapped", (8, 2, 2, 2))
    assert {made.sample(s, {"order": "swapped"}).decisions["tj"] for s in range(8)} != {c.decisions["tj"]}


@pytest.mark.parametrize(
    ("pins", "code", "words"),
    [
        ({"tii": (1, 2)}, "MS251", "tii"),
        ({"order": "sideways"}, "MS254", "straight"),
        ({"ti": "text"}, "MS254", "list of 4"),
    ],
)
def test_pins_that_cannot_be_kept(pins: dict[str, object], code: str, words: str):
    with pytest.raises(MsError) as caught:
        space("tiled").sample(0, pins)  # type: ignore[arg-type]
    d = caught.value.diagnostic
    assert d.code == code and words in f"{d.message} {d.why} {d.help}"


def test_a_pin_chooses_the_alternatives_that_have_it():
    made = space("either")
    for seed in range(6):
        c = made.sample(seed, {"a/t": (8, 8)})
        assert c.decisions["either"] == "helpers >> mark" and c.decisions["a/t"] == (8, 8)
    with pytest.raises(MsError) as caught:
        made.sample(0, {"nowhere": 1})
    assert caught.value.diagnostic.code == "MS251"
    with pytest.raises(MsError) as caught:
        made.replay({**made.sample(0).decisions, "nowhere": 1})
    assert caught.value.diagnostic.code == "MS251"


def test_a_stale_pin_is_repaired_with_a_warning_and_strict_refuses_it():
    made = space("tiled")
    c = made.sample(0, {"ti": (16, 4, 2, 8)})
    assert c.decisions["ti"] == (1, 4, 2, 8)
    assert [(w.code, w.severity) for w in c.warnings] == [("MS254", Severity.WARNING)]
    with pytest.raises(MsError, match="ti"):
        made.sample(0, {"ti": (16, 4, 2, 8)}, strict=True)


def test_requirements_are_drawn_again_and_counted():
    made = body(
        'let t ~ perfect_tile(mm.i, n = 2)\nrequire t[1] == 8, "eight it is"\n'
        'let u ~ choose([1, 2])\nrequire u * t[0] > 100, "nothing is large enough"'
    )
    with pytest.raises(NoCandidate) as caught:
        made.sample(0)
    assert sum(caught.value.reasons.values()) == DRAWS
    assert set(caught.value.reasons) == {"eight it is", "nothing is large enough"}
    some = body('let t ~ perfect_tile(mm.i, n = 2)\nrequire t[1] == 8, "eight it is"')
    assert {some.sample(s).decisions["t"] for s in range(5)} == {(8, 8)}


def test_pinned_decisions_that_are_rejected_say_why_at_once():
    with pytest.raises(MsError, match="eight it is"):
        body('let t ~ perfect_tile(mm.i, n = 2) = [4, 16]\nrequire t[1] == 8, "eight it is"').sample(0)


def test_a_structure_that_a_primitive_refuses_is_drawn_around():
    made = body("fork way {\n case good { mm.i.unroll() }\n case bad { mm.k.parallel() }\n}")
    found = list(made.structures())
    assert [type(s).__name__ for s in found] == ["Sketch", "Illegal"]
    assert isinstance(found[1], Illegal) and "parallel" in found[1].diagnostic.message
    assert {made.sample(s).decisions["way"] for s in range(8)} == {"good"}
    with pytest.raises(MsError, match="parallel"):
        made.sample(0, {"way": "bad"})


def test_unions_and_sequences():
    made = space("either")
    labels = [dict(s.structure)["either"] for s in made.sketches()]
    assert list(dict.fromkeys(labels)) == ["tiled", "tiled(max_inner = 16)", "helpers >> mark"]
    for seed in range(12):
        c = made.sample(seed)
        chosen = c.decisions["either"]
        assert c.trace.source == ("either" if chosen == "helpers >> mark" else chosen)
        assert ("either" in c.trace.decisions) == (chosen == "helpers >> mark")


def test_a_fork_pinned_in_the_text_has_one_structure():
    made = body("fork way = b {\n case a { mm.i.unroll() }\n case b { mm.j.unroll() }\n}")
    assert [s.structure for s in made.sketches()] == [(("way", "b"),)]
    assert made.sample(0, {"way": "a"}).decisions == {"way": "a"}


def test_a_call_pins_what_it_draws():
    text = 'schedule s for chain on wide { apply(mark) with { "mark:first/u" = 4 } }\n'
    assert space("s", text).sample(0).decisions["mark:first/u"] == 4
    wrong = text.replace("first", "third_")
    with pytest.raises(MsError, match="mark:third_/u"):
        space("s", wrong).sample(0)


def test_weights_steer_structure_and_numbers():
    made = body('let a ~ choose(["x", "y"], weights = [0, 1])\nlet b ~ choose([1, 2], weights = [1, 0])')
    assert {tuple(made.sample(s).decisions.values()) for s in range(10)} == {("y", 1)}


def test_native_rules_take_part_in_a_space():
    def outer_parallel(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        block = it.session.named("mm")
        loops = it.session.call("loops", (block,), {})
        assert isinstance(loops, tuple)
        it.session.call("parallel", (loops[0],), {})
        return None

    text = "use std.cpu.{auto_parallel}\nspace all for matmul on wide = helpers >> mark | auto_parallel >> mark\n"
    world = World(natives={"std.cpu.auto_parallel": outer_parallel})
    made = space_of(module(text), "all", world=world)
    programs = [s.trace.instructions[0].op for s in made.sketches()]
    assert programs == ["perfect_tile", "parallel"]
    # without the world's own the library's rule runs
    own = space_of(module(text), "all").sample(0, {"all": "auto_parallel >> mark"})
    assert "auto_parallel:mm/unroll" in own.decisions


def test_spaces_nest_and_pins_apply_within():
    text = """
        space inner for matmul on wide = tiled with { order = swapped } | helpers
        space outer for matmul on wide = inner >> mark | (tiled | helpers)
    """
    sketches = list(space("outer", text).sketches())
    shown = [dict(s.structure) for s in sketches]
    assert all(s["order"] == "swapped" for s in shown if "order" in s and "inner" in s)
    assert {s["outer"] for s in shown} == {"inner >> mark", "tiled | helpers"}


def test_a_pin_that_names_no_decision_is_an_error_in_the_text():
    with pytest.raises(MsError) as caught:
        space("best", "schedule best for matmul on wide = tiled with { tii = [1, 2] }\n").sample(0)
    assert caught.value.diagnostic.code == "MS251" and caught.value.diagnostic.span is not None


def test_attempts_are_the_draws_of_a_sample():
    made = body('let t ~ perfect_tile(mm.i, n = 2)\nrequire t[1] == 8, "eight it is"')
    attempts = [made.attempt(3, k) for k in range(64)]
    first = next(k for k in attempts if isinstance(k, Candidate))
    assert first == made.sample(3)
    rejected = [k for k in attempts if isinstance(k, Rejection)]
    assert rejected and {(k.reason, k.illegal) for k in rejected} == {("eight it is", False)}


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("t == [8, 2]", {(8, 2)}),
        ("not (t != [8, 2])", {(8, 2)}),
        ("t != [8, 2]", {(1, 16), (2, 8), (4, 4), (16, 1)}),
        ("[t, 1] == [[t[0], 2], 1]", {(8, 2)}),
        ("t == t", {(1, 16), (2, 8), (4, 4), (8, 2), (16, 1)}),
    ],
)
def test_lists_with_open_sizes_are_compared_by_element(condition: str, values: set[tuple[int, int]]):
    made = body(f"let t ~ perfect_tile(mm.i, n = 2)\nrequire {condition}\nmm.i.split(t)", M=16)
    (sketch,) = made.sketches()
    assert {v["t"] for v in sketch.points()} == values


def test_lists_that_differ_for_all_values_are_refused():
    (refused,) = body("let t ~ perfect_tile(mm.i, n = 2)\nrequire t == [8, 2, 1]", M=16).structures()
    assert isinstance(refused, Illegal) and refused.diagnostic.code == "MS260"


def test_a_drawn_location_equals_the_word_for_it():
    text = """let l ~ compute_location(first)  let outer = second.i
        if l == root { third.annotate("at", "root") } if l == inline { third.annotate("at", "inline") }
        if l == at(outer) { third.annotate("at", "outer") }
        if l != root and l != inline and l != at(outer) { third.annotate("at", "inner") }"""
    found = {
        dict(s.structure)["l"]: [i.argument("value") for i in s.trace.instructions if i.op == "annotate"]
        for s in body(text, "chain").sketches()
    }
    assert found == {"inline": ["inline"], "root": ["root"], "at(i_1)": ["outer"], "at(j_1)": ["inner"]}


def test_points_are_the_valid_vectors():
    made = body(
        "let t ~ perfect_tile(mm.i, n = 2)\nlet u ~ perfect_tile(mm.j, n = 2, max_inner = 4)\n"
        'require t[1] >= u[1], "enough"'
    )
    (sketch,) = made.sketches()
    assert sketch.count() == 7 * 4
    points = list(sketch.points())
    assert 0 < len(points) < 28 and all(p["t"][1] >= p["u"][1] for p in points)  # type: ignore[index, operator]


def test_dependent_tiles_are_counted_and_drawn():
    made = body(
        "let t ~ perfect_tile(mm.i, n = 2)\nlet a, b = mm.i.split(t)\nlet u ~ perfect_tile(b, n = 2)\nb.split(u)"
    )
    (sketch,) = made.sketches()
    assert sketch.count() == len(list(sketch.points())) == sum(k + 1 for k in range(7))
    for seed in range(10):
        c: Candidate = made.sample(seed)
        t, u = c.decisions["t"], c.decisions["u"]
        assert isinstance(t, tuple) and isinstance(u, tuple)
        assert u[0] * u[1] == t[1]  # type: ignore[operator]


@pytest.mark.parametrize(("on", "cores"), [("on eight", 8), ("on host", 3), ("", 3)])
def test_machine_is_what_the_schedule_is_on_else_the_machine_at_hand(on: str, cores: int):
    text = f"""use std.cpu.{{host}}
target eight = cpu {{ cores = 8 }}
program p(A: f32[48], out C: f32[48]) {{ block b[i: 48] {{ C[i] = A[i] }} }}
schedule s for p {on} {{ let a, c = b.i.split([machine.cores, _]) }}
"""
    made = space_of(module(text), "s", world=World(machine=Target("at_hand", cores=3))).sample(0)
    assert f"for a in {cores}, c in {48 // cores}" in print_program(made.program)
