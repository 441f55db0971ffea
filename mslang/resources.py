"""Where the grammar and the standard library lie: next to the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource_folder(name: str) -> Path:
    """The folder `grammar` or `stdlib`, installed or in an editable checkout.

    Raises `FileNotFoundError` if the installation lacks it.
    """
    for folder in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"this installation of mslang has no `{name}` folder")


def grammar_text() -> str:
    """The text of the grammar."""
    return (resource_folder("grammar") / "ms.lark").read_text(encoding="utf-8")


def stdlib_folder() -> Path:
    """The folder of the standard library's `.ms` files."""
    return resource_folder("stdlib")
