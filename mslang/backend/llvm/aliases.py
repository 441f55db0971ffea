"""No-alias metadata: the buffers of one workspace do not overlap, so that sums can stay in registers."""

from __future__ import annotations


class Aliases:
    """Scoped no-alias metadata: every place in a function's workspace is a scope of its own."""

    def __init__(self) -> None:
        self._functions: dict[str, dict[int, int]] = {}
        self._count = 1

    def tag(self, function: str, place: int) -> str:
        """The metadata of an access of the buffer at `place` in the workspace of `function`."""
        places = self._functions.setdefault(function, {})
        if place not in places:
            # Three nodes: the scope, the list that holds it, the list of all others.
            places[place] = self._count
            self._count += 3
        first = places[place]
        return f", !alias.scope !{first + 1}, !noalias !{first + 2}"

    def lines(self) -> list[str]:
        """The metadata, once all accesses are written."""
        if not self._functions:
            return []
        out = ["!0 = distinct !{!0}"]
        for places in self._functions.values():
            for place, first in places.items():
                others = ", ".join(f"!{k}" for p, k in places.items() if p != place)
                out += [
                    f"!{first} = distinct !{{!{first}, !0}}",
                    f"!{first + 1} = !{{!{first}}}",
                    f"!{first + 2} = !{{{others}}}",
                ]
        return out
