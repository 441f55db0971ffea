"""A record of a bucket of dynamic sizes is replayed and compared; functions of files of one name are told apart."""

import json
from pathlib import Path

import pytest

from mslang.cli.main import main

TEXT = """program rows[M: dyn(1..40, buckets = [8])](A: f32[M, 8], out C: f32[M, 8]) {
    block c[i: M, j: 8] { C[i, j] = A[i, j] * 2.0 }
}
schedule tiled for rows {
    let n ~ choose([2, 4])
    let i0, i1 = c.i.split([_, n])
    c.j.vectorize()
}
"""
Captured = pytest.CaptureFixture[str]


def lines(capsys: Captured) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_record_of_a_bucket_is_replayed_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.ms").write_text(TEXT)
    assert main(["tune", "rows.ms:tiled", "--trials", "1", "--likely", "M=16", "--workers", "1", "--quiet"]) == 0
    capsys.readouterr()
    for name in ("rows", "tiled"):
        assert main(["run", f"rows.ms:{name}", "--record", "1", "--at", "M=16"]) == 0
        found = capsys.readouterr()
        assert "size      M = 16\n" in found.out and found.err == "record 1 is for M = 9..40\n"
    assert main(["run", "rows.ms:rows", "--record", "1", "--at", "M=8"]) == 1
    assert "M is declared 9..40" in capsys.readouterr().err
    words = ["compare", "rows.ms:tiled", "--record", "1", "--at", "M=16", "--seconds", "1", "--json"]
    assert main(words) == 0
    assert [x["outcome"] for x in lines(capsys)] == ["measured", "measured"]
    assert main(["run", "rows.ms:rows", "--record", "1", "--set", "M=16"]) == 1
    assert "record 1 is of another program" in capsys.readouterr().err


def test_functions_of_files_of_one_name_are_all_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.ms").write_text(TEXT.replace("M: dyn(1..40, buckets = [8])", "M = 8"))
    for folder in ("a", "b"):
        Path(folder).mkdir()
        Path(folder, "peers.py").write_text("def f(A):\n    return A * 2\n")
    peers = ["a/peers.py:f", "b/peers.py:f", "a/peers.py:f"]
    words = ["compare", "rows.ms:rows", *(x for p in peers for x in ("--with", p)), "--seconds", "1", "--json"]
    assert main(words) == 0
    assert [x["name"] for x in lines(capsys)] == ["rows.ms:rows", "a/peers.py:f", "b/peers.py:f", "a/peers.py:f #4"]
