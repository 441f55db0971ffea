"""Whether a program that this project made is the one that TVM's test expects: by form, or else by meaning."""

from __future__ import annotations

import math
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.tvm_suite.forms import unnamed
from benchmarks.tvm_suite.reading import NotPortable
from mslang.backend.llvm.compile import compile
from mslang.backend.reference import interpret
from mslang.diagnostics import MsError
from mslang.ir.arith import substitute_symbols
from mslang.ir.equal import alpha_equal
from mslang.ir.expr import Const, DynamicRange, Symbol
from mslang.ir.program import Block, For, If, Param, Program, Stmt
from mslang.ir.visit import map_program_exprs, walk
from mslang.lower.passes import lower
from mslang.runtime.arrays import sparse_integers
from mslang.runtime.kernel import load
from mslang.runtime.linker import Linker
from mslang.target.detect import host
from mslang.tune.verification import make_arguments

Arrays = dict[str, np.ndarray]
MOST_STEPS = 1_000_000
"""A program of more iterations is not interpreted."""
PIECE = 1 << 20
"""How many elements are compared at a time."""
PERIOD = (1 << 20) + 7
"""After how many elements the values of a large input repeat; drawing all of them would take 20 bytes for each."""
DYNAMIC = 8
"""What a size that is known only at the call is taken to be."""


class Verdicts:
    """What came of the claims of one test."""

    def __init__(self) -> None:
        self.same_form = self.same_meaning = self.different = self.refusals = self.accepted = 0
        self.why: list[str] = []

    def accept(self, before: Program, after: Program) -> None:
        """Note that something was done that TVM refuses: does it mean the same?"""
        self.accepted += 1
        self.why.append(why_different(before, after) or "what TVM refuses; it computes the same")

    @property
    def compared(self) -> int:
        """How many programs were compared."""
        return self.same_form + self.same_meaning + self.different

    def compare(self, theirs: Program, ours: Program) -> None:
        """Note how a program made here compares with the one expected.

        TVM's takes packed arrays where a parameter got another layout: so does ours here.
        """
        ours = msgspec.structs.replace(ours, params=tuple(Param(q.buffer, q.direction) for q in ours.params))
        try:
            if alpha_equal(theirs, ours) or alpha_equal(unnamed(theirs), unnamed(ours)):
                self.same_form += 1
                return
        except MsError:
            pass
        reason = why_different(theirs, ours)
        if reason is None:
            self.same_meaning += 1
        else:
            self.different += 1
            self.why.append(reason)


def why_different(theirs: Program, ours: Program) -> str | None:
    """None if two programs compute the same of the same arguments, by position."""
    theirs, ours = _one_by_one(_sized(theirs)), _one_by_one(_sized(ours))
    if not theirs.params and not ours.params:
        theirs, ours = _shown(theirs, ours), _shown(ours, theirs)
        if not ours.params:
            return "nothing shows what they compute"
    shapes = [[(p.given.dtype, p.given.shape) for p in program.params] for program in (theirs, ours)]
    if shapes[0] != shapes[1]:
        return "the parameters differ"
    given = _inputs(ours)
    want = _run(theirs, {p.buffer.name: given[q.buffer.name] for p, q in zip(theirs.params, ours.params, strict=True)})
    got = _run(ours, given)
    for p, q in zip(theirs.params, ours.params, strict=True):
        a, b = want[p.buffer.name], got[q.buffer.name]
        if not close(a, b):
            return f"`{q.buffer.name}` differs"
    return None


def close(a: NDArray[np.generic], b: NDArray[np.generic]) -> bool:
    """Whether two arrays agree. Equal ones, as inputs are, need no copies, and others are compared piece by piece: some
    of TVM's tests have 1 GiB of them."""
    if a.shape != b.shape:
        return False
    flat, other = a.reshape(-1), b.reshape(-1)
    pieces = (slice(k, k + PIECE) for k in range(0, a.size, PIECE))
    return all(np.array_equal(flat[k], other[k]) or _near(flat[k], other[k]) for k in pieces)


def _near(a: NDArray[np.generic], b: NDArray[np.generic]) -> bool:
    return np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-3, atol=1e-3, equal_nan=True)


def _shown(program: Program, other: Program) -> Program:
    """A program without parameters with those of its buffers as such that the other has, too."""
    there = {(b.name, b.dtype, b.shape) for b in other.allocs}
    shown = sorted((b for b in program.allocs if (b.name, b.dtype, b.shape) in there), key=lambda b: b.name)
    params = tuple(Param(msgspec.structs.replace(b, scope="global"), "inout") for b in shown)
    return msgspec.structs.replace(program, params=params, allocs=tuple(b for b in program.allocs if b not in shown))


def _one_by_one(program: Program) -> Program:
    """The program with all its loops serial, and without remarks: neither changes what it means."""
    return msgspec.structs.replace(program, body=_serial(program.body), annotations=())


def _serial(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return tuple(_serial_statement(s) for s in body)


def _serial_statement(s: Stmt) -> Stmt:
    match s:
        case For(body=body):
            return msgspec.structs.replace(s, kind="serial", annotations=(), body=_serial(body))
        case Block(body=body):
            return msgspec.structs.replace(s, annotations=(), body=_serial(body))
        case If(then=then, otherwise=otherwise):
            return msgspec.structs.replace(s, then=_serial(then), otherwise=_serial(otherwise))
    return s


def _sized(program: Program) -> Program:
    values = {s.name: _size(s) for s in program.dynamic if isinstance(s, Symbol)}
    done = map_program_exprs(program, lambda e: substitute_symbols(e, values)) if values else program
    return msgspec.structs.replace(done, dynamic=())


def _size(symbol: Symbol) -> int:
    match symbol.domain:
        case DynamicRange(lo=lo, hi=hi, multiple=multiple):
            return min(max(lo, DYNAMIC * multiple), hi // multiple * multiple)
    return DYNAMIC


def _inputs(program: Program) -> Arrays:
    given: Arrays = {}
    for k, p in enumerate(program.params):
        shape = tuple(int(n.value) for n in p.given.shape if isinstance(n, Const))
        piece = sparse_integers((min(math.prod(shape), PERIOD),), p.buffer.dtype, k, density=0.5)
        given[p.buffer.name] = np.resize(piece, shape)
    return given


@lru_cache(maxsize=1)
def _linker() -> Linker:
    return Linker(workers=1)


def _run(program: Program, given: Arrays) -> Arrays:
    try:
        made = compile(lower(program, host()), host())
    except MsError:
        return _interpreted(program, {n: a.copy() for n, a in given.items()})
    kernel = load(made.object, made.signature, _linker())
    bound = make_arguments(program, given)
    kernel.bind(**bound).run()
    return {p.buffer.name: bound[p.buffer.name] for p in program.params}


def _interpreted(program: Program, arrays: Arrays) -> Arrays:
    if _steps(program) > MOST_STEPS:
        raise NotPortable("too large to be interpreted, and not for a CPU")
    inputs = {p.buffer.name: arrays[p.buffer.name] for p in program.params if p.direction != "out"}
    return arrays | interpret.run(program, inputs, check=False)


def _steps(program: Program) -> int:
    def steps(s: object) -> int:
        inner = sum(steps(x) for x in getattr(s, "body", ()))
        if isinstance(s, For):
            return max(inner, 1) * (int(s.extent.value) if isinstance(s.extent, Const) else DYNAMIC)
        return inner + 1

    return sum(steps(s) for s in program.body) if any(True for _ in walk(program.body)) else math.inf  # type: ignore[return-value]
