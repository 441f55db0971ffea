"""The page of the library names all that is in it."""

from __future__ import annotations

from pathlib import Path

from mslang.resources import stdlib_folder
from mslang.sema.modules import load
from mslang.sema.native import MODULES

PAGE = (Path(__file__).parents[3] / "docs" / "library.md").read_text(encoding="utf-8")


def test_the_page_names_every_item_of_the_library() -> None:
    missing = []
    for path in sorted(stdlib_folder().rglob("*.ms")):
        module = load(str(path))
        if path.parent.name == "workloads" and f"`{path.name}`" not in PAGE:
            missing.append(path.name)
        for items in (module.programs, module.schedules, module.intrins):
            missing += [f"{path.name}: {name}" for name in items if f"`{name}`" not in PAGE]
    assert not missing


def test_the_page_names_every_rule() -> None:
    assert not [n.address for n in MODULES["std.rules"].values() if f"`{n.address}" not in PAGE]
