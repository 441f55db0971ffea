"""Texts between client and server: lines, line ends, URIs, and whom findings reach when."""

from pathlib import Path

import pytest

pytest.importorskip("pygls")

from tests.e2e.conftest import GEMM
from tests.e2e.test_server import line_of
from tests.e2e.wire import PULLS, PUSHES, Wire, edit

ILLEGAL = GEMM.replace("    j1.vectorize()", "    mm.k.parallel()")


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\f", "\v", "\x1c"])
def test_edits_after_a_separator_that_ends_no_line(tmp_path: Path, separator: str) -> None:
    with Wire(tmp_path) as wire:
        wire.initialize()
        uri = wire.open("lines.ms", f"# pasted{separator}comment\nconst A = 1\nconst B = 2\n")
        wire.change(uri, 2, edit(2, 6, 7, "BB"))
        symbols = wire.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
        assert [(s["name"], s["range"]["start"]["line"]) for s in symbols] == [("A", 1), ("BB", 2)]
        assert wire.findings(uri, lambda found: True) == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_are_kept(tmp_path: Path, end: str) -> None:
    text = GEMM.replace("    reorder(i0", "  reorder(  i0")
    raw = text.replace("\n", end)
    with Wire(tmp_path) as wire:
        wire.initialize()
        uri = wire.open("ends.ms", raw)
        assert wire.findings(uri, lambda found: True) == []
        line, _ = line_of(text, "  reorder(")
        options = {"tabSize": 4, "insertSpaces": True}
        edits = wire.ask("textDocument/formatting", {"textDocument": {"uri": uri}, "options": options})
        (one,) = [e for e in edits if e["range"]["start"]["line"] <= line < e["range"]["end"]["line"]]
        assert one["newText"] == f"    reorder(i0, j0, mm.k, i1, j1){end}"
        assert one["range"] == {"start": {"line": line, "character": 0}, "end": {"line": line + 1, "character": 0}}
        assert all("\n" not in e["newText"].replace(end, "") for e in edits)
        place = line_of(text, "j1.vectorize")
        found = wire.at("textDocument/definition", uri, *place)
        assert (found["range"]["start"]["line"], found["range"]["start"]["character"]) == line_of(text, "j1 = mm.j")
        wire.change(uri, 2, edit(place[0], place[1], place[1] + 2, "j9"))
        (unknown,) = wire.findings(uri, bool)
        assert (unknown["range"]["start"]["line"], unknown["range"]["start"]["character"]) == place


def test_a_text_that_is_nested_too_deeply_has_a_finding_and_the_next_one_its_own(tmp_path: Path) -> None:
    deep = GEMM + "fn f() { let x = " + "(" * 5000 + "1" + ")" * 5000 + " }\n"
    with Wire(tmp_path) as wire:
        wire.initialize()
        uri = wire.open("deep.ms", deep)
        (found,) = wire.findings(uri, bool)
        assert found["code"] == "MS705" and found["range"]["start"] == {"line": 0, "character": 0}
        wire.change(uri, 2, {"text": GEMM.replace("mm.k, i1", "mn.k, i1")})
        (found,) = wire.findings(uri, lambda now: [d["code"] for d in now] != ["MS705"])
        assert found["code"] == "MS201"


@pytest.mark.parametrize("uri", ["untitled:Untitled-1", "mslang-program:program at the cursor.ms", "git:/a/b.ms?x#y"])
def test_a_document_that_is_in_no_file_keeps_its_uri(tmp_path: Path, uri: str) -> None:
    with Wire(tmp_path) as wire:
        wire.initialize()
        wire.open(uri, ILLEGAL)
        assert wire.findings(uri, bool)
        found = wire.at("textDocument/definition", uri, *line_of(ILLEGAL, "mm.i.split"))
        assert found["uri"] == uri


def test_a_uri_is_given_back_as_the_client_spells_it(tmp_path: Path) -> None:
    with Wire(tmp_path) as wire:
        wire.initialize()
        uri = wire.open(f"{tmp_path.as_uri()}/%61;b.ms", ILLEGAL)
        assert wire.findings(uri, bool)
        assert wire.at("textDocument/definition", uri, *line_of(ILLEGAL, "mm.i.split"))["uri"] == uri


def test_a_client_that_pulls_is_not_pushed_but_told_to_pull_again(tmp_path: Path) -> None:
    with Wire(tmp_path) as wire:
        assert wire.initialize(PULLS)["capabilities"]["diagnosticProvider"]["interFileDependencies"]
        uri = wire.open("pulled.ms", ILLEGAL)
        pull = {"textDocument": {"uri": uri}}
        assert wire.ask("textDocument/diagnostic", pull)["items"] == []
        wire.wait(lambda m: m.get("method") == "workspace/diagnostic/refresh")
        items = wire.ask("textDocument/diagnostic", pull)["items"]
        assert {d["range"]["start"]["line"] for d in items} == {line_of(ILLEGAL, "mm.k.parallel()")[0]}
        assert not any(m.get("method") == "textDocument/publishDiagnostics" for m in wire.messages)


def test_a_client_that_pulls_but_cannot_be_told_to_gets_findings_sent(tmp_path: Path) -> None:
    with Wire(tmp_path) as wire:
        assert "diagnosticProvider" not in wire.initialize({"textDocument": {"diagnostic": {}}})["capabilities"]
        uri = wire.open("pushed.ms", ILLEGAL)
        found = wire.findings(uri, bool)
        assert {d["range"]["start"]["line"] for d in found} == {line_of(ILLEGAL, "mm.k.parallel()")[0]}


LIBRARY = "fn faster(b: block) {\n    b.i.parallel()\n}\n"
USER = GEMM.split("schedule")[0] + 'use "./lib.ms".{faster}\nschedule s for gemm on host {\n    faster(mm)\n}\n'


@pytest.mark.parametrize("capabilities", [PUSHES, PULLS], ids=["pushes", "pulls"])
def test_users_of_an_edited_file_are_checked_again(tmp_path: Path, capabilities: dict) -> None:
    (tmp_path / "lib.ms").write_text(LIBRARY)
    with Wire(tmp_path) as wire:
        wire.initialize(capabilities)
        user, library = wire.open("user.ms", USER), wire.open("lib.ms", LIBRARY)

        def codes(found: list[dict]) -> str:
            return found[0]["code"] if found else ""

        def now(wanted: str, after: int) -> bool:
            """Whether the first of the user's findings comes to have this code after so many messages."""
            if capabilities is PUSHES:
                wire.findings(user, lambda found: codes(found) == wanted, after)
                return True
            wire.wait(lambda m: m.get("method") == "workspace/diagnostic/refresh", after=after)
            items = wire.ask("textDocument/diagnostic", {"textDocument": {"uri": user}})["items"]
            return codes(items) == wanted

        before = len(wire.messages)
        wire.change(library, 2, {"text": LIBRARY.replace("b.i.parallel", "b.k.parallel")})
        assert now("MS309", before)
        before = len(wire.messages)
        wire.change(library, 3, {"text": LIBRARY})
        assert now("", before)
        before = len(wire.messages)
        wire.change(library, 4, {"text": LIBRARY.replace("faster", "fastest")})
        assert now("MS121", before)
        before = len(wire.messages)
        wire.notify("textDocument/didClose", {"textDocument": {"uri": library}})
        assert now("", before)
        before = len(wire.messages)
        (tmp_path / "lib.ms").write_text(LIBRARY.replace("faster", "slower"))
        change = {"uri": library, "type": 2}
        wire.notify("workspace/didChangeWatchedFiles", {"changes": [change]})
        assert now("MS121", before)
