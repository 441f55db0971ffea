"""`mslang report` from the outside: a page from a real run, and one diagnostic where there is none to make."""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Run, json_lines

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def test_a_report_of_a_real_run(run: Run, gemm: Path) -> None:
    assert run("tune", "gemm.ms", "--trials", "10", "--seed", "1", "--quiet").returncode == 0
    done = run("report", ".mslang/records.db", "-o", "out/page.html", "--json")
    assert done.returncode == 0, done.stderr
    [line] = json_lines(done.stdout)
    text = (gemm.parent / "out" / "page.html").read_text()
    assert line["file"] == "out/page.html" and len(line["runs"]) == 1
    for piece in (
        "Best so far, by trials",
        "Roofline",
        "Where the time went",
        "measure",
        "gemm_best",
        "Machine and versions",
    ):
        assert piece in text, piece
    assert "http" not in text and "<script" not in text
    assert run("report", line["runs"][0][:4], "--out", "again.html").returncode == 0


@pytest.mark.skipif(BROWSER is None, reason="no chromium to render the page with")
@pytest.mark.parametrize("width", [1200, 400])
def test_a_browser_renders_it(run: Run, gemm: Path, width: int) -> None:
    assert run("tune", "gemm.ms", "--trials", "4", "--quiet").returncode == 0
    assert run("report", "--out", "page.html").returncode == 0
    assert BROWSER is not None
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},1200"]
    page = (gemm.parent / "page.html").as_uri()
    shot = gemm.parent / "page.png"
    subprocess.run([BROWSER, *flags, f"--screenshot={shot}", page], check=True, capture_output=True, timeout=120)
    assert shot.read_bytes().startswith(b"\x89PNG") and shot.stat().st_size > 10_000


def test_no_store_a_damaged_one_and_an_unknown_run(run: Run, tmp_path: Path) -> None:
    missing = run("report", "none.db")
    assert missing.returncode == 1 and missing.stderr.count("error[") == 1 and "MS547" in missing.stderr
    (tmp_path / "bad.db").write_bytes(b"no database" * 100)
    damaged = run("report", "bad.db")
    assert damaged.returncode == 1 and damaged.stderr.count("error[") == 1 and "MS601" in damaged.stderr
    (tmp_path / "empty.db").write_bytes(b"")
    empty = run("report", "empty.db")
    assert empty.returncode == 1 and empty.stderr.count("error[") == 1
    assert not (tmp_path / "report.html").exists()
