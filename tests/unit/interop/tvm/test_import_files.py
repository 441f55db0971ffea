"""`mslang import` of JSON files: one trace a file, the program that it is for, modules with several functions."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from mslang.cli.main import main
from mslang.diagnostics import MsError
from mslang.interop.tvm.program_in import programs
from mslang.interop.tvm.program_out import to_graph
from mslang.interop.tvm.records import database
from mslang.interop.tvm.trace_in import import_trace
from mslang.interop.tvm.trace_json import from_data
from mslang.sema.program import parse_program

PROGRAM = "program f(A: f32[16], out B: f32[16]) { block b[i: 16] { B[i] = A[i] + 1.0 } }\n"
TRACE = json.dumps([[["GetSBlock", [], ["b", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1"]]], []])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.ms").write_text(PROGRAM)
    (tmp_path / "f.json").write_text(TRACE)
    return tmp_path


@pytest.mark.parametrize("rest", [TRACE, "[", "more", '{"nodes": []}'])
def test_what_follows_a_trace_is_refused(place: Path, capsys: pytest.CaptureFixture[str], rest: str) -> None:
    (place / "two.json").write_text(f"{TRACE}\n{rest}\n")
    assert main(["import", "two.json", "--for", "f.ms:f", "-o", "out.ms"]) == 1
    said = capsys.readouterr().err
    assert said.count("error[") == 1 and "error[MS740]" in said and "follows the trace" in said
    assert not (place / "out.ms").exists()


def test_what_follows_a_graph_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "two.json").write_text(f"{to_graph(parse_program(PROGRAM))}\nmore\n")
    assert main(["import", "two.json"]) == 1
    assert "error[MS74" in capsys.readouterr().err


def test_the_only_program_of_a_file_need_not_be_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "f.json", "--for", "f.ms", "-o", "out.ms"]) == 0
    assert (place / "out.ms").read_text().startswith('use "./f.ms".{f}\n')
    assert main(["check", "out.ms"]) == 0
    capsys.readouterr()
    assert main(["import", "f.json", "--for", "f.ms"]) == 0
    assert capsys.readouterr().out == (place / "out.ms").read_text()


def test_what_is_printed_is_a_file_of_the_current_folder(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "traces").mkdir()
    (place / "f.json").rename(place / "traces" / "f.json")
    assert main(["import", "traces/f.json", "--for", "f.ms"]) == 0
    (place / "printed.ms").write_text(capsys.readouterr().out)
    assert main(["check", "printed.ms"]) == 0


def test_programs_of_a_file_that_is_no_trace_use_no_other(place: Path) -> None:
    (place / "graph.json").write_text(to_graph(parse_program(PROGRAM)))
    assert main(["import", "graph.json", "--for", "f.ms:f", "-o", "out.ms"]) == 0
    assert "use" not in (place / "out.ms").read_text()


def test_a_trace_of_several_functions_is_refused() -> None:
    blocks = [["GetSBlock", [], ["b", name], [f"b{k}"]] for k, name in enumerate(("main", "main", "other"))]
    program = parse_program(PROGRAM)
    import_trace(program, from_data([blocks[:2], []]))
    with pytest.raises(MsError, match="several functions, main, other") as caught:
        import_trace(program, from_data([blocks, []]))
    assert caught.value.diagnostic.code == "MS743"


def workload(graph: str) -> bytes:
    raw = graph.encode()
    return json.dumps(["0", base64.b64encode(len(raw).to_bytes(8, "little") + raw).decode()]).encode()


def test_a_workload_of_several_functions_is_skipped() -> None:
    one = to_graph(parse_program(PROGRAM))
    graph = json.loads(one)
    nodes = graph["nodes"]
    module = nodes[graph["root_index"]]
    (pair,) = [nodes[module["data"]["functions"]]]
    variable = nodes[pair["data"][0]]
    nodes += [nodes[variable["data"]["name_hint"]] | {"data": "other"}]
    nodes += [variable | {"data": {**variable["data"], "name_hint": len(nodes) - 1}}]
    pair["data"] += [len(nodes) - 1, pair["data"][1]]
    two = json.dumps(graph)
    assert list(programs(two)) == ["main", "other"]
    found = database(workload(one) + b"\n" + workload(two), b"", "folder")
    assert [w.line for w in found.workloads] == [0]
    (d,) = found.diagnostics
    assert d.code == "MS748" and "several functions" in (d.why or "") and "main, other" in (d.why or "")
