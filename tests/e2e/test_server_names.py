"""References, rename and the structure of files, over the wire: encodings, closed files, versions, refusals."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

from tests.e2e.conftest import GEMM
from tests.e2e.test_server import line_of
from tests.e2e.wire import PUSHES, Json, Wire

USER = """use "./gemm.ms".{gemm}
# 𝔸 closed file that nobody has opened
schedule other for gemm { /* 𝔸 */ }
""".replace(" /* 𝔸 */ ", "\n    mm.i.parallel()\n")

VERSIONED: Json = {**PUSHES, "workspace": {"workspaceEdit": {"documentChanges": True}}}


def with_encoding(encoding: str, capabilities: Json = PUSHES) -> Json:
    return {**capabilities, "general": {"positionEncodings": [encoding]}}


def put(text: str, edits: list[Json], unit: str) -> str:
    """A text after edits of one line each, counted in an encoding."""
    lines = text.split("\n")
    for e in sorted(edits, key=lambda e: (e["range"]["start"]["line"], e["range"]["start"]["character"]), reverse=True):
        start, end = e["range"]["start"], e["range"]["end"]
        assert start["line"] == end["line"]
        size = 2 if unit == "utf-16-le" else 1
        raw = lines[start["line"]].encode(unit)
        lines[start["line"]] = (
            raw[: start["character"] * size] + e["newText"].encode(unit) + raw[end["character"] * size :]
        ).decode(unit)
    return "\n".join(lines)


def place(uri: str, at: tuple[int, int], **more: object) -> Json:
    return {"textDocument": {"uri": uri}, "position": {"line": at[0], "character": at[1]}, **more}


@pytest.mark.parametrize(("encoding", "unit"), [("utf-16", "utf-16-le"), ("utf-8", "utf-8")])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_rename_edits_open_and_closed_files(tmp_path: Path, encoding: str, unit: str, end: str) -> None:
    text = (
        GEMM.replace("block mm[i: M", "/*").replace("/*", "block mm[i: M").replace("    let ti", "    # 𝔸é\n    let ti")
    )
    text = text.replace("let i0, i1 = mm.i", 'require 1 < 2, "𝔸é" let i0, i1 = mm.i')
    (tmp_path / "gemm.ms").write_text("const old = 1\n")  # the editor's text counts, not that of the disk
    (tmp_path / "sub").mkdir()
    closed = USER.replace("./gemm.ms", "../gemm.ms")
    (tmp_path / "sub" / "user.ms").write_bytes(closed.replace("\n", end).encode())
    with Wire(tmp_path) as wire:
        wire.initialize(with_encoding(encoding, VERSIONED))
        uri = wire.open("gemm.ms", text.replace("\n", end))
        wire.change(uri, 7, {"text": text.replace("\n", end)})
        at = line_of(text, "mm[i")
        prepared = wire.at("textDocument/prepareRename", uri, *at)
        assert prepared["placeholder"] == "mm" and prepared["range"]["start"]["character"] == at[1]
        answer = wire.at("textDocument/rename", uri, *at, newName="product")
        edits = {c["textDocument"]["uri"]: c for c in answer["documentChanges"]}
        other = (tmp_path / "sub" / "user.ms").as_uri()
        assert {u: c["textDocument"]["version"] for u, c in edits.items()} == {uri: 7, other: None}
        assert put(text, edits[uri]["edits"], unit) == text.replace("mm", "product").replace("geproduct", "gemm")
        assert put(closed, edits[other]["edits"], unit) == closed.replace("mm.i", "product.i")


def test_without_versions_the_edits_are_changes(tmp_path: Path) -> None:
    with Wire(tmp_path) as wire:
        wire.initialize()
        uri = wire.open("gemm.ms", GEMM)
        answer = wire.at("textDocument/rename", uri, *line_of(GEMM, "ti ~"), newName="rows")
        assert put(GEMM, answer["changes"][uri], "utf-8") == GEMM.replace("ti ~", "rows ~").replace("(ti)", "(rows)")
        assert "documentChanges" not in answer or answer["documentChanges"] is None


@pytest.mark.parametrize(
    ("word", "new", "said"),
    [
        ("i: M", "j", "cannot rename `i` to `j`"),
        ("ti ~", "tj", "cannot rename `ti` to `tj`"),
        ("i0, i1", "i1", "cannot rename `i0` to `i1`"),
        ("mm[i", "1x", "`1x` is not a name"),
        ("perfect_tile(mm.i", "x", "this cannot be renamed"),
        ("host}", "x", "no file declares it"),
        ("avx512}", "x", "not in the workspace"),
    ],
)
def test_a_refusal_is_an_error_that_says_why(tmp_path: Path, word: str, new: str, said: str) -> None:
    with Wire(tmp_path) as wire:
        wire.initialize()
        text = GEMM + "use std.cpu.{avx512}\n"
        uri = wire.open("gemm.ms", text)
        answer = wire.answer(wire.send("textDocument/rename", place(uri, line_of(text, word), newName=new)))
        assert answer["error"]["code"] == -32803 and said in answer["error"]["message"]
        assert "\n" not in answer["error"]["message"]


def ranges(found: list[Json]) -> list[tuple[int, int]]:
    return sorted((f["range"]["start"]["line"], f["range"]["start"]["character"]) for f in found)


def test_references_and_highlights(tmp_path: Path) -> None:
    (tmp_path / "gemm.ms").write_text(GEMM)
    (tmp_path / "user.ms").write_text(USER)
    with Wire(tmp_path) as wire:
        wire.initialize()
        uri = wire.open("user.ms", USER)
        at = line_of(USER, "gemm {")
        found = wire.at("textDocument/references", uri, *at, context={"includeDeclaration": True})
        by_file: dict[str, list[Any]] = {}
        for f in found:
            by_file.setdefault(f["uri"].rpartition("/")[2], []).append(f)
        assert ranges(by_file["user.ms"]) == [line_of(USER, "gemm}"), at]
        assert ranges(by_file["gemm.ms"]) == [line_of(GEMM, "gemm["), line_of(GEMM, "gemm on")]
        without = wire.at("textDocument/references", uri, *at, context={"includeDeclaration": False})
        assert len(without) == len(found) - 1
        inside = wire.at("textDocument/documentHighlight", uri, *at)
        assert ranges(inside) == [line_of(USER, "gemm}"), at] and {h["kind"] for h in inside} == {2}


def test_symbols_of_the_workspace_folds_and_selections(tmp_path: Path) -> None:
    (tmp_path / "gemm.ms").write_text(GEMM)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "gemm.ms").write_text(GEMM)
    with Wire(tmp_path) as wire:
        wire.initialize()
        uri = wire.open("user.ms", USER)
        found = wire.ask("workspace/symbol", {"query": "tld"})
        assert [(s["name"], s["location"]["uri"].rpartition("/")[2]) for s in found] == [("tiled", "gemm.ms")]
        assert ("mm", "gemm") in {(s["name"], s["containerName"]) for s in wire.ask("workspace/symbol", {"query": "m"})}
        folds = wire.ask("textDocument/foldingRange", {"textDocument": {"uri": uri}})
        assert [(f["startLine"], f["endLine"]) for f in folds] == [(2, 3)]
        at = line_of(USER, "i.parallel")
        (chain,) = wire.ask(
            "textDocument/selectionRange",
            {"textDocument": {"uri": uri}, "positions": [{"line": at[0], "character": at[1]}]},
        )
        widths = []
        while chain is not None:
            start, end = chain["range"]["start"], chain["range"]["end"]
            widths.append((end["line"] - start["line"], end["character"] - start["character"]))
            chain = chain.get("parent")
        assert widths[0] == (0, 1) and (0, 4) in widths and widths[-1] == (5, 0)
