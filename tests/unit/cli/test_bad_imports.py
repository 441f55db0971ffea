"""`mslang import` and `mslang db` on bad input: one diagnostic, the right exit status, nothing lost or half written."""

import json
import shutil
from pathlib import Path

import pytest

from mslang.cli.main import main
from mslang.interop.tvm.program_out import to_graph
from mslang.sema.program import parse_program

DATA = Path(__file__).parents[2] / "data" / "tvm"
PROGRAM = "program f(A: f32[16], out B: f32[16]) { block b[i: 16] { B[i] = A[i] + 1.0 } }\n"
KERNEL = """from tvm.script import tir as T
@T.prim_func
def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("b"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
"""
BLOCK = ["GetSBlock", [], ["b", "main"], ["b0"]]
LOOPS = ["GetLoops", ["b0"], [], ["l1"]]
TILE = ["SamplePerfectTile", ["l1"], [2, 64], ["v1", "v2"]]


def trace(*insts: object, decisions: object = ()) -> str:
    """The text of a trace."""
    return json.dumps([list(insts), decisions])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with a program, a kernel and a trace that are right."""
    (tmp_path / "p.ms").write_text(PROGRAM)
    (tmp_path / "ok.py").write_text(KERNEL)
    (tmp_path / "ok.json").write_text(trace(BLOCK, LOOPS, TILE, decisions=[[2, [4, 4]]]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(words: list[str], capsys: pytest.CaptureFixture[str], status: int = 1) -> str:
    """What standard error says of a command line that must fail, in one diagnostic and no file."""
    before = {p: p.read_bytes() if p.is_file() else None for p in Path().rglob("*")}
    try:
        found = main(words)
    except SystemExit as stopped:
        found = stopped.code
    said = capsys.readouterr()
    assert found == status, said.err
    assert said.out == ""
    assert sum(line.startswith("error[") for line in said.err.splitlines()) == 1, said.err
    assert {p: p.read_bytes() if p.is_file() else None for p in Path().rglob("*")} == before
    return said.err


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("absent.py", None, "MS702"),
        ("broken.py", "def f(:", "MS730"),
        ("none.py", "x = 1\n", "MS736"),
        ("empty.py", "", "MS736"),
        ("zero.py", "\0", "MS730"),
        ("deep.py", "x = " + "(" * 3000 + ")" * 3000, "MS730"),
        ("junk.py", b"\x9a\xff\x00", "MS702"),
        ("junk.json", b"\x9a\xff\x00", "MS702"),
        ("broken.json", '{"a": ', "MS749"),
        ("empty.json", "", "MS749"),
        ("number.json", "3", "MS749"),
        ("text.json", '"x"', "MS749"),
        ("null.json", "null", "MS749"),
        ("three.json", "[1, 2, 3]", "MS749"),
        ("nested.json", "[" * 100 + "1" + "]" * 100, "MS749"),
        ("deep.json", "[" * 100_000, "MS749"),
        ("graph.json", '{"nodes": [], "root": 7}', "MS74"),
        ("graph.json", '{"nodes": [3, {}, []]}', "MS74"),
        ("records.json", "[0, [1]]", "MS747"),
        ("trace.json", "[[], []]", "MS749"),
    ],
)
def test_a_file_that_is_none(
    place: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | bytes | None, code: str
) -> None:
    if content is not None:
        (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert f"error[{code}" in refused(["import", name, "-o", "out.ms"], capsys)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (trace(["FlyToMoon", ["b0"], [], ["l1"]]), "MS742"),
        (trace(["GetSBlock", []]), "MS740"),
        (trace(["GetSBlock", [], ["b"]]), "MS740"),
        (trace([*BLOCK, 5, 6]), "MS740"),
        (trace(["GetSBlock", {}, {}, {}]), "MS740"),
        (trace([3, [], [], []]), "MS740"),
        (trace(["GetSBlock", [], [], ["b0"]]), "MS743"),
        (trace(["GetSBlock", [], [3, 4], ["b0"]]), "MS743"),
        (trace(["GetSBlock", [], ["b", "main"], []]), "MS743"),
        (trace(["Annotate", ["b0"], ["k"], []]), "MS743"),
        (trace(BLOCK, ["Annotate", [1, "x"], ["k"], []]), "MS743"),
        (trace(BLOCK, ["Unannotate", [None], ["k"], []]), "MS743"),
        (trace(["Split", ["l9", "v1"], [1, 0], ["l2"]]), "MS743"),
        (trace(BLOCK, LOOPS, TILE, decisions=[[2, [3]]]), "MS743"),
        (trace(BLOCK, LOOPS, TILE, decisions=[["x", [3]]]), "MS740"),
        (trace(BLOCK, LOOPS, TILE, decisions=[[77, [3, 5]]]), "MS740"),
        (trace(BLOCK, decisions=3), "MS749"),
    ],
)
def test_a_trace_that_is_none(place: Path, capsys: pytest.CaptureFixture[str], text: str, code: str) -> None:
    (place / "t.json").write_text(text)
    assert f"error[{code}" in refused(["import", "t.json", "--for", "p.ms:f", "-o", "out.ms"], capsys)


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (["import"], "MS701", 2),
        (["import", "a.txt"], "MS701", 2),
        (["import", "ok.py", "--jsonn"], "MS701", 2),
        (["import", "ok.py", "another.py"], "MS701", 2),
        (["import", "ok.py", "--set", "N=x"], "MS701", 2),
        (["import", "ok.py", "--set", "N=8"], "MS701", 2),
        (["import", "ok.py", "--for", "p.ms:f"], "MS701", 2),
        (["import", "ok.py", "--use", "p.ms"], "MS701", 2),
        (["import", "graph.json", "--set", "N=8"], "MS701", 2),
        (["import", "ok.py", "-o", "ok.py"], "MS701", 2),
        (["import", "ok.json", "--for", "p.ms:f", "-o", "p.ms"], "MS701", 2),
        (["import", "ok.py", "-o", "absent/out.ms"], "MS702", 1),
        (["import", "ok.py", "-o", "folder.py"], "MS702", 1),
        (["import", "ok.py", "-o", "/dev/null/out.ms"], "MS702", 1),
        (["import", "ok.py", "-o", ""], "MS702", 1),
        (["import", "folder.py"], "MS702", 1),
        (["import", "ok.json", "--for", "absent.ms:f"], "MS702", 1),
        (["import", "ok.json", "--for", "p.ms:g"], "MS703", 1),
        (["import", "ok.json", "--for", "a.txt:f"], "MS0", 1),
        (["import", "ok.json", "--for", ""], "MS702", 1),
        (["db", "import", "absent"], "MS702", 1),
        (["db", "import", "folder.py"], "MS747", 1),
        (["db", "import"], "MS701", 2),
        (["db", "export", "--format", "csv"], "MS701", 2),
        (["db", "export", "--format", "tvm", "out"], "MS603", 1),
        (["db", "export", "--format", "tvm", "out", "--db", "empty.db"], "MS603", 1),
        (["db", "export", "--format", "tvm", "out", "--db", "folder.py"], "MS603", 1),
        (["db", "export", "--format", "tvm", "out", "--db", "p.ms"], "MS601", 1),
        (["explain", "rfactorr"], "MS703", 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_use(place: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: str, status: int) -> None:
    (place / "folder.py").mkdir()
    (place / "empty.db").touch()
    (place / "a.txt").write_text("hi")
    (place / "graph.json").write_text(to_graph(parse_program(PROGRAM)))
    said = refused(words, capsys, status)
    assert f"error[{code}" in said
    assert words[0] != "explain" or "did you mean `rfactor`?" in said


def test_with_json_it_is_one_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "broken.py").write_text("def f(:")
    assert main(["import", "broken.py", "--json"]) == 1
    assert [json.loads(line)["code"] for line in capsys.readouterr().out.splitlines()] == ["MS730"]


def test_a_torn_database_gives_what_is_whole(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "torn").mkdir()
    for file in DATA.glob("database_*.json"):
        text = file.read_bytes()
        (place / "torn" / file.name).write_bytes(text[: len(text) * 2 // 3])
    assert main(["db", "import", "torn", "--db", "r.db"]) == 1
    said = capsys.readouterr().err
    assert "3 records brought into r.db, 3 left out" in said and said.count("warning[MS748]") == 3
    # What is whole is there: warnings are not a failure of `import`.
    assert main(["import", "torn/database_tuning_record.json", "-o", "out.ms"]) == 0
    assert 'attr "llvm.auto_vectorize" = true' in Path("out.ms").read_text()
    assert main(["check", "out.ms"]) == 0


def test_a_database_of_tvms_is_not_written_over(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(DATA, place / "theirs")
    assert main(["db", "import", "theirs", "--db", "r.db"]) == 0
    capsys.readouterr()
    before = {p: p.read_bytes() for p in (place / "theirs").rglob("*.json")}
    assert main(["db", "export", "--format", "tvm", "theirs", "--db", "r.db"]) == 1
    assert "error[MS702]: theirs has a database_workload.json" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in (place / "theirs").rglob("*.json")} == before


def test_an_empty_database_brings_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "none").mkdir()
    (place / "none" / "database_workload.json").touch()
    (place / "none" / "database_tuning_record.json").touch()
    assert main(["db", "import", "none", "--db", "r.db"]) == 0
    assert main(["db", "export", "--format", "tvm", "out", "--db", "r.db"]) == 0
    assert "0 records written to out" in capsys.readouterr().err


def test_times_of_elsewhere_are_no_top_and_that_is_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(DATA, place / "theirs")
    assert main(["db", "import", "theirs", "--db", "r.db"]) == 0
    capsys.readouterr()
    assert main(["db", "top", "--db", "r.db"]) == 1
    assert "no record has a time of this machine" in capsys.readouterr().err


def test_a_file_that_is_no_store_is_told_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.txt").write_text("not a row\n")
    assert main(["db", "import", "plain.txt", "--db", "r.db"]) == 1
    captured = capsys.readouterr()
    assert "warning[MS608]: line 1 of plain.txt" in captured.err and "0 records added" in captured.out
