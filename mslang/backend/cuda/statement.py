"""Statements in CUDA C."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mslang.backend.cuda import arithmetic
from mslang.backend.cuda.arithmetic import Used
from mslang.backend.cuda.atomics import atomic
from mslang.backend.cuda.copies import COPIES, copy
from mslang.backend.cuda.expression import ExpressionPrinter
from mslang.backend.cuda.instruction import constant_count, fragments_of, instruction, is_fragment
from mslang.backend.cuda.names import Names
from mslang.backend.cuda.scope import Fragments, Place, Scope
from mslang.backend.cuda.texts import FragmentType
from mslang.backend.cuda.types import INT, NAMES, Level, Value, constant, fits, memory_name
from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import INDEX
from mslang.ir.expr import Call, Expr, Load, Var
from mslang.ir.program import HOLDERS, Buffer
from mslang.kernel.lanes import lane, lanes_of
from mslang.kernel.names import key_of
from mslang.kernel.nodes import (
    Allocate,
    Atomic,
    Barrier,
    Body,
    Evaluate,
    For,
    If,
    Invoke,
    Let,
    Stmt,
    Store,
    While,
    Within,
)
from mslang.lower.analysis import changes_bounds
from mslang.lower.gpu.memory import alignment, elements, offset_bytes
from mslang.lower.layout import row_major

_INDENT = "    "
_BARRIERS = {"block": "__syncthreads();", "warp": "__syncwarp();"}

DYNAMIC = "ms_shared"
"""The name of dynamic shared memory."""


class StatementPrinter:
    """Prints the body of one kernel into `lines`.

    Args:
        used: what the source needs, collected.
        names: the identifiers of this kernel.
        fragments: how fragments are held.
        emulated: the instructions that are printed along with their meaning, for a compiler of CPUs.
    """

    def __init__(
        self,
        used: Used,
        names: Names,
        fragments: Mapping[str, FragmentType],
        emulated: frozenset[Invoke],
    ) -> None:
        self.lines: list[str] = []
        self.expressions = ExpressionPrinter(used)
        self._used = used
        self._names = names
        self._fragments = fragments
        self._emulated = emulated
        self._depth = 1

    def body(self, body: Body, scope: Scope) -> None:
        """Print statements in order."""
        for s in body:
            self._statement(s, scope)

    def put(self, *lines: str) -> None:
        """Print lines at the current depth."""
        self.lines += [f"{_INDENT * self._depth}{line}" if line else line for line in lines]

    def _statement(self, s: Stmt, scope: Scope) -> None:
        match s:
            case Store():
                self._store(s, scope)
            case For():
                self._loop(s, scope)
            case If(condition=c, then=then, otherwise=otherwise):
                self._block(f"if ({self.expressions.value(c, scope).text})", then, scope)
                if otherwise:
                    self.lines.pop()
                    self._block("} else", otherwise, scope)
            case While(condition=c, body=b):
                self._block(f"while ({self.expressions.value(c, scope).text})", b, scope)
            case Let():
                self._let(s, scope)
            case Allocate():
                self._allocate(s, scope)
            case Within(body=b):
                self.body(b, scope)
            case Barrier(scope=where):
                self.put(_BARRIERS[where])
            case Atomic():
                self.put(atomic(self.expressions, s, scope))
            case Invoke():
                self._invoke(s, scope)
            case Evaluate(value=Call() as call) if call.name in COPIES:
                self.put(copy(self.expressions, call, scope))
            case Evaluate(value=v):
                self.put(f"{self.expressions.value(v, scope).text};")
            case _:
                raise TypeError(f"not a statement of a kernel: {s!r}")

    def _block(self, head: str, body: Body, scope: Scope) -> None:
        self.put(f"{head} {{")
        self._depth += 1
        self.body(body, scope)
        self._depth -= 1
        self.put("}")

    # -------------------------------------------------------------- loops and variables
    def _loop(self, s: For, scope: Scope) -> None:
        ex = self.expressions
        start, extent = ex.value(s.start, scope), ex.value(s.extent, scope)
        if extent.literal is not None and extent.literal <= 1:
            if extent.literal == 1:
                self.body(s.body, scope.bind(s.var, start._replace(text=start.at(Level.ATOM), level=Level.ATOM)))
            return
        end = extent if start.literal == 0 else arithmetic.binary(self._used, "+", start, extent, INDEX, exact=True)
        if start.literal is not None and extent.literal is not None:
            end = constant(start.literal + extent.literal, INDEX)
        bounds = None
        if start.bounds is not None and end.bounds is not None:
            bounds = (start.bounds[0], max(end.bounds[1] - 1, start.bounds[0]))
        dtype = INT if fits(bounds) and fits(end.bounds) else INDEX
        name = self._names.fresh(s.var)
        stop = end.at(Level.SHIFT)
        if changes_bounds(s):
            stop = self._names.fresh(f"{s.var}_end")
            self.put(f"const {NAMES[dtype]} {stop} = {end.text};")
        if s.kind == "unrolled":
            self.put("#pragma unroll")
        head = f"for ({NAMES[dtype]} {name} = {start.text}; {name} < {stop}; ++{name})"
        self._block(head, s.body, scope.bind(s.var, Value(name, dtype, bounds=bounds)))

    def _let(self, s: Let, scope: Scope) -> None:
        if lanes_of(s.value) > 1:
            self._vector_let(s, scope)
            return
        v = self.expressions.value(s.value, scope)
        if v.literal is not None:
            self.body(s.body, scope.bind(s.name, v))
            return
        dtype = INT if v.dtype == INDEX and v.bounds is not None and fits(v.bounds) else v.dtype
        name = self._names.fresh(s.name)
        self.put(f"const {NAMES[dtype]} {name} = {v.text};")
        self.body(s.body, scope.bind(s.name, Value(name, dtype, bounds=v.bounds)))

    # -------------------------------------------------------------- memory
    def _allocate(self, s: Allocate, scope: Scope) -> None:
        b = s.buffer
        if is_fragment(b.scope):
            self.body(s.body, self._fragment(b, scope))
            return
        if b.scope not in ("local", "shared", "shared.dyn"):
            raise MsError(
                problem(
                    "MS440",
                    f"`{b.name}` in {b.scope} memory cannot be allocated inside a kernel",
                    help="allocate it in local or shared memory, or outside of the loops that are bound to threads",
                )
            )
        self.expressions.typed(b.dtype)
        name, type_, align = self._names.fresh(b.name), memory_name(b.dtype), alignment(b)
        if b.scope == "shared.dyn":
            self.put(f"{type_}* const {name} = ({type_}*)({DYNAMIC} + {offset_bytes(b)});")
        else:
            where = "" if b.scope == "local" else "__shared__ "
            self.put(f"{where}__align__({align}) {type_} {name}[{elements(b)}];")
        place = Place(replace(b, offset=None), name, b.strides or row_major(b.shape), align)
        self.body(s.body, scope._replace(memory={**scope.memory, b.name: place}))

    def _fragment(self, b: Buffer, scope: Scope) -> Scope:
        held = self._fragments.get(b.name)
        if held is None:
            raise MsError(
                problem(
                    "MS441",
                    f"no instruction says how the fragment `{b.name}` is held",
                    help=f"tensorize the blocks that access it by instructions on {b.scope}",
                )
            )
        name = self._names.fresh(b.name)
        count = constant_count(b.shape, held.tile, b.name)
        self.expressions.typed(b.dtype)
        declared = held.declared(name, count)
        if any(b.name in fragments_of(s) for s in self._emulated):
            size, together = elements(b), HOLDERS[b.scope]
            held_as = f"EMULATED_FRAGMENT({memory_name(b.dtype)}, {name}, {size}, {together});"
            self.put("#ifdef MSLANG_EMULATION", held_as, "#else", declared, "#endif")
        else:
            self.put(declared)
        return scope._replace(fragments={**scope.fragments, b.name: Fragments(b, name, held.tile)})

    def _store(self, s: Store, scope: Scope) -> None:
        ex = self.expressions
        lanes = max(map(lanes_of, s.indices), default=1)
        if s.mask is not None or (lanes == 1 and lanes_of(s.value) > 1):
            raise _not_one_instruction(f"what is stored to `{s.buffer}`")
        if lanes == 1:
            self.put(f"{ex.element(s.buffer, s.indices, scope)} = {ex.value(s.value, scope).text};")
            return
        type_ = self._vector_type(s.buffer, lanes, scope)
        if isinstance(s.value, Var) and s.value.lanes == lanes:
            text = scope.variables[key_of(s.value)].text
        else:
            values = [ex.value(lane(s.value, k), scope).text for k in range(lanes)]
            text = f"{type_}{{{{{', '.join(values)}}}}}"
        self.put(f"*({type_}*){self._first(s.buffer, s.indices, scope)} = {text};")

    def _vector_let(self, s: Let, scope: Scope) -> None:
        """A load of neighbours."""
        if not isinstance(s.value, Load):
            raise _not_one_instruction(f"`{s.name}`")
        type_ = self._vector_type(s.value.buffer, lanes_of(s.value), scope)
        at = self._first(s.value.buffer, s.value.indices, scope)
        name = self._names.fresh(s.name)
        self.put(f"const {type_} {name} = *(const {type_}*){at};")
        self.body(s.body, scope.bind(s.name, Value(name, s.value.dtype)))

    def _first(self, buffer: str, indices: tuple[Expr, ...], scope: Scope) -> str:
        """The address of the first of neighbours."""
        return self.expressions.address(buffer, tuple(lane(x, 0) for x in indices), scope)

    def _vector_type(self, buffer: str, lanes: int, scope: Scope) -> str:
        dtype = self.expressions.typed(self.expressions.place(buffer, scope).buffer.dtype)
        self._used.functions.add("ms_vector")
        return f"ms_vector<{memory_name(dtype)}, {lanes}>"

    # -------------------------------------------------------------- instructions
    def _invoke(self, s: Invoke, scope: Scope) -> None:
        lines = instruction(self.expressions, s, scope)
        if s not in self._emulated:
            self.put(*lines)
            return
        self.put("#ifdef MSLANG_EMULATION")
        as_memory = {
            name: Place(f.buffer, f.array, row_major(f.buffer.shape), 1) for name, f in scope.fragments.items()
        }
        held = [scope.fragments[name].buffer.scope for name in fragments_of(s) if name in scope.fragments]
        together = max((HOLDERS[x] for x in held), default=1)
        inside = scope._replace(memory={**scope.memory, **as_memory}, fragments={})
        self._block(f"EMULATED({together})", s.meaning, inside)
        self.put("#else", *lines, "#endif")


def _not_one_instruction(what: str) -> MsError:
    return MsError(
        problem(
            "MS440",
            f"{what} is a vector that no instruction loads or stores",
            why="CUDA C is printed of kernels after the pass `widths`",
        )
    )
