"""`mslang tune` from the outside: it finds, verifies, keeps, resumes, writes back; nothing shown is ever lost."""

import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from conftest import Run, command, json_lines

from mslang.tune.database import Database
from mslang.tune.record import Record


def trials(done: subprocess.CompletedProcess[str]) -> list[dict]:
    return [line for line in json_lines(done.stdout) if line["kind"] == "trial"]


def summary_of(text: str) -> dict:
    """The summary of the one task."""
    [finished] = [line for line in json_lines(text) if line["kind"] == "finished"]
    return finished


def test_tune_finds_records_and_writes_back(run: Run, gemm: Path) -> None:
    done = run("tune", "gemm.ms", "--trials", "6", "--seed", "3", "--write")
    assert done.returncode == 0, done.stderr
    for word in ("best", "GFLOP/s", "measured", "record", "gemm.ms:gemm_best"):
        assert word in done.stdout
    assert "schedule gemm_best for gemm on host = tiled with {" in gemm.read_text()
    assert run("check", "gemm.ms").returncode == 0
    assert run("fmt", "--check", "gemm.ms").returncode in (0, 1)
    # A new process replays the pinned result to the identical program and verifies it.
    again = json_lines(run("run", "gemm.ms:gemm_best", "--json").stdout)[0]
    with Database(gemm.parent / ".mslang" / "records.db") as db:
        best = db.top(n=1)[0]
    assert again["program"] == best.candidate
    assert again["outcome"] == "measured"
    assert [v["inputs"] for v in again["verified"]] == ["sparse integers", "dense"]
    # Writing once more replaces the item instead of adding another.
    assert run("tune", "gemm.ms:tiled", "--trials", "3", "--seed", "4", "--write").returncode == 0
    assert gemm.read_text().count("schedule gemm_best") == 1


def test_the_seed_alone_decides_the_candidates(run: Run, gemm: Path) -> None:
    drawn = [
        [
            t["candidate"]
            for t in trials(
                run("tune", "gemm.ms", "--trials", "6", "--seed", "5", "--json", "--db", f"{n}.db", "--workers", str(n))
            )
        ]
        for n in (1, 3)
    ]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 6


def test_resume_goes_on_where_the_run_stopped(run: Run, gemm: Path) -> None:
    first = trials(run("tune", "gemm.ms", "--trials", "4", "--seed", "1", "--json"))
    more = trials(run("tune", "gemm.ms", "--trials", "7", "--resume", "--json"))
    whole = trials(run("tune", "gemm.ms", "--trials", "7", "--seed", "1", "--json", "--db", "other.db"))
    assert [t["candidate"] for t in first + more] == [t["candidate"] for t in whole]
    missing = run("tune", "gemm.ms", "--resume", "--db", "none.db")
    assert missing.returncode == 1 and "MS503" in missing.stderr


def test_a_space_with_few_points_ends_by_itself(run: Run, gemm: Path) -> None:
    text = gemm.read_text().replace("max_inner = 8", "max_inner = 1").replace("max_inner = 16", "max_inner = 2")
    gemm.write_text(text)
    done = run("tune", "gemm.ms", "--trials", "50", "--json", "--strategy", "replay_trace")
    assert done.returncode == 0
    finished = summary_of(done.stdout)
    assert finished["reason"] == "the space is exhausted: no draw gives a new candidate"
    assert finished["outcomes"]["duplicate"] > 0


def test_rejections_are_counted_by_reason(run: Run, gemm: Path) -> None:
    wide = '    require tj[1] > 2, "too narrow"\n    j1.vectorize()'
    gemm.write_text(gemm.read_text().replace("    j1.vectorize()", wide))
    done = run("tune", "gemm.ms", "--trials", "5")
    assert done.returncode == 0
    assert "rejected by constraint" in done.stdout and "too narrow" in done.stdout


def test_no_valid_candidate_at_all(run: Run, gemm: Path) -> None:
    never = '    require tj[1] > 99, "never"\n    j1.vectorize()'
    gemm.write_text(gemm.read_text().replace("    j1.vectorize()", never))
    done = run("tune", "gemm.ms", "--trials", "5")
    assert done.returncode == 1
    assert "never" in done.stdout and "nothing valid was found" in done.stdout


def test_ctrl_c_keeps_what_was_found(gemm: Path) -> None:
    process = subprocess.Popen(
        command("tune", "gemm.ms", "--trials", "100000", "--json"),
        cwd=gemm.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    shown = []
    for line in process.stdout:
        shown += [x for x in json_lines(line) if x["kind"] == "trial"]
        if len(shown) == 3:
            process.send_signal(signal.SIGINT)
            break
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    finished = summary_of(rest)
    assert finished["kind"] == "finished" and finished["reason"] == "interrupted"
    assert finished["best"] is not None


def test_kill_9_loses_no_record_that_was_shown(gemm: Path) -> None:
    def killed(number: int) -> set[int]:
        """The records shown by a tuner that is killed at some moment."""
        chance = random.Random(number)
        process = subprocess.Popen(
            command("tune", "gemm.ms", "--trials", "100000", "--json", "--seed", str(number)),
            cwd=gemm.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        lines = list(islice(process.stdout, chance.randrange(2, 9)))
        time.sleep(chance.uniform(0.0, 0.03))
        process.kill()
        rest, _ = process.communicate(timeout=60)
        whole = "".join(lines) + rest[: rest.rfind("\n") + 1]
        return {x["id"] for x in json_lines(whole) if x["kind"] == "trial"}

    # Two at a time: they share the store, and each other's death.
    with ThreadPoolExecutor(2) as pool:
        shown = set().union(*pool.map(killed, range(8)))
    with Database(gemm.parent / ".mslang" / "records.db") as db:
        kept = {r.id for r in db.records() if isinstance(r, Record)}
    assert shown and shown <= kept


def test_two_tuners_on_one_database(gemm: Path) -> None:
    processes = [
        subprocess.Popen(
            command("tune", "gemm.ms", "--trials", "6", "--json", "--seed", str(seed), "--db", "shared.db"),
            cwd=gemm.parent,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2)
    ]
    outputs = [p.communicate(timeout=120)[0] for p in processes]
    assert [p.returncode for p in processes] == [0, 0]
    shown = [x for out in outputs for x in json_lines(out) if x["kind"] == "trial"]
    with Database(gemm.parent / "shared.db") as db:
        assert {x["id"] for x in shown} <= {r.id for r in db.records() if isinstance(r, Record)}
    assert len(shown) == 12


def test_a_signal_to_end_ends_it_in_order(gemm: Path) -> None:
    process = subprocess.Popen(
        command("tune", "gemm.ms", "--trials", "100000", "--write"),
        cwd=gemm.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    before = gemm.read_text()
    for line in process.stderr:
        if "trial 1/" in line:
            process.send_signal(signal.SIGTERM)
            break
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in told and "not measured again" in told
    # What was not verified to the end is not written back.
    assert gemm.read_text() == before


def test_two_spaces_of_a_program_write_one_winner(run: Run, gemm: Path) -> None:
    gemm.write_text(
        gemm.read_text() + "schedule plain for gemm { let a, b = mm.i.split([_, 4]) }\n"
        "program other[N = 8](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] } }\n"
    )
    done = run("tune", "gemm.ms", "--trials", "3", "--write")
    assert done.returncode == 0
    assert "passing over other" in done.stderr and "gemm:tiled" in done.stdout and "gemm:plain" in done.stdout
    assert gemm.read_text().count("schedule gemm_best for gemm") == 1
    with Database(gemm.parent / ".mslang" / "records.db") as db:
        confirmed = {r.schedule.strip() for r in db.top(n=100) if len(r.result.verified) == 2}
    assert any(schedule in gemm.read_text() for schedule in confirmed)


def test_a_schedule_without_decisions_is_written_back_so_that_it_parses(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.ms").write_text(
        "program p[N = 64](X: f32[N], out Z: f32[N]) { block one[i: N] { Z[i] = X[i] + 1.0 } }\n"
        "schedule fixed for p { one.i.vectorize() }\n"
    )
    done = run("tune", "p.ms", "--write")
    assert done.returncode == 0 and "1 trial in" in done.stdout and "duplicate" not in done.stdout
    assert "schedule p_best for p = fixed with {}" in (tmp_path / "p.ms").read_text()
    assert run("check", "p.ms").returncode == 0
    # The second time all is known, and what stands in the file stays.
    before = (tmp_path / "p.ms").read_text()
    again = run("tune", "p.ms:fixed", "--write")
    assert "were not measured again" in again.stdout and "is kept: no faster one was found" in again.stdout
    assert (tmp_path / "p.ms").read_text() == before


@pytest.mark.usefixtures("default_signals")
def test_the_hint_to_resume_can_be_typed(gemm: Path) -> None:
    process = subprocess.Popen(
        command("tune", "gemm.ms:tiled", "--trials", "100000", "--db", "a b.db", "--set", "M=64"),
        cwd=gemm.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "trial 1/" in line:
            process.send_signal(signal.SIGHUP)
            break
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "mslang tune gemm.ms:tiled --resume --db 'a b.db' --trials 100000 --set M=64" in rest


def test_a_missing_package_is_exit_status_3(gemm: Path) -> None:
    code = "import sys; sys.modules['llvmlite'] = None; from mslang.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "tune", "gemm.ms"], cwd=gemm.parent, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 3 and "MS514" in done.stderr and "pip install llvmlite" in done.stderr


def test_a_script_needs_no_main_guard(gemm: Path) -> None:
    script = gemm.with_name("script.py")
    script.write_text(
        "import mslang as ms\n"
        "m = ms.load('gemm.ms')\n"
        "print(ms.tune(m.space('tiled'), trials=2, database='r.db').seconds)\n"
    )
    done = subprocess.run([sys.executable, str(script)], cwd=gemm.parent, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and float(done.stdout) > 0, done.stderr


def test_indices_out_of_bounds_are_one_diagnostic(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.ms").write_text(
        "program rows[N = 16, NNZ = 64](ptr: i32[N + 1], val: f32[NNZ], out y: f32[N]) {\n"
        "    for i in N {\n"
        "        block zero[ii: N = i] { y[ii] = 0.0 }\n"
        "        for p in ptr[i]..ptr[i + 1] { block acc[ii: N = i | pp: NNZ = p] { init {} y[ii] += val[pp] } }\n"
        "    }\n"
        "}\n"
        "schedule s for rows { zero.loops()[0].unroll() }\n"
    )
    done = run("tune", "rows.ms")
    assert done.returncode == 1 and done.stderr.count("error[") == 1
