"""Bad input of every kind gets one clear diagnostic and the right exit status, and nothing is lost."""

import os
import signal
import sqlite3
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import GEMM, Run, command, json_lines

from mslang.backend.registry import unavailable_here

CONSUMED = "    let a = mm.k\n    let b, c = a.split([_, 2])\n    a.unroll()"
SAMPLES = Path(__file__).parents[1] / "fixtures" / "samples"

BROKEN = [
    ("broken syntax", GEMM.replace("let ti ~", "let ti ~ ~"), "MS0"),
    ("unknown block", GEMM.replace("mm.k, i1", "mn.k, i1"), "MS201"),
    ("consumed handle", GEMM.replace("    j1.vectorize()", CONSUMED), "MS211"),
    ("a wrong kind", GEMM.replace("j1.vectorize()", "mm.vectorize()"), "MS203"),
    ("a missing module", GEMM.replace("std.cpu", "std.cqu"), "MS1"),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("what", "text", "code"), BROKEN, ids=[b[0] for b in BROKEN])
@pytest.mark.parametrize("verb", ["check", "tune", "show"])
def test_a_faulty_file_is_explained(run: Run, tmp_path: Path, what: str, text: str, code: str, verb: str) -> None:
    (tmp_path / "gemm.ms").write_text(text)
    done = run(verb, "gemm.ms")
    assert done.returncode == 1
    errors = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("error[")]
    assert len(errors) == 1 and errors[0].startswith(f"error[{code}")
    assert not (tmp_path / ".mslang").exists()
    found = json_lines(run("check", "gemm.ms", "--json").stdout)
    assert len(found) == 1 and found[0]["line"] > 0


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        ((), 2, "MS701"),
        (("tuna",), 2, "MS701"),
        (("tune",), 2, "MS701"),
        (("tune", "gemm.ms", "--trials", "0"), 2, "MS701"),
        (("tune", "gemm.ms", "--budget", "soon"), 2, "MS701"),
        (("tune", "absent.ms"), 1, "MS702"),
        (("tune", "gemm.ms:nothing"), 1, "MS703"),
        (("tune", "gemm.ms", "--set", "Q=3"), 1, "MS703"),
        (("tune", "gemm.ms", "--set", "M=x"), 2, "MS701"),
        (("tune", "gemm.ms", "--target", "avx9000"), 1, "MS703"),
        (("show", "gemm.ms:tiled", "--stage", "ptx"), 2, "has no stage `ptx`"),
        (("show", "gemm.ms:tiled", "--pin", "tz=[1,2]"), 1, "MS251"),
        (("show", "gemm.ms:tiled", "--pin", "ti=[5,7]"), 2, "MS701"),
        (("expand", "gemm.ms:gem"), 1, "MS703"),
        (("explain", "MS000"), 1, "MS703"),
        (("db", "show", "3"), 1, "MS603"),
        (("db", "top", "-n", "9" * 5000), 2, "is too large"),
        (("tune", "gemm.ms", "--seed", str(2**63)), 2, f"too large: at most {2**63 - 1}"),
        (("run", "gemm.ms:tiled", "--record", "1"), 1, "MS603"),
    ],
    ids=lambda w: " ".join(w) if isinstance(w, tuple) else "",
)
def test_wrong_use(run: Run, gemm: Path, words: tuple[str, ...], status: int, code: str) -> None:
    done = run(*words)
    assert done.returncode == status, done.stderr
    assert code in done.stderr


def test_a_stale_pin_is_a_warning_or_with_strict_an_error(run: Run, gemm: Path) -> None:
    gemm.write_text(GEMM + "space some for gemm = tiled with { ti = [5, 7] }\n")
    done = run("tune", "gemm.ms:some", "--trials", "1", "--patience", "1")
    assert done.returncode == 0 and "warning[MS254]" in done.stderr
    done = run("tune", "gemm.ms:some", "--trials", "1", "--strict")
    assert done.returncode == 1 and "error[MS254]" in done.stderr


@pytest.mark.skipif(unavailable_here("cuda") is None, reason="this machine has a GPU")
@pytest.mark.parametrize("verb", ["tune", "run"])
def test_a_cuda_schedule_is_neither_tuned_nor_run_without_a_gpu(run: Run, verb: str) -> None:
    done = run(verb, str(SAMPLES / "wmma.ms"))
    assert done.returncode == 3 and done.stdout == ""
    assert "error[MS403]: this machine cannot run code for" in done.stderr


def test_a_file_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.ms").write_bytes(b"\xff\xfe program")
    done = run("check", "x.ms")
    assert done.returncode == 1 and "UTF-8" in done.stdout
    (tmp_path / "folder.ms").mkdir()
    assert run("tune", "folder.ms").returncode == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(run: Run, gemm: Path) -> None:
    gemm.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        done = run("tune", "gemm.ms", "--trials", "2")
    finally:
        gemm.parent.chmod(stat.S_IRWXU)
    assert done.returncode == 1 and "MS603" in done.stderr


def test_a_database_in_an_impossible_place(run: Run, gemm: Path) -> None:
    done = run("tune", "gemm.ms", "--trials", "2", "--db", "/dev/null/records.db")
    assert done.returncode == 1 and "MS603" in done.stderr


def test_a_database_of_a_newer_version(run: Run, gemm: Path) -> None:
    with sqlite3.connect(gemm.parent / "new.db") as raw:
        raw.execute("PRAGMA user_version = 99")
    done = run("tune", "gemm.ms", "--trials", "2", "--db", "new.db")
    assert done.returncode == 1 and "MS602" in done.stderr


def test_a_corrupt_database(run: Run, gemm: Path) -> None:
    (gemm.parent / "bad.db").write_bytes(os.urandom(8192))
    before = (gemm.parent / "bad.db").read_bytes()
    done = run("tune", "gemm.ms", "--trials", "2", "--db", "bad.db")
    assert done.returncode == 1 and "MS601" in done.stderr
    assert (gemm.parent / "bad.db").read_bytes() == before


def test_a_schedule_that_is_illegal_names_its_statement(run: Run, gemm: Path) -> None:
    gemm.write_text(GEMM.replace("    j1.vectorize()", "    mm.k.vectorize()"))
    done = run("show", "gemm.ms:tiled")
    assert done.returncode == 1
    assert "mm.k.vectorize()" in done.stderr and "^" in done.stderr and "MS3" in done.stderr


def test_an_interrupted_import_writes_nothing(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    os.mkfifo(kernel)
    words = command("import", str(kernel), "-o", str(tmp_path / "out.ms"))
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process, kernel.open("w"):
        # Opening waits until the other side reads.
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said == "interrupted\n"
    assert list(tmp_path.iterdir()) == [kernel]


def test_a_reader_that_goes_away_is_told_nothing() -> None:
    with subprocess.Popen(command("explain"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait(60) == 0


def test_arguments_of_a_wrong_shape() -> None:
    import numpy as np

    import mslang as ms

    kernel = ms.build(ms.parse(GEMM).program())
    good = np.zeros((32, 16), np.float32), np.zeros((16, 48), np.float32)
    assert np.asarray(kernel(*good)).shape == (32, 48)
    double = good[0].astype(np.float64)
    for bad, code in (((good[0], good[0]), "MS412"), ((double, good[1]), "MS411"), ((good[0],), "MS410")):
        with pytest.raises(ms.MsError) as error:
            kernel(*bad)
        assert error.value.diagnostic.code == code
