"""What an operation is called, takes, gives and consumes: the one table that checker, interpreter, Python API,
completion and documentation read.

The meaning of a primitive is documented where it is implemented (`mslang.transform`); here stand only signatures.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """Kinds of values in schedules."""

    LOOP = "loop"
    BLOCK = "block"
    LOOP_OR_BLOCK = "loop or block"
    BUFFER = "buffer"
    SIZE = "size"
    FACTORS = "factors"
    """A list of sizes, in which one may be `_`; or a sampled tile."""
    SIZES = "sizes"
    VALUES = "values"
    """A list of literals to choose from."""
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    STR = "str"
    SCOPE = "scope"
    AXIS = "thread axis"
    LOCATION = "location"
    """A loop, or what `compute_location` drew."""
    VALUE = "value"
    """Anything an annotation may hold."""
    PADDING = "number or map"
    """A number, or a map from an index to one."""
    LOOPS = "loops"
    BLOCKS = "blocks"
    INTRIN = "intrin"
    INDEX_MAP = "index map"
    REGION_MAP = "region map"
    """An index map whose results may be ranges."""
    PROGRAM = "program"
    RULE = "rule"
    SPACE = "space"
    TILE = "tile"
    """The sizes that a tile sampler draws."""
    TAIL = "tail"
    """One of guard, pad, peel, shift."""
    ACCESS = "access"
    """How a block accesses a buffer: read or write."""
    DTYPE = "element type"
    CONDITION = "condition"
    BUFFERS = "buffers"
    LOOP_OR_BLOCKS = "loop or blocks"
    """A loop, or a list of blocks."""
    NOTHING = "nothing"
    ANY = "any"

    @property
    def with_article(self) -> str:
        """`a loop`, `an intrin`, `a list of loops`."""
        if self.value in ("loops", "blocks", "buffers", "sizes", "values", "factors"):
            return f"a list of {self.value}"
        return f"{'an' if self.value[0] in 'aeiou' else 'a'} {self.value}"


class Group(StrEnum):
    """What an operation does to a trace."""

    PRIMITIVE = "primitive"
    SAMPLER = "sampler"
    GETTER = "getter"
    FUNCTION = "function"


class Required(msgspec.Struct, frozen=True):
    """The default of a parameter that has none."""


REQUIRED = Required()


class Param(msgspec.Struct, frozen=True):
    """One parameter; `variadic` takes all remaining positional arguments, `keyword` must be named, and an `optional`
    one may be None, as one may whose default that is."""

    name: str
    kind: Kind
    default: object = REQUIRED
    variadic: bool = False
    keyword: bool = False
    optional: bool = False


class Signature(msgspec.Struct, frozen=True):
    """One operation. The first parameter is the receiver in `x.f(a)`.

    `results` are the kinds given back; `many` says that the last of them repeats. `consumes` names the
    parameters whose handles are dead afterwards.
    """

    name: str
    group: Group
    params: tuple[Param, ...]
    results: tuple[Kind, ...] = ()
    many: bool = False
    consumes: tuple[str, ...] = ()
    family: str = ""

    @property
    def receiver(self) -> Kind | None:
        """The kind before the dot, if the operation takes anything."""
        return self.params[0].kind if self.params else None

    @property
    def text(self) -> str:
        """The signature as a person writes it: `loop.split(factors, tail = guard) -> loop…`."""
        shown = []
        function = self.group in (Group.FUNCTION, Group.SAMPLER) or not self.params or self.params[0].variadic
        for p in self.params if function else self.params[1:]:
            star = "*" if p.variadic else ""
            default = "" if isinstance(p.default, Required) else f" = {_text(p.default)}"
            shown.append(f"{star}{p.name}{default}")
        head = self.name if function else f"{self.params[0].kind}.{self.name}"
        kinds = ", ".join(k.value for k in self.results) + ("…" if self.many else "")
        return f"{head}({', '.join(shown)})" + (f" -> {kinds}" if kinds else "")


def _text(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case "":
            return '""'
    return str(value)
