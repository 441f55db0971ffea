"""The values of `const` items."""

from __future__ import annotations

from mslang.diagnostics import MsError
from mslang.sema.consteval import Value, evaluate
from mslang.sema.module import Found, Module
from mslang.sema.report import failure
from mslang.syntax import tree


def const_value(module: Module, name: str) -> Value | None:
    """The value of the const that `name` means in a module, or None if it means none or a faulty one."""
    match module.find(name):
        case Found(module=owner, item=tree.Const() as item):
            try:
                return value_of(owner, item)
            except MsError:
                return None
    return None


def value_of(module: Module, item: tree.Const) -> Value:
    """The value of a const item of `module`.

    Raises:
        MsError: the expression is not a constant, or names itself; spans count from the item's start.
    """
    return _value(module, item, (), {})


def _value(module: Module, item: tree.Const, below: tuple[str, ...], known: dict[str, Value]) -> Value:
    """The value of a const; `below` are the consts that are being evaluated, `known` those that have been."""

    def named(name: str) -> Value | None:
        match module.find(name):
            case Found(module=owner, item=tree.Const() as other):
                key = f"{owner.path}:{other.name.text}"
                if key in open_consts:
                    raise failure("MS122", item.value, f"`{item.name.text}` is defined by itself")
                if key in known:
                    return known[key]
                try:
                    known[key] = _value(owner, other, open_consts, known)
                    return known[key]
                except MsError as e:
                    if any(d.code == "MS122" for d in e.diagnostics):
                        raise failure("MS122", item.value, f"`{item.name.text}` is defined by itself") from None
                    raise MsError from None
        return None

    open_consts = (*below, f"{module.path}:{item.name.text}")
    return evaluate(item.value, named, tuple(module.consts))
