"""Selection ranges: the constructs around a place, from the word outwards."""

from __future__ import annotations

from mslang.diagnostics import Span
from mslang.ide.snapshot import Snapshot
from mslang.syntax.query import item_at, node_path, token_at


def selection(snapshot: Snapshot, path: str, offset: int) -> tuple[Span, ...]:
    """The spans that contain an offset: the word, each construct of the language around it, the item, the file; each
    larger than the one before.

    Raises:
        MsError: the file cannot be read.
    """
    file = snapshot.module(path).file
    placed, token = item_at(file, offset), token_at(file, offset)
    around = [] if token is None or not token.text.strip() else [Span(token.start, token.end)]
    if placed is not None:
        around += [n.span.shifted(placed.start) for n in reversed(node_path(file, offset))]
    around.append(Span(0, len(file.text)))
    found: list[Span] = []
    for span in around:
        inside = not found or (span.start <= found[-1].start and found[-1].end <= span.end)
        if inside and (not found or span != found[-1]):
            found.append(span)
    return tuple(found)
