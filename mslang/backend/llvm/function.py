"""Writing one LLVM function as text: temporaries, blocks, and reuse of what is already computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mslang.backend.llvm.types import Value, mangled, type_of


class Declarations:
    """The external functions that a module mentions."""

    def __init__(self) -> None:
        self.lines: dict[str, None] = {}

    def add(self, line: str) -> None:
        """Declare a function; saying it again does nothing."""
        self.lines[line] = None


class FunctionWriter:
    """One function under construction.

    `pure` operations are remembered by their text, so that unrolled copies share addresses; what is remembered
    inside a loop or branch is forgotten when `nested` ends. `nan_free` is the target's promise about `min` and `max`;
    `fused` writes a product and a sum as one operation, which LLVM's vectorization does not take apart or count twice;
    `scales` says that the target multiplies vectors of 512 bits by powers of 2 in one instruction (AVX-512F).
    `processor` is the family of its processor (`triple.py`); `has_streams` is set once it stores past the caches.
    `debug` is the function's metadata, where instructions are to know their statement; `place` that of the next ones.
    """

    def __init__(
        self,
        name: str,
        params: tuple[str, ...],
        declarations: Declarations,
        result: str = "i32",
        *,
        nan_free: bool = False,
        scales: bool = False,
        fused: bool = False,
        processor: str = "",
        debug: str | None = None,
    ) -> None:
        self.name = name
        self.params = params
        self.result = result
        self.nan_free = nan_free
        self.scales = scales
        self.fused = fused
        self.processor = processor
        self.has_streams = False
        self.declarations = declarations
        self.debug = debug
        self.place: str | None = None
        self.block = "entry"
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._known: dict[str, str] = {}
        self._count = 0

    # -------------------------------------------------------------- names
    def fresh(self, hint: str = "t") -> str:
        """A new name without its sigil."""
        self._count += 1
        return f"{hint}{self._count}"

    # -------------------------------------------------------------- instructions
    def op(self, text: str) -> str:
        """Append an instruction that has a result; its reference."""
        self._count += 1
        name = f"%t{self._count}"
        self._append(f"  {name} = {text}")
        return name

    def pure(self, text: str) -> str:
        """As `op`, but an equal instruction already made where this point is reached from is used again."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self.op(text)
        return found

    def do(self, text: str) -> None:
        """Append an instruction without a result."""
        self._append("  " + text)

    def _append(self, line: str) -> None:
        self._lines.append(line if self.place is None else f"{line}, !dbg {self.place}")

    @contextmanager
    def at(self, place: str | None) -> Iterator[None]:
        """What is appended inside comes from the statement at a place; None: from the one around it."""
        outer = self.place
        self.place = outer if place is None else place
        yield
        self.place = outer

    def alloca(self, text: str, name: str) -> str:
        """Reserve stack in the entry block."""
        ref = f"%{self.fresh(name)}"
        self._entry.append(f"  {ref} = {text}")
        return ref

    def intrinsic(self, name: str, dtype: str, lanes: int, args: tuple[Value, ...], flags: str = "") -> Value:
        """Call the overloaded intrinsic `llvm.<name>` whose result has the type of its overload."""
        full = f"@llvm.{name}.{mangled(dtype, lanes)}"
        result = type_of(dtype, lanes)
        self.declarations.add(f"declare {result} {full}({', '.join(a.type for a in args)})")
        operands = ", ".join(a.typed for a in args)
        return Value(self.pure(f"call {flags}{result} {full}({operands})"), dtype, lanes)

    def leading_zeros(self, v: Value) -> Value:
        """The number of zero bits above the highest set one; the width for 0."""
        name = f"@llvm.ctlz.{mangled(v.dtype, v.lanes)}"
        self.declarations.add(f"declare {v.type} {name}({v.type}, i1)")
        return Value(self.pure(f"call {v.type} {name}({v.typed}, i1 false)"), v.dtype, v.lanes)

    # -------------------------------------------------------------- control
    def start(self, label: str) -> None:
        """Begin the block `label`."""
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """End the block by going to `label`."""
        self._append(f"  br label %{label}")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        """End the block by going to `then` where the i1 `condition` holds, else to `otherwise`."""
        self._append(f"  br i1 {condition}, label %{then}, label %{otherwise}")

    def placeholder(self) -> int:
        """A line to be filled in later."""
        self._lines.append("")
        return len(self._lines) - 1

    def fill(self, line: int, text: str) -> None:
        """Fill a placeholder."""
        self._lines[line] = "  " + text

    @contextmanager
    def nested(self) -> Iterator[None]:
        """A part of the function that not everything after it is reached through."""
        outer = self._known
        self._known = dict(outer)
        yield
        self._known = outer

    @property
    def text(self) -> str:
        """The finished definition."""
        debug = "" if self.debug is None else f" !dbg {self.debug}"
        head = f"define internal {self.name_and_params()} #0{debug} {{\nentry:\n"
        return head + "\n".join((*self._entry, *self._lines)) + "\n}\n"

    def name_and_params(self) -> str:
        """The signature without `define`."""
        return f"{self.result} @{self.name}({', '.join(self.params)})"
