"""How values show in a notebook: a heading, a table of facts, and text as it is."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def page(heading: str, rows: Iterable[tuple[str, object]] = (), text: str = "") -> str:
    """HTML of a heading, a table with one row a fact, and preformatted text; what is absent is left out."""
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows)
    table = f"<table>{cells}</table>" if cells else ""
    return f"<b>{escape(heading)}</b>{table}" + (f"<pre>{escape(text)}</pre>" if text else "")
