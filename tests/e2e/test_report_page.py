"""`mslang report` from the outside: a page from a real run, and one diagnostic where there is none to make."""

import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from conftest import GEMM, Run, command, json_lines

from benchmarks.browser import browser, layout, shoot


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


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small run, with a learned cost model and rejections."""
    folder = tmp_path_factory.mktemp("rendered")
    (folder / "gemm.ms").write_text(GEMM.replace("    let i0", '    require ti[1] <= 4, "too high"\n    let i0'))
    for words in (["tune", "gemm.ms", "--trials", "24", "--quiet"], ["report", "--out", "page.html"]):
        subprocess.run(command(*words), cwd=folder, check=True, capture_output=True, timeout=240)
    return folder / "page.html"


@pytest.mark.skipif(browser() is None, reason="no Chromium to render the page with")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 800, 360])
def test_a_browser_renders_it(rendered: Path, width: int, dark: bool) -> None:
    shot = rendered.with_name(f"{width}_{dark}.png")
    found = shoot(rendered, shot, width, dark)
    assert found.width == width and found.height > 1000 and not found.faults
    assert corner(shot) == ((18, 23, 29) if dark else (255, 255, 255))
    assert shot.stat().st_size > 10_000


@pytest.mark.skipif(browser() is None, reason="no Chromium to render the page with")
def test_what_is_cut_off_or_on_other_text_is_found(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    texts = "".join(f'<text x="{x}" y="20" font-size="{size}">{name}</text>' for name, x, size in MISPLACED)
    page.write_text(f'<p style="width: 900px">wide</p><svg viewBox="0 0 100 40" width="100" height="40">{texts}</svg>')
    faults = layout(page, 400).faults
    assert "wide: cut off" in faults and "the page is wider than the window" in faults
    assert {"tiny: small letters", "out: outside of its chart", "upper: overlaps lower"} <= set(faults)


MISPLACED = (("tiny", 0, 4), ("out", 95, 12), ("lower", 30, 12), ("upper", 35, 12))


def corner(picture: Path) -> tuple[int, ...]:
    """The upper left pixel of a PNG file: each of its filters leaves that as it is."""
    data, at, packed = picture.read_bytes(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        packed += data[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    return tuple(zlib.decompress(packed)[1:4])


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
