"""Kernels that pack and unpack their parameters: a caller in C has the arrays of the unscheduled program.

Constants it packs itself, once, by functions next to the kernel.
"""

from __future__ import annotations

from math import prod

from msgspec.structs import replace

from mslang.ir.dtype import is_float, size_of
from mslang.ir.expr import Const, Expr, Load, Var
from mslang.ir.program import Packing, Param, Program
from mslang.ir.visit import fresh, substitute
from mslang.kernel.nodes import Allocate, Body, For, Function, Module, Stmt, Store
from mslang.lower.analysis import names


def constants(program: Program) -> tuple[str, ...]:
    """The parameters that a caller packs ahead of time: constants that are compact and of a known shape."""
    return tuple(
        q.buffer.name
        for q in program.params
        if q.constant and q.buffer.strides is None and all(isinstance(n, Const) for n in q.given.shape)
    )


def packed_bytes(program: Program, constant: str) -> int:
    """The bytes that a constant takes in the layout of a program."""
    (b,) = (q.buffer for q in program.params if q.buffer.name == constant)
    return prod(int(n.value) for n in b.shape if isinstance(n, Const)) * size_of(b.dtype)


def packer(module: Module, constant: str, name: str) -> Module:
    """A kernel that packs a constant of another kernel: from its caller's array into what the other takes."""
    (p,) = (q for q in module.params if q.buffer.name == constant)
    taken = _names(module)
    given = replace(p.given, name=fresh(f"{constant}_given", taken), strides=None)
    if p.packing is None:
        indices = tuple(Var(fresh(f"{constant}_pack{k}", taken)) for k in range(len(given.shape)))
        copied = Store(constant, indices, Load(given.name, indices, given.dtype))
        body = _over(tuple(v.name for v in indices), given.shape, copied)
    else:
        body = _packed(p, p.packing, given.name)
    params = Param(given), Param(replace(p.buffer, strides=None), "out")
    return Module(name, params, (Function(name, tuple(q.buffer for q in params), body),))


def self_packing(module: Module, ahead: tuple[str, ...] = ()) -> Module:
    """The kernel over the arrays of its caller: packed parameters become buffers of its workspace, which are filled
    from the caller's arrays at the start, and from which outputs are copied at the end.

    Args:
        module: a kernel for a CPU, of one function.
        ahead: the parameters that the caller has packed.
    """
    body = module.body
    params: list[Param] = []
    taken = _names(module)
    for p in module.params:
        if p.packing is None or p.buffer.name in ahead:
            params.append(replace(p, packing=None))
            continue
        given = replace(p.given, name=fresh(f"{p.buffer.name}_given", taken), strides=None)
        taken.add(given.name)
        params.append(replace(p, buffer=given, packing=None))
        body = (Allocate(p.buffer, (*_packed(p, p.packing, given.name), *body, *_unpacked(p, p.packing, given.name))),)
    (function,) = module.functions
    function = replace(function, params=tuple(p.buffer for p in params), body=body)
    return replace(module, params=tuple(params), functions=(function,))


def _names(module: Module) -> set[str]:
    """The names of the kernel's parameters, and of all that is in it."""
    return {p.buffer.name for p in module.params}.union(*(names(f.body) for f in module.functions))


def _packed(p: Param, packing: Packing, given: str) -> Body:
    """Padding everywhere, then the caller's elements in their places."""
    b = p.buffer
    zero = Const(False if b.dtype == "bool" else 0.0 if is_float(b.dtype) else 0, b.dtype)
    pad: Expr = zero if packing.pad is None else packing.pad
    places = tuple(Var(f"{b.name}_fill{k}") for k in range(len(b.shape)))
    filled = _over(tuple(v.name for v in places), b.shape, Store(b.name, places, pad))
    if p.direction == "out":
        return filled
    names, indices, results = _map(p, packing, "pack")
    return *filled, *_over(names, packing.shape, Store(b.name, results, Load(given, indices, b.dtype)))


def _unpacked(p: Param, packing: Packing, given: str) -> Body:
    """The elements of an output, back in the caller's array."""
    if p.direction == "in":
        return ()
    names, indices, results = _map(p, packing, "unpack")
    value = Load(p.buffer.name, results, p.buffer.dtype)
    return _over(names, packing.shape, Store(given, indices, value))


def _map(p: Param, packing: Packing, verb: str) -> tuple[tuple[str, ...], tuple[Expr, ...], tuple[Expr, ...]]:
    """Names of loops over the caller's array, the indices there, and the indices in the buffer."""
    names = tuple(f"{p.buffer.name}_{verb}{k}" for k in range(len(packing.params)))
    indices: tuple[Expr, ...] = tuple(Var(n) for n in names)
    values = dict(zip(packing.params, indices, strict=True))
    return names, indices, tuple(substitute(e, values) for e in packing.results)


def _over(names: tuple[str, ...], shape: tuple[Expr, ...], s: Stmt) -> Body:
    """A statement for every element of a shape, the last dimension innermost."""
    for name, extent in zip(reversed(names), reversed(shape), strict=True):
        s = For(name, extent, (s,))
    return (s,)
