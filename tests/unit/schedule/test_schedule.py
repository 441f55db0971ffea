"""The Python API: handles, primitives, sampling, sizes."""

import pytest

import mslang as ms
from mslang.diagnostics import MsError, ScheduleError
from mslang.ir.find import loops_of, path_to_block
from mslang.schedule.schedule import Schedule, Size
from tests.unit.schedule.samples import space


def fresh(seed: int = 0, **sizes: int) -> Schedule:
    return Schedule(space("tiled", **sizes).program, target="wide", seed=seed)


def test_a_schedule_by_hand():
    s = fresh()
    mm = s.get("mm")
    tile = s.perfect_tile(s.axis(mm, "i"), 2, max_inner=8, name="ti")
    outer, inner = s.split(s.axis(mm, "i"), tile, names=["io", "ii"])
    rest = s.fuse(outer, inner, names=["all"])
    s.parallel(rest)
    s.annotate(mm, "width", tile[1])
    path = path_to_block(s.program, "mm")
    first = loops_of(path or ())[0]
    assert (first.var, first.kind) == ("all", "parallel")
    assert s.parametric != s.program
    assert "let io, ii = mm.i.split(ti)" in s.trace.as_ms()


def test_the_same_seed_draws_the_same():
    def drawn(seed: int) -> object:
        s = fresh(seed)
        s.perfect_tile(s.axis("mm", "i"), 3, name="t")
        s.choose(["a", "b", "c"], name="c")
        s.fork("f", ["x", "y"])
        return s.trace.decisions

    assert [drawn(k) for k in range(5)] == [drawn(k) for k in range(5)]
    assert len({str(drawn(k)) for k in range(8)}) > 3


def test_consumed_and_wrong_handles():
    s = fresh()
    i = s.axis("mm", "i")
    s.split(i, [None, 8])
    before = s.parametric
    with pytest.raises(ScheduleError) as caught:
        s.parallel(i)
    assert caught.value.diagnostic.code == "MS211"
    with pytest.raises(ScheduleError) as caught:
        s.parallel(s.get("mm"))
    assert caught.value.diagnostic.code == "MS203"
    with pytest.raises(ScheduleError):
        s.apply("no_such_thing")
    with pytest.raises(ScheduleError):
        s.split(s.axis("mm", "j"), [5, 5])
    assert s.parametric == before and len(s.trace.instructions) == 1


def test_a_handle_of_another_schedule_is_refused():
    s, other = fresh(), Schedule(space("s", "schedule s for chain on wide {}\n").program)
    for handle in (other.get("third"), *other.loops(other.get("third"))):
        with pytest.raises(ScheduleError) as caught:
            s.loops(handle)
        assert caught.value.diagnostic.code == "MS203"


def test_a_draw_that_fails_leaves_its_address_free():
    s = Schedule(space("tiled").program, pins={"t": "text"})
    with pytest.raises(ScheduleError):
        s.perfect_tile(s.axis("mm", "i"), 2, name="t")
    assert s.trace.instructions == () and s.trace.decisions == {}
    with pytest.raises(ScheduleError) as caught:
        s.perfect_tile(s.axis("mm", "i"), 2, name="t")
    assert caught.value.diagnostic.code == "MS254"


def test_sizes_calculate():
    s = fresh()
    t = s.perfect_tile(s.axis("mm", "i"), 2, name="t")
    a, b = t
    assert isinstance(a, Size) and isinstance(b, Size)
    assert a * b == 64
    assert isinstance(2 * a + b // 2 - 1, Size)
    condition = (a >= 2) & ~(b == 64) | (a % 3 < 1)
    assert isinstance(condition, Size)
    with pytest.raises(ScheduleError, match="depends on decisions"):
        bool(condition)
    s.require(condition, "some")
    assert s.trace.instructions[-1].op == "require"
    assert s.branch(a * b == 64) is True and s.sketch.guards == ()
    assert s.branch(a > 4) in (True, False) and len(s.sketch.guards) == 1


def test_a_requirement_not_kept_is_told():
    s = fresh()
    _, b = s.perfect_tile(s.axis("mm", "i"), 2, name="t", decision=[8, 8])
    assert isinstance(b, Size)
    s.require(b > 8, "more than eight")
    assert s.violation() == "more than eight"
    with pytest.raises(ScheduleError, match="never"):
        s.require(b > 64, "never")


def test_pins_and_decisions():
    program = space("tiled").program
    s = Schedule(program, pins={"t": (4, 16)})
    s.perfect_tile(s.axis("mm", "i"), 2, name="t")
    assert s.trace.decisions == {"t": (4, 16)}
    stale = Schedule(program, pins={"t": (4, 17)})
    stale.perfect_tile(stale.axis("mm", "i"), 2, name="t")
    assert stale.trace.decisions == {"t": (4, 16)} and [w.code for w in stale.warnings] == ["MS254"]


def test_getters():
    s = Schedule(space("s", "schedule s for chain on wide {}\n").program)
    first, second = s.get("first"), s.get("second")
    assert s.consumers(first) == (second,) and s.producers(second) == (first,)
    assert len(s.loops(second)) == 2
    assert s.extent(s.loops(first)[0]) == 16
    assert s.ask("is_injective", first) is True and s.ask("is_output", first) is False
    assert s.children(s.loops(first)[0]) == (first,)
    assert repr(first) == "<block first>"


def test_structural_sampling_from_python():
    s = Schedule(space("s", "schedule s for chain on wide {}\n").program, seed=3)
    place = s.compute_location(s.get("second"), name="place")
    s.compute_at(s.get("second"), place)
    order = s.permute(s.loops(s.get("third")), name="order")
    assert set(order) == set(s.loops(s.get("third")))
    assert s.uniform(1, 9, name="u") is not None
    flat = s.trace.as_ms()
    assert f"let place ~ compute_location(second) = {s.trace.decisions['place']}" in flat
    assert "second.compute_at(place)" in flat


def test_a_trace_without_a_source_has_no_pinned_call():
    with pytest.raises(MsError, match="no source"):
        fresh().trace.as_ms("x", pinned=True)


def test_a_drawn_place_is_refused_as_the_primitive_that_it_stands_for():
    text = """program p(X: i32[14], inout U: i32[4, 4]) {
        for l0 in 4, l1 in 3 {
            block x[i: 4 = 3 - l0, j: 4 = l1 + 1] { U[i, j] = X[(i + 2) % 4] + X[(i + 2) % 4 + 1] }
        }
    }
    schedule s for p {
        let index_0, index_1 = x.cache_index()
        x.cache_write(U, local)
        index_0.i.specialize(false)
        let at ~ compute_location(x) = inline
        x.reverse_compute_at(at)
    }"""
    with pytest.raises(ScheduleError) as refused:
        ms.parse(text).space("s").sample(0)
    assert refused.value.diagnostic.message.startswith("reverse_compute_inline: ")
