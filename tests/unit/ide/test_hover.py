"""Hover and definition."""

import pytest

from mslang.ide.definition import definition
from mslang.ide.hover import hover, with_run
from mslang.ide.program_at import program_at
from mslang.ide.snapshot import Snapshot
from tests.unit.ide.marks import PROGRAM, after, at, in_schedule


def text_at(place: tuple[Snapshot, str, int]) -> str:
    """The hover, with what running the schedule tells."""
    snapshot, path, offset = place
    found = hover(snapshot, path, offset)
    if found is None:
        return ""
    return with_run(found, program_at(snapshot, path, found.span.end) if found.runs else None).text


SPLIT = "    let ti ~ perfect_tile(mm.i, n = 2, max_inner = 8)\n    let j0, j1 = mm.j.split([_, 8])\n"


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        (SPLIT.replace("j1", "j<|>1"), ["extent 8", "mm.j", "spatial"]),
        (SPLIT.replace("j0", "<|>j0"), ["extent 4"]),
        (SPLIT + "    j1<|>.vectorize()", ["extent 8"]),
        (SPLIT.replace("ti ", "t<|>i "), ["perfect_tile(64, n = 2, max_inner = 8)", "4 values"]),
        ("    m<|>m.i.parallel()", ["i: 64", "k: 64", "reduce", "reads", "`A[i, k]`", "kFLOP"]),
        ("    mm.<|>i.parallel()", ["axis", "64", "spatial"]),
        ("    mm.i.par<|>allel()", ["loop.parallel()"]),
        ("    let x ~ perfect<|>_tile(mm.i, n = 2)", ["perfect_tile(loop, n"]),
        ("    mm.cache_read(<|>A)", ["f32[64, 64]", "16 KiB"]),
        ("    let c = mm.cache_write(T)\n    <|>c.compute_at(mm.i)", ["block"]),
    ],
)
def test_in_a_schedule(body: str, parts: list[str]) -> None:
    found = text_at(in_schedule(body))
    for part in parts:
        assert part in found, found


@pytest.mark.parametrize(
    ("marked", "parts"),
    [
        ("alloc T<|>:", ["T: f32[64, 32]", "8 KiB"]),
        ("block m<|>m[", ["block `mm`", "FLOP", "accesses"]),
        ("T[<|>i, j] +=", ["axis", "64"]),
        ("program m<|>m_p", ["program mm_p[M = 64", "C = A B."]),
        ("use std.cpu.{ho<|>st}", ["target"]),
    ],
)
def test_in_a_program(marked: str, parts: list[str]) -> None:
    plain = marked.replace("<|>", "")
    assert plain in PROGRAM
    found = text_at(at(PROGRAM.replace(plain, marked)))
    for part in parts:
        assert part in found, found


@pytest.mark.parametrize("body", ["    <|># a remark", "    mm.i.split([<|>8, 8])"])
def test_nothing_to_say(body: str) -> None:
    assert text_at(in_schedule(body)) == ""


def test_a_rule_of_the_library_tells_its_arguments() -> None:
    found = text_at(at("use std.tiling.{multi_<|>level}\n"))
    assert 'multi_level(structure, intrin = "")' in found and "the name of an intrinsic" in found


def test_a_fault_explains_its_code() -> None:
    found = text_at(in_schedule("    nobo<|>dy.parallel()"))
    assert "**MS201**" in found


def test_a_consumed_handle_says_so() -> None:
    found = text_at(in_schedule(SPLIT + "    let a, b = j1.split([2, 4])\n    let c, d = j<|>1.split([2, 2])"))
    assert "loop" in found


def declared(place: tuple[Snapshot, str, int]) -> str:
    """The line of the definition, stripped."""
    snapshot, path, offset = place
    found = definition(snapshot, path, offset)
    if found is None:
        return ""
    text = snapshot.read(found.path) or ""
    start = text.rfind("\n", 0, found.span.start) + 1
    return text[start : text.find("\n", found.span.start)].strip()


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (SPLIT + "    <|>j1.vectorize()", "let j0, j1 = mm.j.split([_, 8])"),
        (SPLIT + "    mm.i.split(t<|>i)", "let ti ~ perfect_tile(mm.i, n = 2, max_inner = 8)"),
        ("    <|>mm.i.parallel()", "block mm[i: M, j: N | k: M] {"),
        ("    mm.<|>k.parallel()", "block mm[i: M, j: N | k: M] {"),
        ("    copy.<|>i.parallel()", "block copy[i: M, j: N] { C[i, j] = max(T[i, j], 0.0) }"),
        ("    mm.cache_read(<|>B)", "program mm_p[M = 64, N = 32](A: f32[M, M], B: f32[M, N], out C: f32[M, N]) {"),
        ("    mm.i.par<|>allel()", ""),
    ],
)
def test_definition_in_a_schedule(body: str, line: str) -> None:
    assert declared(in_schedule(body)) == line


@pytest.mark.parametrize(
    ("marked", "line"),
    [
        ("T[<|>i, j] +=", "block mm[i: M, j: N | k: M] {"),
        ("<|>T[i, j] +=", "alloc T: f32[M, N]"),
        ("C[i, j] = max(T[i, <|>j]", "block copy[i: M, j: N] { C[i, j] = max(T[i, j], 0.0) }"),
    ],
)
def test_definition_in_a_program(marked: str, line: str) -> None:
    assert declared(at(PROGRAM.replace(marked.replace("<|>", ""), marked))) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("schedule s for <|>mm_p {}", "program mm_p[M = 64, N = 32](A: f32[M, M], B: f32[M, N], out C: f32[M, N]) {"),
        (
            "schedule t for mm_p {\n    let a ~ choose([1, 2])\n}\nschedule u for mm_p = t with { <|>a = 1 }",
            "let a ~ choose([1, 2])",
        ),
        ("fn f(b: block) {}\nschedule s for mm_p { let x = <|>f(mm) }", "fn f(b: block) {}"),
    ],
)
def test_definition_elsewhere(text: str, line: str) -> None:
    assert declared(after(text)) == line


def test_definition_in_another_file() -> None:
    texts = {"/w/a.ms": PROGRAM, "/w/b.ms": 'use "./a.ms".{mm_p}\nschedule s for mm_p {}\n'}
    snapshot = Snapshot(texts)
    text = texts["/w/b.ms"]
    for offset in (text.index("mm_p}"), text.index("mm_p {}")):
        found = definition(snapshot, "/w/b.ms", offset + 1)
        assert found is not None and found.path == "/w/a.ms"
        assert PROGRAM[found.span.start : found.span.end] == "mm_p"


def test_definition_in_the_library() -> None:
    found = definition(*at("use std.cpu.{avx<|>512}\n"))
    assert found is not None and found.path.endswith("x86.ms")


def test_examples_of_an_operation_are_code_and_its_rejections_a_list() -> None:
    found = text_at(in_schedule("    mm.cache_<|>write(T)"))
    before, after = found.partition("Before:\n\n```mslang\n")[2].partition("\n```")[0], found.count("```")
    assert before.startswith("block mm[") and after % 2 == 0
    assert "Rejects:\n\n- " in found


@pytest.mark.parametrize(
    ("marked", "parts"),
    [
        ("y[i] = at<|>an2(y[i], x[n[i]])", ["atan2(y, x)", "the angle from -π to π", "a floating-point number"]),
        ("y[i] = select(is<|>nan(x[i]), 0.0, 1.0)", ["isnan(x)", "gives a bool"]),
        ("y[i] = x[n<|>[i]]", ["n: i32[8] in 0..8 sorted"]),
    ],
)
def test_functions_and_ranges(marked: str, parts: list[str]) -> None:
    text = f"program p(n: i32[8] in 0..8 sorted, x: f32[8], out y: f32[8]) {{ block b[i: 8] {{ {marked} }} }}"
    offset = text.index("<|>")
    found = text_at((Snapshot({"main.ms": text.replace("<|>", "")}), "main.ms", offset))
    assert all(part in found for part in parts), found


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ("M: d<|>yn(1..256)", ["dyn(range = ", "known only when the kernel is called"]),
        ("M: dyn(1..256, mult<|>iple = 8)", ["Every size is a multiple"]),
        ("M: dyn(1..256, buc<|>kets = [16])", ["tuned separately"]),
        ("M<|>: dyn(8..256, multiple = 8, buckets = [64])", ["8..256, a multiple of 8", "8..64, 65..256"]),
        ("M<|>: dyn(1..20)", ["1..20", "1, 2, 3..4, 5..8, 9..16, 17..20"]),
        ("M<|>: dyn(1..256), N: dyn(1..256, buckets = [16])", ["65..256"]),
        ("M<|> = 8", ["size `M`"]),
    ],
)
def test_sizes_known_only_at_the_call(sizes: str, parts: list[str]) -> None:
    found = text_at(at(f"program q[{sizes}](x: f32[M], out y: f32[M]) {{ block b[i: M] {{ y[i] = x[i] }} }}"))
    assert all(part in found for part in parts), found
