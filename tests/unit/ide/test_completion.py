"""Completion: what is offered where, and what is not."""

import pytest

from mslang.ide.candidates import Sort, documentation
from mslang.ide.completion import completions
from mslang.ide.snapshot import Snapshot
from tests.unit.ide.marks import PROGRAM, after, at, in_schedule


def labels(place: tuple[Snapshot, str, int]) -> list[str]:
    return [c.label for c in completions(*place)]


LOOPS = "    let j0, j1 = mm.j.split([_, 8])\n"


@pytest.mark.parametrize(
    ("body", "wanted", "unwanted"),
    [
        (LOOPS + "    j1.<|>", {"vectorize", "split", "extent"}, {"cache_read", "i", "let"}),
        (LOOPS + "    j1.<|>\n    j0.parallel()", {"vectorize"}, {"cache_read"}),
        (LOOPS + "    j1.vec<|>", {"vectorize"}, {"compute_at"}),
        ("    mm.<|>", {"i", "j", "k", "cache_write", "loops"}, {"vectorize", "parallel"}),
        ("    mm.i.<|>", {"split"}, {"cache_write"}),
        ("    copy.<|>", {"i", "j", "compute_inline"}, {"k"}),
        ("    let c = mm.cache_write(T)\n    c.<|>", {"compute_at"}, {"vectorize"}),
        ("    mm.loops()[0].<|>", {"parallel"}, {"cache_read"}),
        ("    fuse(mm.i, mm.j).<|>", {"parallel"}, {"cache_read"}),
        ("    let x ~ <|>", {"perfect_tile", "choose", "compute_location"}, {"split", "mm", "let"}),
        ("    let x ~ perf<|>", {"perfect_tile"}, {"mm"}),
        ("    let x ~ perfect_tile(mm.i, <|>)", {"n", "max_inner", "mm", "true"}, {"let", "program"}),
        ("    let x ~ perfect_tile(mm.i, n = 2, <|>)", {"max_inner"}, {"n"}),
        ("    mm.i.split([_, 8], <|>)", {"tail"}, {"factors"}),
        ("    mm.i.split([_, <|>])", {"mm", "machine"}, {"tail", "disable_predication"}),
        ("    mm.cache_write(T, scope = <|>)", {"local", "shared.dyn"}, {"let"}),
        ("    mm.i.split([_, 3], tail = <|>)", {"guard", "peel"}, {"let"}),
        ("    mm.i.split([machine.<|>])", {"vector_lanes", "cores"}, {"mm"}),
        ("    <|>", {"let", "fork", "require", "mm", "copy", "reorder", "T"}, {"alloc", "reads", "check", "block"}),
        ("    let <|>", set(), {"mm", "let"}),
        ("    let x = m<|>", {"mm", "machine"}, {"alloc"}),
        ("    # mm.<|>", set(), {"i"}),
        ('    mm.annotate("<|>")', set(), {"mm"}),
        (LOOPS + "    let a, b = j0.split([_, 2])\n    <|>", {"a", "b", "j1"}, {"j0"}),
        (
            "    fork f {\n        case x { let inner = mm.cache_write(T) }\n        case y { <|> }\n    }",
            {"mm"},
            {"inner"},
        ),
        ("    for l in mm.loops() { l.<|> }", {"parallel"}, {"cache_read"}),
    ],
)
def test_in_a_schedule(body: str, wanted: set[str], unwanted: set[str]) -> None:
    found = set(labels(in_schedule(body)))
    assert wanted <= found
    assert not found & unwanted


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        ("use std.<|>", {"cpu", "testing", "tiling"}, {"program"}),
        ("program q[M: <|>](x: f32[M]) {}", {"dyn"}, {"f32"}),
        ("program q[M: dyn(<|>", {"multiple", "buckets"}, {"split", "exp", "block"}),
        ("program q[M: dyn(1..256, <|>)](x: f32[M]) {}", {"multiple", "buckets"}, {"range", "exp", "block"}),
        ("program q[M: dyn(1..256, buc<|>)](x: f32[M]) {}", {"multiple", "buckets"}, {"exp"}),
        ("program q[M: dyn(1..256, multiple = 8, <|>)](x: f32[M]) {}", {"buckets"}, {"multiple"}),
        ("program q[M: dyn(1..256, buckets = [16, <|>])](x: f32[M]) {}", set(), {"multiple", "exp"}),
        ("program q(at: i32[4] in 0..8 <|>) {}", {"sorted", "unique"}, {"exp"}),
        ("program q[V = 8](at: i32[4] in 0..<|>) {}", {"V"}, {"sorted"}),
        ("program q(at: i32[4] in 0..8, x: <|>) {}", {"f32"}, {"sorted"}),
        ("use std.cpu.{<|>}", {"host", "avx512"}, {"cpu"}),
        ("use std.cpu.{host, <|>}", {"avx512"}, {"host"}),
        ("schedule s for <|>", {"mm_p"}, {"host", "let"}),
        ("schedule s for mm_p on <|>", {"host", "cpu"}, {"mm_p"}),
        ("schedule s(n: <|>)", {"int", "block"}, {"f32"}),
        ("pro<|>", {"program", "schedule"}, {"let"}),
        ("program q(x: <|>", {"f32", "i8"}, {"int"}),
        ("program q(x: f32[4] @ <|>) {}", {"local", "wmma.a"}, {"parallel"}),
        ("program q(x: f32[4] @ wmma.<|>) {}", {"a", "acc"}, {"local"}),
        ("program q(x: f32[4]) {\n    for i in 4 @ <|> {}\n}", {"parallel", "threadIdx.x"}, {"local"}),
        ("program q(x: f32[4]) {\n    block b[i: 4 @ <|>] {}\n}", {"reduce", "scan"}, {"local", "parallel"}),
        (
            "program q[M = 4](x: f32[M], out y: f32[M]) {\n    block b[i: M] { y[i] = <|> }\n}",
            {"x", "i", "exp", "M"},
            {"mm", "vectorize", "let"},
        ),
        ("program q[M = 4](x: f32[M]) {\n    <|>\n}", {"block", "alloc", "for"}, {"fork", "require", "check"}),
        ("rule r(b: block) {\n    b.<|>\n}", {"compute_inline"}, {"vectorize"}),
        ("rule r(b: block) when b.<|> {}", {"is_injective"}, {"vectorize"}),
        ("rule tidy(b: block) {}\nschedule s for mm_p { mm.<|> }", {"tidy"}, set()),
        ('test "t" {\n    <|>\n}', {"check", "snapshot", "for"}, {"alloc"}),
        (
            "schedule t for mm_p {\n    let a ~ choose([1, 2])\n    fork f { case x {} }\n}\n"
            "schedule u for mm_p = t with { <|> }",
            {"a", "f"},
            {"mm", "let"},
        ),
        ("schedule t for mm_p {}\nspace c for mm_p = <|>", {"t"}, {"split", "reorder", "mm_p"}),
        ("@<|>", {"order"}, {"program"}),
    ],
)
def test_elsewhere(text: str, wanted: set[str], unwanted: set[str]) -> None:
    found = set(labels(after(text)))
    assert wanted <= found
    assert not found & unwanted


def test_an_empty_file_offers_items() -> None:
    assert {"program", "schedule", "use"} <= set(labels(at("<|>")))


def test_names_of_an_open_file_in_use() -> None:
    text = 'use "./a.ms".{<|>}'
    snapshot = Snapshot({"/w/a.ms": PROGRAM, "/w/b.ms": text.replace("<|>", "")})
    assert "mm_p" in [c.label for c in completions(snapshot, "/w/b.ms", text.index("<|>"))]


def test_an_argument_brings_its_equals_sign() -> None:
    found = {c.label: c for c in completions(*in_schedule("    let x ~ perfect_tile(mm.i, <|>)"))}
    assert found["n"].insert == "n = " and found["n"].sort is Sort.PARAMETER


def test_documentation_is_that_of_the_implementation() -> None:
    snapshot, path, offset = in_schedule("    mm.i.<|>")
    split = next(c for c in completions(snapshot, path, offset) if c.label == "split")
    text = documentation(snapshot.module(path), split.key or "")
    assert "loop.split(factors" in text and len(text) > 80


def test_documentation_of_an_item_is_its_doc_comment() -> None:
    snapshot, path, offset = after("schedule s for <|>")
    program = next(c for c in completions(snapshot, path, offset) if c.label == "mm_p")
    assert "C = A B." in documentation(snapshot.module(path), program.key or "")


def test_every_offset_of_the_program_can_be_asked() -> None:
    snapshot = Snapshot({"/a.ms": PROGRAM})
    for offset in range(0, len(PROGRAM) + 1, 3):
        completions(snapshot, "/a.ms", offset)


QUOTED = """program `T.main`(A: f32[8, 8], out `T.add`: f32[8, 8]) {
    block `init`[`for`: 8, j: 8] { `T.add`[`for`, j] = <p> }
}
schedule s for <h> {
    let many as "x/y" ~ choose([1, 2])
    <s>
}
schedule t for `T.main` = s with { <w> }
"""


@pytest.mark.parametrize(
    ("place", "written", "wanted"),
    [
        ("p", "", {"`T.add`", "`for`", "A"}),
        ("h", "", {"`T.main`"}),
        ("s", "", {"`init`", "`T.add`", "A"}),
        ("s", "`init`.", {"`for`", "j"}),
        ("s", "`", {"init", "T.add"}),
        ("w", "", {'"x/y" = '}),
    ],
)
def test_names_are_inserted_as_they_are_written(place: str, written: str, wanted: set[str]) -> None:
    stands = {"p": "A[0, 0]", "h": "`T.main`", "s": "", "w": ""}
    text = QUOTED
    for name, usual in stands.items():
        text = text.replace(f"<{name}>", f"{written}<|>" if name == place else usual)
    found = {c.insert or c.label for c in completions(*at(text))}
    assert wanted <= found
    assert not {w.strip("`") for w in wanted if w.startswith("`")} & found
