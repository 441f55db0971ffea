"""Targets: from `target` items to machine descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from mslang.diagnostics import MsError, problem
from mslang.sema.consteval import Value, evaluate
from mslang.sema.module import Found, Module
from mslang.sema.native import TARGET_KINDS, Native
from mslang.sema.report import failure, unknown
from mslang.sema.values import const_value
from mslang.suggestions import did_you_mean
from mslang.syntax import tree
from mslang.target.description import CUDA, GENERIC, Target

OWN_FIELDS: Mapping[str, type] = MappingProxyType(
    {
        "triple": str,
        "cpu": str,
        "features": tuple,
        "vector_bits": int,
        "vector_lanes": int,
        "registers": int,
        "cores": int,
        "l1": int,
        "l2": int,
        "l3": int,
        "nan_free": bool,
    }
)
"""The fields that every target has, and their types; a target may add others."""

COUNTS = frozenset({"vector_bits", "vector_lanes", "registers", "cores"})
"""The fields of which there is at least one."""

FIXED_FIELDS = frozenset({"name", "kind"})
"""Fields that the declaration itself gives."""


def describe(module: Module, name: str) -> Target:
    """The machine that a target's name means in a module; dots are allowed, so are the native kinds.

    Raises:
        MsError: there is no such target, or its fields are faulty.
    """
    thing = module.find(name) or TARGET_KINDS.get(name)
    match thing:
        case Native(role="target"):
            return _native(thing)
        case Found(module=owner, item=tree.Target() as item, placed=tree.PlacedItem(start=start)):
            try:
                return described(owner, item)
            except MsError as e:
                raise MsError(*(d.placed(owner.path, start) for d in e.diagnostics)) from None
        case None:
            help = did_you_mean(name, target_names(module))
            raise MsError(problem("MS124", f"unknown target `{name}`", help=help))
    raise MsError(problem("MS128", f"`{name}` is not a target"))


def target_names(module: Module) -> tuple[str, ...]:
    """The targets that a module can name without dots."""
    imported = (
        n
        for n, t in module.imports.items()
        if (isinstance(t, Found) and t.role == "target") or (isinstance(t, Native) and t.role == "target")
    )
    return (*module.targets, *imported, *TARGET_KINDS)


def field_names(module: Module, name: str, below: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """What `machine.` may be followed by for a target; nothing is detected or evaluated. `below` extend it."""
    match module.find(name):
        case Found(module=owner, item=tree.Target(kind=kind, fields=fields)) if name not in below:
            own = (f.name.text for f in fields if isinstance(f, tree.Field) and f.name.text not in OWN_FIELDS)
            base = field_names(owner, ".".join(n.text for n in kind), below | {name})
            return tuple(dict.fromkeys((*base, *own)))
    return tuple(GENERIC.fields)


def _native(native: Native) -> Target:
    if native.name == "host":
        from mslang.target.detect import host

        return host()
    return CUDA if native.name == "cuda" else GENERIC


def described(module: Module, item: tree.Target, below: tuple[str, ...] = ()) -> Target:
    """The machine of a target item of `module`; `below` are the targets that extend it.

    Raises:
        MsError: the base is unknown or goes in a circle, or a field is faulty; spans count from the item's start.
    """
    made = replace(_base(module, item, below), name=item.name.text)
    extra = dict(made.extra)
    seen: set[str] = set()
    for f in item.fields:
        if isinstance(f, tree.Bad):
            continue
        if f.name.text in seen:
            raise failure("MS102", f.name, f"field `{f.name.text}` is set twice")
        seen.add(f.name.text)
        value = evaluate(f.value, lambda n: const_value(module, n), tuple(module.consts))
        if f.name.text in OWN_FIELDS:
            made = _with_field(made, f, value)
        elif f.name.text in FIXED_FIELDS:
            raise failure("MS124", f.name, f"`{f.name.text}` is given by the declaration itself")
        elif isinstance(value, tuple):
            raise failure("MS104", f.value, f"the field `{f.name.text}` holds a single value")
        else:
            extra[f.name.text] = value
    return replace(made, extra=tuple(extra.items()))


def _base(module: Module, item: tree.Target, below: tuple[str, ...]) -> Target:
    name = ".".join(n.text for n in item.kind)
    at = item.kind[-1]
    if name in TARGET_KINDS and name not in module.items:
        return _native(TARGET_KINDS[name])
    match module.find(name):
        case Native(role="target") as native:
            return _native(native)
        case Found(module=owner, item=tree.Target() as base) as found:
            key = f"{owner.path}:{base.name.text}"
            if key in (*below, f"{module.path}:{item.name.text}"):
                raise failure("MS122", at, "targets that extend each other in a circle")
            return _of_base(found, base, (*below, f"{module.path}:{item.name.text}"), at)
        case None:
            raise MsError(
                unknown(
                    "MS124",
                    item.kind[0].span.to(at.span),
                    "kind of target",
                    name,
                    target_names(module),
                    help="a target is a kind of `cpu`, of `cuda`, or extends another target",
                )
            )
    raise failure("MS128", at, f"`{name}` is not a target")


def _of_base(found: Found, base: tree.Target, below: tuple[str, ...], at: tree.Node) -> Target:
    try:
        return described(found.module, base, below)
    except MsError as e:
        if any(d.code == "MS122" for d in e.diagnostics):
            raise failure("MS122", at, "targets that extend each other in a circle") from None
        why = e.diagnostic.message if e.diagnostics else None
        raise failure("MS124", at, f"the target `{base.name.text}` is faulty", why=why) from None


def _with_field(made: Target, f: tree.Field, value: Value) -> Target:
    name = f.name.text
    wanted = OWN_FIELDS[name]
    if wanted is int and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise failure("MS104", f.value, f"`{name}` is a whole number")
    if name in COUNTS and value == 0:
        raise failure("MS104", f.value, f"`{name}` is at least 1")
    if wanted is bool and not isinstance(value, bool):
        raise failure("MS104", f.value, f"`{name}` is `true` or `false`")
    if wanted is str and not isinstance(value, str):
        raise failure("MS104", f.value, f"`{name}` is a text")
    if wanted is tuple and not (isinstance(value, tuple) and all(isinstance(x, str) for x in value)):
        raise failure("MS104", f.value, f"`{name}` is a list of texts")
    if name == "vector_lanes":
        assert isinstance(value, int)
        return replace(made, vector_bits=32 * value)
    return replace(made, **{name: value})
