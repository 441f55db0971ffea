"""All static diagnostics of a file: syntax, names, types of programs, kinds and liveness in schedules."""

from __future__ import annotations

from mslang.caching import cached
from mslang.diagnostics import Diagnostic
from mslang.ide.dependencies import depends_on
from mslang.ide.keyed import Keyed
from mslang.schedule.check import Checked, check_item
from mslang.sema.module import Found, Module
from mslang.syntax import tree
from mslang.transform.registries import Registry, registry_of


def findings(module: Module, registry: Registry | None = None) -> tuple[Diagnostic, ...]:
    """All static diagnostics, in the order of the text.

    `registry` says which primitives there are (None: those that the module may use).
    """
    found = list(module.diagnostics)
    names = module.names
    unknown = {d.span for d in found if d.code == "MS101"}
    for placed in module.file.items:
        of_item = (d.placed(module.path, placed.start) for d in _of_item(module, placed, names, registry).diagnostics)
        found += (d for d in module.beside_syntax_errors(of_item) if d.code != "MS201" or d.span not in unknown)
    return tuple(sorted(dict.fromkeys(found), key=lambda d: (d.span is None, d.span, d.code)))


def checked(module: Module, placed: tree.PlacedItem) -> Checked:
    """The static checker's result for one item."""
    return _of_item(module, placed, module.names)


_CHECKED = tree.Schedule | tree.Rule | tree.Fn | tree.Space | tree.Test


def _of_item(
    module: Module, placed: tree.PlacedItem, names: tuple[str, ...], registry: Registry | None = None
) -> Checked:
    if not isinstance(placed.item, _CHECKED):
        return Checked()
    # An item is checked again only if its text changed, or that of an item it reaches, or which names there are. Those
    # that it names do not suffice: the addresses of its pins are those of the fns that these call.
    registry = registry_of(module) if registry is None else registry
    key = (names, depends_on(Found(module, placed)), registry)
    return _checked(Keyed(key, (module, placed.item, registry)))


def _weight(result: Checked, work: object) -> int:
    return len(result.mentions) + sum(100 + len(names) for _, names in result.places)


@cached(budget=1 << 21, weight=_weight, key=lambda work: work.key)
def _checked(work: Keyed[tuple[Module, tree.AnyItem, Registry]]) -> Checked:
    return check_item(*work.value)
