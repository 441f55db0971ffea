"""Intrinsics from their items, from the text of one item, and from the library by name."""

from __future__ import annotations

from pathlib import PurePath
from textwrap import dedent

from mslang.diagnostics import Diagnostic, MsError, Severity, Span, problem
from mslang.extensions import BACK_ENDS, declared
from mslang.ir.intrin import PLACEHOLDER, Guard, Intrin, scratch_of
from mslang.ir.program import Program
from mslang.resources import stdlib_folder
from mslang.sema.module import Found
from mslang.sema.program import Consts, as_program, consts_of, elaborate, elaborated
from mslang.sema.refer import dotted_name
from mslang.sema.report import fault
from mslang.syntax import tree

OWN_NAMES = frozenset({"entry", "lane"})
"""What a text may name besides operands: the label of its first block (LLVM), the number of the thread (CUDA)."""


def implementing() -> tuple[str, ...]:
    """The back ends that an implementation may be the text of: the built-in ones, those of packages, and `c` for one
    that is made in Python."""
    return tuple(dict.fromkeys(("cuda", "llvm", "c", *declared(BACK_ENDS))))


def intrin_from(found: Found, name: str) -> Intrin:
    """The intrinsic that an item of a module is.

    Args:
        found: the item.
        name: how the text that uses it names it.

    Raises:
        MsError: the item has faults.
    """
    item = found.item
    if not isinstance(item, tree.Intrin):
        raise MsError(problem("MS128", f"`{name}` is not an intrinsic"))
    syntax = tuple(d for d in found.placed.parsed.diagnostics if d.severity is Severity.ERROR)
    if syntax:
        raise MsError(*(d.placed(found.module.path, found.placed.start) for d in syntax))
    try:
        made = _made(item, consts_of(found.module, item), exact=False)
    except MsError as error:
        raise MsError(*(d.placed(found.module.path, found.placed.start) for d in error.diagnostics)) from None
    return Intrin(made.name, made.desc, made.guard, made.program, made.texts, _address(found, name))


def _address(found: Found, name: str) -> str:
    """`std.cpu.dot.u8s8` for what is in the library, else the name as it is used."""
    path = PurePath(found.module.path)
    library = stdlib_folder()
    if path.is_relative_to(library) and isinstance(found.item, tree.Intrin):
        return ".".join(("std", *path.relative_to(library).with_suffix("").parts, found.item.name.text))
    return name


def parse_intrin(text: str) -> Intrin:
    """The intrinsic that the text of one `intrin` item describes; consts cannot be named in it.

    Raises:
        MsError: the text is no such item, or has faults.
    """
    from mslang.syntax.parse import parse_item

    parsed = parse_item(text)
    if parsed.diagnostics:
        raise MsError(*parsed.diagnostics)
    if not isinstance(parsed.item, tree.Intrin):
        raise MsError(fault("MS128", Span(0, len(text)), "one `intrin` item is needed here"))
    return _made(parsed.item, (), exact=True)


def _made(item: tree.Intrin, consts: Consts, *, exact: bool) -> Intrin:
    desc = _program(item, None, consts, exact)
    bodies = [i.body for i in item.impls if i.body is not None]
    program = _program(item, bodies[0], consts, exact) if bodies else None
    texts = tuple(
        (i.backend.text, dedent(i.text.value).strip())
        for i in item.impls
        if i.backend is not None and i.text is not None
    )
    faults = tuple(d for d in intrin_faults(item) if d.severity is Severity.ERROR)
    if faults:
        raise MsError(*faults)
    return Intrin(item.name.text, desc, guard_of(item.target), program, texts)


def _program(item: tree.Intrin, body: tree.Body | None, consts: Consts, exact: bool) -> Program:
    made = elaborate(as_program(item, body), exact=True) if exact else elaborated(as_program(item, body), (), consts)
    if made.errors or not made.complete:
        raise MsError(*(made.errors or (fault("MS128", item.name, f"`{item.name.text}` is faulty"),)))
    return made.program


# ------------------------------------------------------------------ conditions and texts
def guard_of(target: tree.Expr | None) -> Guard | None:
    """`on cpu(avx512vnni)`, `on cuda(sm >= 70)` as data; None if the text cannot be read."""
    if target is None:
        return None
    if not isinstance(target, tree.Call):
        name = dotted_name(target)
        return None if name is None else Guard(name)
    name = dotted_name(target.callee)
    conditions = tuple(_condition(a) for a in target.args)
    return None if name is None or None in conditions else Guard(name, tuple(c for c in conditions if c is not None))


def _condition(a: tree.Arg) -> str | None:
    match a:
        case tree.Arg(value=tree.String(value=text), name=None):
            return text
        case tree.Arg(value=tree.Ref(name=name), name=None):
            return name.text
        case tree.Arg(
            value=tree.Binary(
                op="==" | "!=" | "<" | "<=" | ">" | ">=" as op, left=tree.Ref(name=name), right=tree.Number(value=n)
            ),
            name=None,
        ):
            return f"{name.text} {op} {n}"
    return None


def intrin_faults(item: tree.Intrin) -> tuple[Diagnostic, ...]:
    """What is wrong with an intrinsic's guard and texts, apart from its programs."""
    found: list[Diagnostic] = []
    if isinstance(item.target, tree.Call):
        for a in item.target.args:
            if _condition(a) is None:
                found.append(
                    fault(
                        "MS160",
                        a,
                        "a target's condition is a feature or a comparison of a field with a number",
                        help="as in `on cpu(avx512vnni)` and `on cuda(sm >= 70)`",
                    )
                )
    for p in item.params:
        if p.default is not None:
            found.append(fault("MS110", p.default, "an operand of an intrinsic is taken as it lies"))
        if p.constant:
            found.append(fault("MS110", p, "`const` is a word for parameters of programs, not of intrinsics"))
    params = {p.name.text: p for p in item.params}
    for impl in item.impls:
        if impl.text is None:
            continue
        own = OWN_NAMES.union(x.name for x in scratch_of(impl.text.value))
        for m in PLACEHOLDER.finditer(impl.text.value):
            name, stride, dimension, at = m.groups()
            if name in own and stride is None and at is None and name not in params:
                continue
            if name not in params:
                found.append(
                    fault(
                        "MS161",
                        impl.text,
                        f"unknown operand `{name}` in the text",
                        help=f"the operands are: {', '.join(params)}",
                    )
                )
                continue
            shape = params[name].type.shape or ()
            if at is not None and len(at.split(",")) != len(shape):
                found.append(fault("MS161", impl.text, f"`{m[0]}`: `{name}` has {len(shape)} dimensions"))
            if stride is not None and int(dimension or 0) >= max(1, len(shape)):
                found.append(
                    fault("MS161", impl.text, f"`{m[0]}`: `{name}` has {len(shape)} dimensions, counted from 0")
                )
    return tuple(found)
