"""Campaigns in chunks lose no pair: not to a process that dies, not to a run that was interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.property import chunks
from tests.property.chunks import Chunk, Result, check_one, condense, keep, kept, left, run
from tests.property.tally import Fault, Tally

ROOT = Path(__file__).parents[2]


def counted(chunk: Chunk, number: int) -> Tally:
    return Tally(pairs=1, applied=Counter({"split": number}))


def dying(chunk: Chunk, number: int) -> Tally:
    if number == 12:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 13:
        raise SystemExit(7)
    return counted(chunk, number)


def test_pairs_are_shared_out_among_the_generators() -> None:
    made = chunks.chunks(0, 100, 20, ["stages", "instances"])
    assert sum(c.count for c in made) == 100
    assert [(c.generator, c.first, c.count) for c in made[:3]] == [
        ("stages", 0, 20),
        ("instances", 0, 20),
        ("stages", 20, 20),
    ]
    assert [c.count for c in made if c.generator == "instances"] == [20, 20, 10]


def test_every_chunk_is_run() -> None:
    todo = chunks.chunks(3, 50, 10, ["stages"])
    results = list(run(todo, 2, "c", counted))
    assert sorted(r.chunk.first for r in results) == [0, 10, 20, 30, 40]
    assert sum(r.tally.pairs for r in results) == 50
    assert sum(r.tally.applied["split"] for r in results) == sum(range(50))


def test_a_pair_that_kills_the_process_is_a_fault_and_the_others_go_on() -> None:
    (result,) = run([Chunk("instances", 0, 10, 6)], 1, "c", dying)
    assert result.tally.pairs == 6
    assert result.tally.applied["split"] == 10 + 11 + 14 + 15
    died, left = result.tally.faults
    assert (died.pair, died.what, died.generator) == (12, "the process died of SIGKILL", "instances")
    assert (left.pair, left.what) == (13, "exit 7")


def test_results_are_kept_and_a_line_that_was_cut_off_is_not(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run.jsonl"
    fault = Fault(7, "wrong", ("split",), "program", "instances")
    first = Result(Chunk("stages", 0, 0, 5), "abc", 1.5, Tally(pairs=5, tried=Counter(split=3), faults=[fault]))
    keep(path, first)
    assert kept(path) == [first]
    path.write_bytes(path.read_bytes() + path.read_bytes()[:40])
    assert kept(path) == [first]
    second = Result(Chunk("stages", 0, 5, 5), "abc", 1.5, Tally(pairs=5))
    keep(path, second)
    assert kept(path) == [first, second]
    assert kept(tmp_path / "none.jsonl") == []


def test_a_campaign_in_parts_is_that_of_one_run(tmp_path: Path) -> None:
    wanted, path = chunks.chunks(3, 60, 10, ["stages", "instances"]), tmp_path / "seed-3.jsonl"
    for result in run(wanted[:3], 2, "first", counted, code="a"):
        keep(path, result)
    condense(path)
    assert len(kept(path)) == 2
    assert left(wanted, kept(path)) == wanted[3:]
    for result in run(wanted[3:], 2, "second", counted, code="a"):
        keep(path, result)
    condense(path)
    parts = kept(path)
    assert [(r.chunk, r.commit) for r in parts] == [
        (Chunk("instances", 3, 0, 30), "second"),
        (Chunk("stages", 3, 0, 30), "second"),
    ]
    assert left(wanted, parts) == []
    assert all(r.tally.pairs == 30 and r.tally.applied["split"] == sum(range(30)) for r in parts)


def test_the_code_of_a_campaign_is_all_that_a_pair_runs() -> None:
    script = """
import sys
from pathlib import Path
from tests.property.campaign import GENERATORS, campaign
for generator in GENERATORS:
    campaign(1, range(2), generator=generator)
root = Path.cwd()
files = [Path(m.__file__) for m in list(sys.modules.values()) if getattr(m, "__file__", None)]
print(*(f.relative_to(root).as_posix() for f in files if f.is_relative_to(root) and ".venv" not in f.parts))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    run_from = set(done.stdout.split()) - {"tests/__init__.py"}
    assert {p for p in run_from if not any(p == c or p.startswith(f"{c}/") for c in chunks.CODE)} == set()
    assert all((ROOT / c).exists() for c in chunks.CODE)


def test_results_under_other_code_or_with_a_gap_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "seed-3.jsonl"
    for code, first in (("a", 0), ("b", 10), ("a", 20), ("a", 30)):
        keep(path, Result(Chunk("stages", 3, first, 10), "c", 1.0, Tally(pairs=10), code))
    condense(path)
    assert [(r.code, r.chunk.first, r.tally.pairs) for r in kept(path)] == [("a", 0, 10), ("a", 20, 20), ("b", 10, 10)]
    condense(tmp_path / "none.jsonl")
    assert not (tmp_path / "none.jsonl").exists()


def test_a_run_that_is_to_stop_ends_what_it_has_begun() -> None:
    todo = chunks.chunks(3, 50, 10, ["stages"])
    heard = iter([False, *[True] * 100])
    results = list(run(todo, 2, "c", counted, stop=lambda: next(heard)))
    assert sorted(r.chunk.first for r in results) == [0, 10]
    assert sum(r.tally.pairs for r in results) == 20


def test_a_pair_in_a_process_is_the_pair_of_the_campaign() -> None:
    (result,) = run([Chunk("instances", 5, 3, 2)], 1, "c")
    alone = Tally()
    for number in (3, 4):
        alone.add(check_one(Chunk("instances", 5, 3, 2), number))
    assert result.tally == alone
