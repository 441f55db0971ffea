"""Explanations: one page a diagnostic code, one page an operation, from where each is documented."""

from __future__ import annotations

import inspect
import re
from importlib import resources
from textwrap import dedent
from typing import TYPE_CHECKING

import msgspec

from mslang.ops.signature import Group

if TYPE_CHECKING:
    from mslang.transform.registries import Registry


class Page(msgspec.Struct, frozen=True):
    """A page to read: what it is about, one line, and the whole as Markdown."""

    name: str
    title: str
    text: str


def code_pages() -> dict[str, Page]:
    """Every code's page, in order."""
    folder = resources.files("mslang") / "codes"
    found = {}
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".md"):
            code, text = entry.name.removesuffix(".md"), entry.read_text(encoding="utf-8").strip()
            found[code] = Page(code, text.splitlines()[0].removeprefix("# ").partition(": ")[2], text)
    return found


def code_page(code: str) -> Page | None:
    """The page of one code."""
    entry = resources.files("mslang") / "codes" / f"{code}.md"
    if not entry.is_file():
        return None
    text = entry.read_text(encoding="utf-8").strip()
    return Page(code, text.splitlines()[0].removeprefix("# ").partition(": ")[2], text)


def operation_page(name: str, registry: Registry | None = None) -> Page | None:
    """The page of a primitive, sampler or getter: its signature, then the text where it is implemented."""
    from mslang.transform.registries import REGISTRY

    registry = REGISTRY if registry is None else registry
    signature = registry.find(name)
    if signature is None:
        return None
    text = rendered(operation_doc(name, registry)).strip()
    return Page(name, text.partition("\n")[0], f"# {name}\n\n`{signature.text}`\n\n{text}")


def library_pages() -> dict[str, Page]:
    """The pages of the functions, rules and targets of the library that are written in Python, by dotted name."""
    from mslang.ops.library import LIBRARY
    from mslang.sema.native import BUILTINS, MODULES

    found: dict[str, Page] = {}
    for native in (*BUILTINS.values(), *(n for names in MODULES.values() for n in names.values())):
        signature = LIBRARY.get(native.address)
        head = f"`{signature.text}`\n\n" if signature is not None else ""
        used = f"\n\n`use {native.module}.{{{native.name}}}`" if native.module else ""
        text = f"# {native.address}\n\n{head}{native.doc}{used}"
        found[native.address] = Page(native.address, native.doc.partition(". ")[0], text)
    return found


def library_page(name: str) -> Page | None:
    """The page of a function of the library, by its dotted name or the last part of it."""
    pages = library_pages()
    return pages.get(name) or next((p for n, p in pages.items() if n.rpartition(".")[2] == name), None)


def operation_doc(name: str, registry: Registry) -> str:
    """The docstring of an operation, as written where it is implemented ("" if it has none)."""
    from mslang.schedule.schedule import Schedule
    from mslang.transform.getters import GETTERS

    if registry.signature(name).group is Group.PRIMITIVE:
        return registry.doc(name)
    # A sampler is implemented where the Python API has it.
    implementation = GETTERS.get(name) or getattr(Schedule, name, None)
    return inspect.getdoc(implementation) or "" if implementation is not None else ""


_SECTIONS = ("Before", "After", "Rejects", "Source", "Args", "Raises")


def rendered(doc: str) -> str:
    """An operation's docstring as Markdown: examples as code, what is rejected as a list."""
    parts = re.split(rf"^({'|'.join(_SECTIONS)}):[ \t]*", doc, flags=re.MULTILINE)
    out = [parts[0].strip() + "\n"]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        text = dedent(body.strip("\n")).rstrip()
        match title:
            case "Before" | "After":
                out.append(f"{title}:\n\n```mslang\n{text}\n```\n")
            case "Rejects" | "Args" | "Raises":
                items = text if text.startswith("-") else re.sub(r"^(?=\S)", "- ", text, flags=re.MULTILINE)
                out.append(f"{title}:\n\n{items}\n")
            case _:
                out.append(f"{title}: {text}\n")
    return "\n".join(out)
