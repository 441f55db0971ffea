"""Walking trees, and the names that an item mentions."""

from __future__ import annotations

from collections.abc import Iterator

from mslang.caching import cached
from mslang.syntax import tree


def nodes(node: tree.Node) -> Iterator[tree.Node]:
    """Every node under (and including) one, outer before inner, in the order of the text."""
    yield node
    for field in node.__struct_fields__:
        value = getattr(node, field)
        if isinstance(value, tree.Node):
            yield from nodes(value)
        elif isinstance(value, tuple):
            for x in value:
                if isinstance(x, tree.Node):
                    yield from nodes(x)


def dotted_name(e: tree.Node) -> str | None:
    """`a.b.c` as text, or None if `e` is no such name."""
    match e:
        case tree.Ref(name=n):
            return n.text
        case tree.Member(base=b, name=n):
            base = dotted_name(b)
            return None if base is None else f"{base}.{n.text}"
    return None


@cached(budget=1 << 20, weight=lambda names, item: 100 + item.span.end)
def dotted_names(item: tree.AnyItem) -> tuple[str, ...]:
    """The names that an item mentions, dotted ones whole and each of their heads, without repetition."""
    found: dict[str, None] = {}
    for n in nodes(item):
        match n:
            case tree.Ref() | tree.Member():
                name = dotted_name(n)
                if name is not None:
                    found[name] = None
            case tree.Target(kind=path) | tree.Schedule(program=tuple() as path) | tree.Space(program=tuple() as path):
                found[".".join(x.text for x in path)] = None
    return tuple(found)
