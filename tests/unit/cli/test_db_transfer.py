"""`mslang db import` and `export`: bytes that are no text, options that do not go together."""

import io
import json
import sys
from pathlib import Path

import pytest

from mslang.cli.main import main
from mslang.tune.database import Database

LINE = json.dumps({"kind": "workload", "hash": "0f", "name": "p", "text": "program p() {}"})
Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
@pytest.mark.parametrize("bad", [b'{"kind": "workload", "hash": "caf\xe9", "name": "p", "text": ""}', b"\xff\xfe"])
def test_bytes_on_standard_input_are_reported_as_those_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, errors: str, bad: bytes
) -> None:
    data = b"\n".join([LINE.encode(), bad, LINE.replace("0f", "0e").encode(), b""])
    (tmp_path / "lines.jsonl").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    assert main(["db", "import", "lines.jsonl", "--db", "file.db"]) == 1
    of_file = capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8", errors))
    assert main(["db", "import", "-", "--db", "input.db"]) == 1
    of_input = capsys.readouterr()
    assert "[MS608]" in of_input.err and of_input.err == of_file.err.replace("lines.jsonl", "-")
    for name in ("file.db", "input.db"):
        with Database(name, read_only=True) as store:
            assert [w.hash for w in store.texts()] == ["0e", "0f"]


def test_an_outcome_does_not_go_with_a_database_of_tvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    Database("r.db").close()
    assert main(["db", "export", "--format", "tvm", "out", "--outcome", "crash", "--db", "r.db"]) == 2
    assert "--outcome goes with JSON lines" in capsys.readouterr().err and not Path("out").exists()
