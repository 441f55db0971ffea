"""Which files a command line names, and how they are written: line ends, modes, what is there already."""

import io
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mslang.cli.common import encoded, write_bytes, write_text
from mslang.cli.main import main
from mslang.diagnostics import MsError
from mslang.tune.database import Database

GOOD = "program p(A: f32[8], out B: f32[8]) {\n    block b[i: 8] {\n        B[i] = A[i]\n    }\n}\n"
BAD = GOOD.replace("    block", "  block")
TVMSCRIPT = """from tvm.script import tir as T
@T.prim_func
def p(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", [["check", ""], ["fmt", ""], ["test", "--samples", "0", ""], ["fmt", "p.ms", ""]])
def test_an_empty_name_is_wrong_use(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    Path("p.ms").write_text(BAD)
    assert main(words) == 2 and "[MS701]" in capsys.readouterr().err
    assert Path("p.ms").read_text() == BAD


@pytest.mark.parametrize("verb", [["check"], ["fmt", "--check"], ["test", "--samples", "0"]])
def test_a_folder_that_is_called_like_a_file_is_none(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    Path("x.ms").mkdir()
    Path("x.ms", "p.ms").write_text(GOOD)
    assert main([*verb, "."]) == 0, capsys.readouterr()


@pytest.mark.parametrize(
    ("like", "ends"),
    [
        (b"", b"\n"),
        (b"a\rb\r", b"\r"),
        (b"a\r\nb\nc\n", b"\n"),
        (b"a\r\nb\r\nc\n", b"\r\n"),
        (b"a" * 5000 + b"\r\nb\r\n", b"\r\n"),
        (b"a\rb\nc\n", b"\n"),
    ],
)
def test_line_ends_are_those_of_most_lines(like: bytes, ends: bytes) -> None:
    assert encoded("x\ny\n", like) == b"x" + ends + b"y" + ends


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_formatting_keeps_the_line_ends(folder: Path, ends: str) -> None:
    Path("p.ms").write_bytes(BAD.replace("\n", ends).encode())
    assert main(["fmt", "p.ms"]) == 0
    assert Path("p.ms").read_bytes() == GOOD.replace("\n", ends).encode()


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_a_new_file_has_the_users_mode(folder: Path, umask: int) -> None:
    write_text(Path("new.ms"), GOOD)
    assert Path("new.ms").stat().st_mode & 0o777 == 0o666 & ~umask
    Path("new.ms").chmod(0o640)
    write_text(Path("new.ms"), BAD)
    assert Path("new.ms").stat().st_mode & 0o777 == 0o640
    assert [p.name for p in folder.iterdir()] == ["new.ms"]


def test_an_import_replaces_a_file_only_by_force(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.py").write_text(TVMSCRIPT)
    Path("k.ms").write_text(GOOD)
    assert main(["import", "k.py", "-o", "k.ms"]) == 1
    said = capsys.readouterr().err
    assert "error[MS702]: k.ms exists" in said and "--force" in said and Path("k.ms").read_text() == GOOD
    assert main(["import", "k.py", "-o", "k.ms", "--force"]) == 0 and Path("k.ms").read_text() != GOOD
    assert main(["import", "k.py", "-o", "new.ms"]) == 0


def test_no_import_replaces_a_file_of_its_intrinsics(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.json").write_text("[[], []]")
    Path("p.ms").write_text(GOOD)
    Path("own.ms").write_text(GOOD)
    assert main(["import", "t.json", "--for", "p.ms:p", "--use", "own.ms", "-o", "own.ms", "--force"]) == 2
    assert "own.ms is an input file" in capsys.readouterr().err and Path("own.ms").read_text() == GOOD


def test_no_report_replaces_its_record_store(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Database("r.db"):
        pass
    Path("link.db").symlink_to("r.db")
    before = Path("r.db").read_bytes()
    for out in ("r.db", "./r.db", "link.db"):
        assert main(["report", "r.db", "-o", out]) == 2
        assert "is the record store" in capsys.readouterr().err
    assert Path("r.db").read_bytes() == before


def test_a_link_stays_and_its_file_is_replaced(folder: Path) -> None:
    Path("p.ms").write_text(GOOD)
    Path("there").mkdir()
    Path("there/real.h").write_text("")
    Path("link.h").symlink_to("there/real.h")
    assert main(["build", "p.ms", "-o", "link.h"]) == 0
    assert Path("link.h").is_symlink() and "int p(" in Path("there/real.h").read_text()
    assert [p.name for p in Path("there").iterdir()] == ["real.h"]


def test_links_in_a_circle_are_one_diagnostic(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.py").write_text(TVMSCRIPT)
    Path("circle.ms").symlink_to("circle.ms")
    assert main(["import", "k.py", "-o", "circle.ms"]) == 1
    assert "error[MS702]" in capsys.readouterr().err
    with pytest.raises(MsError, match=r"cannot write circle\.ms"):
        write_text(Path("circle.ms"), GOOD)
    assert Path("circle.ms").is_symlink()


def test_a_pipe_is_written_to(folder: Path) -> None:
    os.mkfifo("pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_text()), daemon=True)
    writer = threading.Thread(target=write_text, args=(Path("pipe"), GOOD), daemon=True)
    reader.start()
    writer.start()
    reader.join(10)
    writer.join(10)
    assert read == [GOOD] and Path("pipe").is_fifo()


def test_a_library_has_the_users_mode(folder: Path, umask: int) -> None:
    write_bytes(Path("p.so"), b"", executable=True)
    assert Path("p.so").stat().st_mode & 0o777 == 0o777 & ~umask
    Path("p.ms").write_text(GOOD)
    assert main(["build", "p.ms", "-o", "p.h"]) == 0
    assert Path("p.h").stat().st_mode & 0o777 == 0o666 & ~umask


def say(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put a text on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_standard_input_is_formatted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    say(monkeypatch, BAD)
    assert main(["fmt", "-"]) == 0 and capsys.readouterr().out == GOOD
    say(monkeypatch, BAD)
    assert main(["fmt", "-", "--json"]) == 0
    line = {"kind": "format", "path": "standard input", "changed": True}
    assert json.loads(capsys.readouterr().out) == {**line, "text": GOOD}
    say(monkeypatch, BAD)
    assert main(["fmt", "-", "--check", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == line


@pytest.mark.parametrize("words", [["fmt", "-"], ["lsp"]])
def test_a_closed_standard_input_is_one_diagnostic(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr("mslang.cli.lsp.entry_points", lambda **_: ())
    assert main(words) == 1
    said = capsys.readouterr()
    assert "error[MS702]: cannot read standard input" in said.err and said.out == ""


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (GOOD.rstrip("\n"), ["-}", "\\ No newline at end of file", "+}"]),
        (f"# a\u2028b\n\n{BAD}", ["-  block b[i: 8] {", "+    block b[i: 8] {"]),
    ],
)
def test_a_difference_is_of_lines(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, changed: list[str]
) -> None:
    Path("p.ms").write_text(text)
    assert main(["fmt", "--diff", "p.ms"]) == 1
    lines = capsys.readouterr().out.split("\n")
    assert [s for s in lines[2:] if s[:1] in ("-", "+", "\\")] == changed
    assert "\u2028" not in text or " # a\u2028b" in lines
    assert Path("p.ms").read_text() == text


def test_a_library_of_a_file_whose_name_is_no_text(folder: Path) -> None:
    name = os.fsdecode(b"caf\xe9.ms")
    Path(name).write_text(GOOD)
    assert main(["build", name, "-o", "p.h"]) == 0
    assert "from caf\\udce9.ms:p." in Path("p.h").read_text()


def test_a_report_of_a_store_whose_name_is_no_text(folder: Path) -> None:
    Path("p.ms").write_text(GOOD)
    store = os.fsdecode(b"caf\xe9.db")
    assert main(["tune", "p.ms", "--trials", "1", "--db", store]) == 0
    assert main(["report", store]) == 0
    assert "caf\\udce9.db" in Path("report.html").read_text()


def test_commands_that_are_suggested_can_be_typed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = GOOD.replace("program p", "program q").replace("A[i]", "A[x]")
    Path("my file.ms").write_text(f"{GOOD}\n{wrong}")
    assert main(["expand", "my file.ms:p"]) == 0
    assert "mslang check 'my file.ms'" in capsys.readouterr().err
    Path("my file.ms").write_text(GOOD + wrong.replace("A[x]", "A[i]"))
    assert main(["expand", "my file.ms"]) == 1
    assert "name one: 'my file.ms:p'" in capsys.readouterr().err
    Path("my file.ms").write_text(BAD)
    Path("my file.ms").chmod(0o444)
    assert main(["fmt", "my file.ms"]) == 1
    assert "chmod u+w 'my file.ms'" in capsys.readouterr().err
