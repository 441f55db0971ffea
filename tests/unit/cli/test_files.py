"""Which files a command line names, and how they are written: line ends, modes, what is there already."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mslang.cli.common import encoded, write_text
from mslang.cli.main import main

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
