"""Every code block of the documentation does what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import mslang as ms
from mslang.diagnostics import Severity
from mslang.ide.findings import findings
from mslang.sema.modules import load

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


class Block(NamedTuple):
    line: int
    language: str
    options: dict[str, str]
    text: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for m in re.finditer(r"^```(\w*)([^\n]*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        options = dict(o.split("=", 1) for o in m[2].split() if "=" in o)
        found.append(Block(text.count("\n", 0, m.start()) + 1, m[1], options, m[3]))
    return found


MS = [(p, b) for p in PAGES for b in blocks(p) if b.language == "ms"]


def named(pairs: list[tuple[Path, Block]]) -> list[str]:
    return [f"{p.name}:{b.line}" for p, b in pairs]


@pytest.mark.parametrize(("page", "block"), MS, ids=named(MS))
def test_ms_blocks_check(page: Path, block: Block) -> None:
    # A block may go on with a file that earlier blocks of its page began.
    earlier = [b for p, b in MS if p == page and b.line < block.line and "file" in b.options]
    file = block.options.get("file") or (earlier[-1].options["file"] if earlier else None)
    before = [b.text for b in earlier if b.options["file"] == file]
    wanted = block.options.get("error")
    text = "\n".join([*before, block.text] if "file" in block.options or wanted else [block.text])
    codes = [d.code for d in findings(load("page.ms", text)) if d.severity is Severity.ERROR]
    assert codes == ([wanted] if wanted else [])


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-euc", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )


def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    run_page("tutorial.md", tmp_path)
    assert "schedule blur_best for blur on host = open with {" in (tmp_path / "blur.ms").read_text()


def test_the_page_on_records_runs_as_written(tmp_path: Path) -> None:
    run_page("records.md", tmp_path)
    done = shell("mslang apply model.ms --explain", tmp_path)
    served = [line.split(" (")[0] for line in done.stdout.splitlines() if not line.startswith("  ")]
    assert [s.split(": ")[:2] for s in served] == [
        ["layer", "db"],
        ["gate", "db"],
        ["scores", "dispatch"],
        ["twice", "default"],
    ]


def run_page(name: str, tmp_path: Path) -> None:
    """Put the files of a page into a folder, run its commands there, and compare what it says that they show."""
    shown = ""
    for number, block in enumerate(blocks(ROOT / "docs" / name)):
        match block.language:
            case "ms" if "file" in block.options:
                with (tmp_path / block.options["file"]).open("a") as file:
                    file.write(f"{block.text}\n")
            case "ms":
                # A snippet that stands alone, or one that goes on with the file and is refused.
                before = (tmp_path / "blur.ms").read_text() if "error" in block.options else ""
                (tmp_path / f"{number}.ms").write_text(before + block.text)
                done = shell(f"mslang check {number}.ms", tmp_path)
                assert done.returncode == ("error" in block.options), (block.text, done.stdout)
                assert block.options.get("error", "all well") in done.stdout + done.stderr
            case "sh":
                done = shell(block.text, tmp_path)
                shown = done.stdout + done.stderr
                assert done.returncode == 0, (block.text, shown)
            case "python":
                (tmp_path / f"{number}.py").write_text(block.text)
                done = shell(f"python {number}.py", tmp_path)
                assert done.returncode == 0, (block.text, done.stderr)
            case "output":
                assert block.text.strip() in shown


def test_the_commands_in_the_tutorials_sentences_run(tmp_path: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", (ROOT / "docs" / "tutorial.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    commands = dict.fromkeys(re.findall(r"`(mslang [^`]+)`", prose))
    assert "mslang explain compute_at" in commands
    for command in commands:
        # A verb that is only named wants arguments: its help must exist.
        asked = command if command.startswith("mslang explain") else f"{command} --help"
        done = shell(asked, tmp_path)
        assert done.returncode == 0, (command, done.stderr)


PYTHON = [(p, b) for p in PAGES for b in blocks(p) if b.language == "python"]


@pytest.mark.parametrize(("page", "block"), PYTHON, ids=named(PYTHON))
def test_python_blocks_run(page: Path, block: Block, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", block.text], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_api_of_the_front_page_is_there() -> None:
    for name in dir(ms):
        getattr(ms, name)
