"""A user's own primitive: its signature from annotations, its result checked, its name its own."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.diagnostics import MsError, ScheduleError
from mslang.ir.expr import Expr
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Program
from mslang.ops.signature import Kind
from mslang.transform.outcome import BlockRef, BufferRef, Gone, LoopRef, Outcome, then
from mslang.transform.primitive import primitive
from mslang.transform.primitives.loops import reorder, split
from mslang.transform.registries import BUILT_IN, REGISTRY, Registry
from mslang.transform.rename import rename

COPY = "program copy(A: f32[12], out B: f32[12]) { block b[i: 12] { B[i] = A[i] } }"
TEXT = COPY + "\nschedule s for copy { let way, turn = b.i.interleave(4)\n way.parallel() }\n"


@primitive(gives=(LoopRef, LoopRef), consumes=("loop",))
def interleave(program: Program, loop: LoopRef, ways: Expr) -> Outcome:
    """Deal iterations out in turn."""
    halves = split(program, loop, [None, ways])
    turn, way = halves.handles
    return then(halves, reorder(halves.program, [way, turn]), handles=(way, turn))


@primitive(gives=(LoopRef,), many=True, consumes=("loops",))
def cut(program: Program, *loops: LoopRef, parts: int = 2) -> Outcome:
    """Cut the first of some loops."""
    return split(program, loops[0], [ms_const(parts), None])


def ms_const(value: int) -> Expr:
    from mslang.ir.expr import Const

    return Const(value)


MINE = REGISTRY.with_(interleave, cut)


def test_the_signature_is_read_from_the_annotations():
    @primitive(params={"scope": Kind.SCOPE}, family="mine")
    def much(
        program: Program,
        target: LoopRef | BlockRef,
        buffer: BufferRef,
        scope: str,
        sizes: Sequence[Expr],
        factors: Sequence[Expr | None],
        blocks: tuple[BlockRef, ...],
        map: IndexMap | None = None,
        *,
        times: int = 1,
        really: bool = False,
        note: str = "",
    ) -> Outcome:
        return Outcome(program)

    shown = [(p.name, p.kind, p.keyword) for p in much.signature.params]
    assert shown == [
        ("target", Kind.LOOP_OR_BLOCK, False),
        ("buffer", Kind.BUFFER, False),
        ("scope", Kind.SCOPE, False),
        ("sizes", Kind.SIZES, False),
        ("factors", Kind.FACTORS, False),
        ("blocks", Kind.BLOCKS, False),
        ("map", Kind.INDEX_MAP, False),
        ("times", Kind.INT, True),
        ("really", Kind.BOOL, True),
        ("note", Kind.STR, True),
    ]
    assert much.signature.family == "mine"


def test_python_text_and_traces_use_it():
    source = ms.parse(TEXT, registry=MINE)
    program = source.program("copy")
    s = ms.Schedule(program, registry=MINE)
    way, turn = s.apply("interleave", s.axis("b", "i"), 4, names=("way", "turn"))
    s.apply("parallel", way)
    assert turn.name == "turn"
    drawn = source.space("s").sample(0)
    assert ms.print_program(s.program) == ms.print_program(drawn.program)
    assert "let way, turn = b.i.interleave(4)" in s.trace.as_ms()
    assert ".apply('interleave'" in s.trace.as_python() or ".interleave(" in s.trace.as_python()
    from mslang.schedule.replay import replay
    from mslang.schedule.trace import Trace

    again = replay(program, Trace.from_json(s.trace.as_json(), MINE))
    assert again.program == s.program


def test_a_variadic_one_gets_its_handles():
    s = ms.Schedule(ms.parse(TEXT, registry=MINE).program("copy"), registry=MINE)
    made = s.apply("cut", s.axis("b", "i"), parts=3)
    assert [str(s.extent(x)) for x in made] == ["3", "4"]


def test_what_it_consumes_is_dead():
    with pytest.raises(MsError) as refused:
        ms.parse(TEXT.replace("way.parallel()", "let a = b.i\n let c, d = a.interleave(2)\n a.unroll()"), registry=MINE)
    (d,) = refused.value.diagnostics
    assert d.code == "MS211" and "`interleave` consumed it" in (d.why or "")


def test_a_built_in_name_is_refused():
    named = replace(interleave, signature=replace(interleave.signature, name="split"))
    with pytest.raises(MsError) as refused:
        REGISTRY.with_(named)
    assert refused.value.diagnostic.code == "MS213"
    with pytest.raises(MsError) as twice:
        MINE.with_(interleave)
    assert twice.value.diagnostic.code == "MS213"


def test_a_registry_never_changes():
    assert MINE.find("interleave") is interleave.signature
    assert REGISTRY.find("interleave") is None and BUILT_IN.find("interleave") is None


def test_what_the_text_itself_calls_so_comes_first():
    text = TEXT + "\nfn interleave(l: loop, n: int) { return l.split([_, n]) }"
    source = ms.parse(text.replace("way.parallel()", ""), registry=MINE)
    assert "for i_0 in 3, i_1 in 4" in ms.print_program(source.space("s").sample(0).program)


def broken_program(program: Program, loop: LoopRef) -> Outcome:
    return Outcome(replace(program, body=(*program.body, *program.body)))


def fails(program: Program, loop: LoopRef) -> Outcome:
    raise KeyError("oops")


def lies(program: Program, loop: LoopRef) -> Outcome:
    return Outcome(program, (loop,))


def invents(program: Program, loop: LoopRef) -> Outcome:
    return Outcome(program, (LoopRef("nowhere"),))


@pytest.mark.parametrize(
    ("function", "gives", "code", "why"),
    [
        (broken_program, (), "MS396", "b"),
        (fails, (), "MS397", "KeyError: 'oops'"),
        (lies, (), "MS396", "it declares no results and gives loop"),
        (invents, (LoopRef,), "MS396", "`nowhere`, which its program has not"),
    ],
)
def test_a_faulty_one_is_one_diagnostic_and_changes_nothing(function, gives, code, why):
    made = primitive(gives=gives)(function)
    s = ms.Schedule(ms.parse(COPY).program(), registry=REGISTRY.with_(made))
    before = s.parametric
    with pytest.raises(ScheduleError) as refused:
        s.apply(made.name, s.axis("b", "i"))
    d = refused.value.diagnostic
    assert d.code == code and why in (d.why or "") and made.name in d.message
    assert function.__name__ in (d.help or "")
    assert s.parametric is before and not s.trace.instructions


def test_what_cannot_be_a_primitive_is_refused():
    def no_annotation(program: Program, loop) -> Outcome: ...

    def no_program(loop: LoopRef) -> Outcome: ...

    def nothing(program: Program) -> Outcome: ...

    for function in (no_annotation, no_program, nothing):
        with pytest.raises(MsError) as refused:
            primitive()(function)
        assert refused.value.diagnostic.code == "MS214"
    with pytest.raises(MsError) as refused:
        primitive(consumes=("x",))(lies)
    assert refused.value.diagnostic.code == "MS214"


def test_then_follows_handles_through_both():
    program = ms.parse(COPY).program()
    outcome = interleave(program, LoopRef("i"), ms_const(4))
    gone = outcome.forward[LoopRef("i")]
    assert isinstance(gone, Gone) and set(gone.into) == set(outcome.handles)
    renamed = rename(outcome.program, {outcome.handles[0]: "w"})
    both = then(outcome, renamed)
    assert LoopRef("w") in both.forward[LoopRef("i")].into


def test_an_editor_imports_nothing_that_is_not_allowed(tmp_path, monkeypatch):
    info = tmp_path / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[mslang.primitives]\nwreck = evil_module:wreck\nsplit = evil_module:wreck\n"
    )
    (tmp_path / "evil_module.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    from mslang import extensions as discovery

    discovery.declared.cache_clear()
    discovery.extension.cache_clear()
    try:
        refused = Registry(packages=frozenset())
        assert refused.find("wreck") is None
        assert refused.problem("wreck").code == "MS215"
        assert "wreck" not in refused.operations
        assert not (tmp_path / "ran").exists()
        assert Registry(packages=frozenset({"evil"})).problem("wreck").code == "MS212"
        assert (tmp_path / "ran").exists()
        assert REGISTRY.find("split") is BUILT_IN.find("split")
        assert {e.name for e in REGISTRY.installed()} >= {"split", "wreck"}
        assert all(e.problem is not None for e in REGISTRY.installed() if e.package == "evil")
    finally:
        monkeypatch.undo()
        discovery.declared.cache_clear()
        discovery.extension.cache_clear()
