"""References and rename: what is found, what is edited, what is refused."""

import re

import pytest

from mslang.diagnostics import MsError
from mslang.ide.references import highlights, references
from mslang.ide.rename import edited, renamable, rename
from mslang.ide.snapshot import Snapshot
from tests.unit.ide.marks import PATH, PROGRAM, after, at, in_schedule


def renamed(place: tuple[Snapshot, str, int], new: str, files: tuple[str, ...] = ()) -> dict[str, str]:
    """The texts of the edited files after a rename."""
    snapshot, path, offset = place
    found = rename(snapshot, path, offset, new, (*snapshot.texts, *files), lambda p: p in snapshot.texts)
    return {p: edited(snapshot.texts[p], edits) for p, edits in found.items()}


def refused(place: tuple[Snapshot, str, int], new: str) -> str:
    with pytest.raises(MsError) as caught:
        renamed(place, new)
    d = caught.value.diagnostic
    assert d.code == "MS280"
    return f"{d.message}: {d.why}"


def words(old: str, new: str, text: str) -> str:
    return re.sub(rf"\b{old}\b", new, text)


SPLIT = "    let ti ~ perfect_tile(mm.i, n = 2, max_inner = 8)\n    let i0, i1 = mm.i.split(ti)\n"


# ------------------------------------------------------------------ programs
@pytest.mark.parametrize(
    ("marked", "new"),
    [
        ("<|>mm_p[M", "product"),
        ("M<|> = 64", "Rows"),
        ("B<|>: f32[M, N]", "Right"),
        ("alloc T<|>:", "sums"),
        ("block mm<|>[", "multiply"),
        ("k<|>: M]", "inner"),
        ("B[k<|>, j]", "inner"),
    ],
)
def test_names_of_a_program(marked: str, new: str) -> None:
    text = PROGRAM.replace(marked.replace("<|>", ""), marked, 1)
    old = re.search(r"\w*<\|>\w*", text)
    assert old is not None
    head, body = PROGRAM.split("## C = A B.")  # comments are not names
    assert renamed(at(text), new) == {PATH: f"{head}## C = A B.{words(old[0].replace('<|>', ''), new, body)}"}


def test_an_axis_of_one_block_leaves_those_of_others_alone() -> None:
    text = PROGRAM + "schedule s for mm_p { mm.i.parallel() copy.i.parallel() }\n"
    changed = (
        text.replace("mm[i: M, j", "mm[r: M, j").replace("T[i, j] += A[i,", "T[r, j] += A[r,").replace("mm.i", "mm.r")
    )
    assert renamed(at(text.replace("mm.i", "mm.<|>i")), "r") == {PATH: changed}


def test_a_block_that_is_called_like_its_program_or_the_target() -> None:
    text = PROGRAM.replace("mm_p", "mm").replace("copy", "host") + "schedule s for mm on host { mm.i.parallel() }\n"
    block = renamed(at(text.replace("block mm", "block <|>mm")), "x")
    assert block == {PATH: text.replace("block mm", "block x").replace("mm.i", "x.i")}
    program = renamed(at(text.replace("for mm", "for <|>mm")), "x")
    assert program == {PATH: text.replace("program mm", "program x").replace("for mm", "for x")}
    other = renamed(at(text.replace("block host", "block <|>host")), "x")
    assert other == {PATH: text.replace("block host", "block x")}


def test_the_binding_of_an_axis_means_the_loop_that_is_called_alike() -> None:
    text = (
        "program p(A: f32[8], out B: f32[8]) {\n    for i in 8 {\n        block b[i: 8 = i] { B[i] = A[i] }\n    }\n}\n"
    )
    loop = renamed(at(text.replace("for i", "for <|>i")), "x")
    assert loop == {PATH: text.replace("for i", "for x").replace("= i]", "= x]")}
    axis = renamed(at(text.replace("b[i:", "b[<|>i:")), "x")
    assert axis == {PATH: text.replace("b[i:", "b[x:").replace("B[i] = A[i]", "B[x] = A[x]")}


def test_parameters_of_instructions_are_placeholders_of_their_texts() -> None:
    text = (
        "intrin add(a: f32[4], b: f32[4], out c: f32[4]) on cpu {\n"
        "    desc { block l[i: 4] { c[i] = a[i] + b[i] } }\n"
        '    impl llvm "%a = load <4 x float>, ptr {a}, align 4"\n}\n'
    )
    changed = text.replace("(a: ", "(first: ").replace("= a[i]", "= first[i]").replace("{a}", "{first}")
    assert renamed(at(text.replace("(a: ", "(<|>a: ")), "first") == {PATH: changed}


# ------------------------------------------------------------------ schedules
def test_handles_and_decisions() -> None:
    place = in_schedule(SPLIT + "    <|>i1.vectorize()")
    text = place[0].texts[PATH]
    assert renamed(place, "inner") == {PATH: words("i1", "inner", text)}
    place = in_schedule(SPLIT.replace("split(ti", "split(<|>ti"))
    assert renamed(place, "rows") == {PATH: words("ti", "rows", place[0].texts[PATH])}


def test_a_handle_bound_again_is_another_one() -> None:
    body = (
        "    let b = mm.cache_read(A)\n    b.compute_at(mm.k)\n    let b<|> = mm.cache_read(B)\n    b.compute_at(mm.k)"
    )
    place = in_schedule(body)
    text = place[0].texts[PATH]
    head, tail = text[: text.rindex("let b")], text[text.rindex("let b") :]
    assert renamed(place, "right") == {
        PATH: head + tail.replace("let b ", "let right ").replace("    b.", "    right.")
    }


def test_handles_of_both_branches_are_one() -> None:
    body = (
        "    fork f {\n        case a { let x = mm.cache_read(A) }\n"
        "        case b { let x = mm.cache_read(B) }\n    }\n"
        "    <|>x.compute_at(mm.k)"
    )
    place = in_schedule(body)
    assert renamed(place, "copied") == {PATH: words("x", "copied", place[0].texts[PATH])}


def test_decisions_in_pins_and_addresses() -> None:
    text = (
        PROGRAM
        + "fn part(l: loop) {\n    let n ~ choose([2, 4])\n    let a, b = l.split([_, n])\n    return b\n}\n"
        + "schedule s for mm_p on host {\n    let inner = part(mm.j)\n"
        + "    let k ~ choose([1, 2])\n    inner.vectorize()\n}\n"
        + 'schedule best for mm_p on host = s with { "inner/n" = 4, k = 2 }\n'
        + 'space all for mm_p on host = s | s with { "inner/n" = 2 }\n'
        + 'test "t" { let d = sample(s, mm_p, seed = 1, k = 2) }\n'
    )
    n = renamed(at(text.replace("n ~", "<|>n ~")), "width")
    assert n == {PATH: text.replace("n ~", "width ~").replace("_, n]", "_, width]").replace("inner/n", "inner/width")}
    inner = renamed(at(text.replace('with { "inner/n" = 4', 'with { "in<|>ner/n" = 4')), "lanes")
    assert inner == {PATH: words("inner", "lanes", text)}
    k = renamed(at(text.replace("k ~", "<|>k ~")), "depth")
    assert k == {PATH: text.replace("k ~", "depth ~").replace(", k = 2", ", depth = 2")}


def test_keyword_arguments_and_methods_name_parameters_and_fns() -> None:
    text = PROGRAM + (
        "fn f(b: block, width: int = 2) {}\n"
        "schedule s(n: int = 3) for mm_p on host {\n    mm.f(width = n)\n    f(copy, width = 4)\n}\n"
        "space all for mm_p on host = s | s(n = 5)\n"
    )
    assert renamed(at(text.replace("copy, width", "copy, <|>width")), "w") == {PATH: words("width", "w", text)}
    assert renamed(at(text.replace("mm.f(", "mm.<|>f(")), "g") == {PATH: words("f", "g", text)}
    assert renamed(at(text.replace("s(n = 5", "s(<|>n = 5")), "m") == {
        PATH: text.replace("s(n:", "s(m:").replace("= n)", "= m)").replace("s(n = 5", "s(m = 5")
    }


def test_words_that_operations_make_of_a_name() -> None:
    body = "    let z = mm.decompose_reduction(mm.k)\n    mm_init.j.vectorize()"
    text = f"{PROGRAM}schedule s for mm_p on host {{\n{body}\n}}\n"
    changed = words("mm", "mul", text).replace("mm_init", "mul_init")
    assert renamed(at(text.replace("block mm", "block <|>mm")), "mul") == {PATH: changed}
    # The word made from the new name is declared already.
    taken = text.replace("block copy", "block mul_init")
    assert "a word made from it is declared" in refused(at(taken.replace("block mm", "block <|>mm")), "mul")


def test_snapshots_follow() -> None:
    text = (
        PROGRAM
        + "schedule s for mm_p on host {\n    let i0, i1 = mm.i.split([_, 8])\n    fuse(i0, i1)\n}\n"
        + 'test "t" {\n    snapshot sample(s, mm_p, seed = 0).loops(mm) """\n        i0_i1_fused, j, k\n    """\n}\n'
    )
    assert renamed(at(text.replace("let i0", "let <|>i0")), "outer") == {
        PATH: text.replace("let i0", "let outer").replace("fuse(i0", "fuse(outer").replace("i0_i1", "outer_i1")
    }
    # `k` of the snapshot may be the axis of another block, so it is not known which name it shows.
    two = text.replace("block copy[i: M, j: N]", "block copy[i: M, k: N]").replace("max(T[i, j]", "max(T[i, k]")
    two = two.replace("C[i, j] =", "C[i, k] =")
    assert "is made from the name" in refused(at(two.replace("| k: M", "| <|>k: M")), "x")


SHOWN = """schedule s for mm_p {
    let mm_i, x = mm.i.split([_, 4])
    reorder(mm_i, mm.j, x)
}

test "t" {
    snapshot sample(s, mm_p, seed = 0).loops(mm) \"""
        mm_i, j, x, k
    \"""
}
"""


def test_a_handle_in_a_snapshot_is_not_made_from_what_its_name_holds() -> None:
    text = PROGRAM + SHOWN
    changed = words("mm", "gg", text)
    assert renamed(at(text.replace("block mm", "block <|>mm")), "gg") == {PATH: changed}
    changed = re.sub(r"mm\[i: M|T\[i, j\] \+|A\[i,|mm\.i", lambda m: words("i", "row", m[0]), text)
    assert renamed(at(text.replace("mm[i", "mm[<|>i")), "row") == {PATH: changed}
    assert renamed(at(text.replace("let mm_i", "let <|>mm_i")), "o") == {PATH: words("mm_i", "o", text)}


def test_a_word_of_a_snapshot_that_may_be_made_from_a_handle_stops_the_rename() -> None:
    fused = SHOWN.replace("reorder(mm_i, mm.j, x)", "fuse(mm_i, x)").replace("mm_i, j, x, k", "mm_i_x_fused, j, k")
    assert "is made from the name" in refused(at(PROGRAM.replace("block mm", "block <|>mm") + fused), "gg")
    # In the other schedule an operation may make the word, so it is not known which of both is shown.
    other = "schedule o for mm_p { mm.i.parallel() }\n"
    both = SHOWN.replace('"t" {', '"t" {\n    check sample(o, mm_p, seed = 0).loops(mm).len() == 3')
    assert "is made from the name" in refused(at(PROGRAM.replace("block mm", "block <|>mm") + other + both), "gg")


# ------------------------------------------------------------------ files
def test_imported_names_in_every_file() -> None:
    texts = {
        "/w/a.ms": PROGRAM,
        "/w/sub/b.ms": 'use "../a.ms".{mm_p}\nschedule s for mm_p { mm.i.parallel() }\n',
        "/w/c.ms": 'use "./sub/b.ms".{s} use "./a.ms" as a\nspace t for a.mm_p = s\n',
        "/w/d.ms": "const mm_p = 3\nconst other = mm_p\n",
    }
    snapshot = Snapshot(texts)
    after_ = renamed((snapshot, "/w/c.ms", texts["/w/c.ms"].index("mm_p")), "product")
    assert after_ == {p: words("mm_p", "product", t) for p, t in texts.items() if p != "/w/d.ms"}
    block = renamed((snapshot, "/w/a.ms", PROGRAM.index("mm[")), "mul")
    assert block == {p: words("mm", "mul", texts[p]) for p in ("/w/a.ms", "/w/sub/b.ms")}
    alias = renamed((snapshot, "/w/c.ms", texts["/w/c.ms"].index("as a") + 3), "programs")
    assert alias == {"/w/c.ms": texts["/w/c.ms"].replace("as a", "as programs").replace("a.mm_p", "programs.mm_p")}


def test_references_of_the_library() -> None:
    place = at("use std.cpu.{avx<|>512}\nschedule s on avx512 {}\n")
    found = references(*place, ())
    assert [(r.place.path == PATH, r.declares) for r in found] == [(True, False), (True, False), (False, True)]
    assert [r.place.span.start for r in highlights(*place)] == [13, 35]
    assert "not in the workspace" in refused(place, "wide")


# ------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    ("place", "new", "why"),
    [
        (at(PROGRAM.replace("mm[i", "mm[<|>i")), "j", "declared twice"),
        (at(PROGRAM.replace("alloc T", "alloc <|>T")), "A", "declared twice"),
        (at(PROGRAM.replace("mm[i", "mm[<|>i")), "A", ""),
        (in_schedule(SPLIT.replace("i0", "<|>i0", 1) + "    i0.parallel()\n    copy.i.parallel()"), "copy", ""),
        (after("fn f(b: block) {}\nfn <|>g(b: block) {}\n"), "f", "declared twice"),
        (after("fn <|>g(b: block) {}\nschedule s for mm_p { g(mm) }\n"), "split", ""),
        (in_schedule(SPLIT + "    <|>i0.parallel()\n    mm.j.vectorize()"), "mm", ""),
        (at(PROGRAM.replace("mm[i", "mm[<|>i")), "a b", "a name begins with a letter"),
        (at(PROGRAM.replace("mm[i", "mm[<|>i")), "", "a name begins with a letter"),
        (in_schedule("    mm.i.<|>parallel()"), "x", "no file declares it"),
        (at(PROGRAM.replace("std.cpu", "std.<|>cpu")), "x", "it is the name of a file"),
    ],
)
def test_refusals(place: tuple[Snapshot, str, int], new: str, why: str) -> None:
    assert why in refused(place, new)


def test_a_name_that_would_be_captured() -> None:
    # Without an error, `i0.parallel()` would mean another loop.
    body = "    let i0, i1 = mm.i.split([_, 8])\n    let <|>j0, j1 = mm.j.split([_, 8])\n    i0.parallel()"
    assert "would mean something else" in refused(in_schedule(body), "i0")


def test_an_axis_that_a_fn_names_of_any_block() -> None:
    text = PROGRAM + "fn f(b: block) { b.i.parallel() }\nschedule s for mm_p { f(mm) }\n"
    assert "which declaration this word names" in refused(at(text.replace("mm[i", "mm[<|>i")), "row")
    # A fn that no schedule of the program calls does not count.
    apart = text.replace("{ f(mm) }", "{}")
    assert PATH in renamed(at(apart.replace("mm[i", "mm[<|>i")), "row")


def test_a_rule_that_a_string_names() -> None:
    # The annotation of a program is not among the names that it uses.
    text = PROGRAM.replace("    block copy[i: M, j: N] {", '    block copy[i: M, j: N] { attr "schedule_rule" = "mine"')
    text += "rule mine(b: block) { b.compute_inline() }\n"
    assert "which declaration this word names" in refused(at(text.replace("rule mine", "rule <|>mine")), "other")
    assert PATH in renamed(at(text.replace('"mine"', '"other"').replace("rule mine", "rule <|>mine")), "third")


def test_a_block_that_a_test_names_in_a_string() -> None:
    text = PROGRAM + 'test "copy" {\n    let p = mm_p[8, 8]\n    check p.blocks() == ["mm", "copy"], "mm"\n}\n'
    marked = text.replace("block mm", "block <|>mm")
    assert "which declaration this word names" in refused(at(marked), "mul")
    # Titles and reasons are not names.
    assert PATH in renamed(at(marked.replace('["mm", "copy"]', "[]")), "mul")


def test_a_file_with_errors_is_not_edited() -> None:
    text = PROGRAM + "schedule s for mm_p { unknown.parallel() }\n"
    assert "has errors" in refused(at(text.replace("mm[i", "mm[<|>i")), "row")


def test_keywords_get_backticks_and_lose_them() -> None:
    there = renamed(at(PROGRAM.replace("block mm", "block <|>mm")), "init")[PATH]
    assert "block `init`[" in there
    back = Snapshot({PATH: there}), PATH, there.index("`init`") + 2
    assert renamable(*back, lambda p: True).text == "init"
    assert renamed(back, "mm") == {PATH: PROGRAM}
