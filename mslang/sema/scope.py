"""What names mean at a place in a program."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from mslang.diagnostics import Span
from mslang.ir.expr import Domain, Expr
from mslang.ir.expr import Var as IrVar
from mslang.ir.program import Buffer


class Variable(msgspec.Struct, frozen=True):
    """A loop, an axis or a `let`, by `role`."""

    var: IrVar
    role: str


class SizeName(msgspec.Struct, frozen=True):
    """A size parameter, or a name given to a size expression."""

    value: Expr


class TileName(msgspec.Struct, frozen=True):
    """A sampled decision with several factors, read as `name[k]`; `n` is their number."""

    domain: Domain
    n: int


class ConstName(msgspec.Struct, frozen=True):
    """A `const` of the module."""

    value: int | float | bool


class BufferName(msgspec.Struct, frozen=True):
    """A buffer. `direction` is that of a parameter, "alloc" or "view"; a view's `root` is what it views, at last."""

    buffer: Buffer
    direction: str
    root: str


class Hidden(msgspec.Struct, frozen=True):
    """A loop (or an enclosing block's axis) that the body of a block may not name."""

    role: str
    block: str


class Broken(msgspec.Struct, frozen=True):
    """A name whose declaration is faulty: uses of it are not reported again."""


Meaning = Variable | SizeName | TileName | ConstName | BufferName | Hidden | Broken


class Declared(msgspec.Struct, frozen=True):
    """A meaning, and where the name was declared (None: outside of this item)."""

    meaning: Meaning
    span: Span | None = None


class Scope(msgspec.Struct, frozen=True):
    """The names in scope; `block` is the innermost block that the place is in the body of."""

    names: Mapping[str, Declared] = MappingProxyType({})
    block: str | None = None

    def get(self, name: str) -> Meaning | None:
        """What `name` means here."""
        found = self.names.get(name)
        return None if found is None else found.meaning

    def with_name(self, name: str, meaning: Meaning, span: Span | None = None) -> Scope:
        """The scope with one more name."""
        return Scope(MappingProxyType({**self.names, name: Declared(meaning, span)}), self.block)

    def inside(self, block: str) -> Scope:
        """The scope of a block's body before its own axes: enclosing loops, axes and lets are hidden."""
        names = {n: self._inner(d, block) for n, d in self.names.items()}
        return Scope(MappingProxyType(names), block)

    def _inner(self, declared: Declared, block: str) -> Declared:
        match declared.meaning:
            case Variable(role=role):
                return Declared(Hidden(role, block), declared.span)
            case Hidden(role=role):
                return Declared(Hidden(role, block), declared.span)
        return declared
