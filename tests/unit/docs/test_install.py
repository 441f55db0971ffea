"""What the project says about installation is true: no foreign package of our name, no extra that nothing uses."""

import re
import tomllib
from pathlib import Path

import pytest

from mslang.cli.env import PARTS

ROOT = Path(__file__).parents[3]
SAYING = [
    p
    for pattern in (
        "README.md",
        "ARCHITECTURE.md",
        "docs/*.md",
        "lsp/**/*.md",
        "examples/**/*.md",
        "mslang/**/*.py",
        "mslang/codes/*.md",
    )
    for p in ROOT.glob(pattern)
    if "node_modules" not in p.parts
]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("path", SAYING, ids=lambda p: str(p.relative_to(ROOT)))
def test_nobody_is_told_to_install_a_package_of_this_name_from_elsewhere(path: Path) -> None:
    assert not re.search(r"pip install[^\n`]*\bmslang\b(?!/)", path.read_text())


def test_every_extra_is_used() -> None:
    used = {"lsp", "bench", "learn", "cuda", "nvrtc", "test", "test-editors"}
    assert set(EXTRAS) <= used
    assert {extra for _, _, extra, _ in PARTS if extra} <= set(EXTRAS)


def test_env_lists_nothing_that_this_version_has_not() -> None:
    sources = "".join(
        p.read_text() for folder in ("mslang", "lsp", "benchmarks") for p in (ROOT / folder).rglob("*.py")
    )
    for name, module, _, _ in PARTS:
        assert re.search(rf"^\s*(?:import|from) {module}\b", sources, re.MULTILINE), name
