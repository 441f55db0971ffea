"""The CUDA C source of a module, and how its kernels are launched."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mslang.backend.cuda.arithmetic import Used
from mslang.backend.cuda.expression import ExpressionPrinter
from mslang.backend.cuda.instruction import fragment_types, with_shared_fragments
from mslang.backend.cuda.names import Names
from mslang.backend.cuda.prelude import prelude
from mslang.backend.cuda.scope import Place, Scope
from mslang.backend.cuda.statement import DYNAMIC, StatementPrinter
from mslang.backend.cuda.types import FITS, INT, NAMES, Value, constant, memory_name
from mslang.ir.dtype import INDEX
from mslang.ir.expr import Const, DynamicRange, Expr, Var
from mslang.ir.program import Buffer
from mslang.ir.visit import walk_expr
from mslang.kernel.names import key_of
from mslang.kernel.nodes import Atomic, Body, Function, Invoke, Launch, Module, Store
from mslang.kernel.visit import expressions, walk
from mslang.lower.gpu.memory import DYNAMIC_ALIGN, alignment
from mslang.lower.layout import row_major
from mslang.target.description import Target

ONE_THREAD = Launch((Const(1),) * 3, (Const(1),) * 3)
"""How a function is launched that says nothing of threads."""

_THREADS = tuple(f"{what}.{d}" for what in ("blockIdx", "threadIdx") for d in "xyz")
_SHORT = {"blockIdx": "b", "threadIdx": "t"}


class KernelLaunch(msgspec.Struct, frozen=True):
    """One launch: a kernel's name, the buffers and sizes that it takes, in order, and its extents.

    `grid`, `block` and `dynamic_shared`, in bytes, are expressions over the sizes of the module.
    """

    function: str
    params: tuple[str, ...]
    sizes: tuple[str, ...]
    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    dynamic_shared: int = 0


class Source(msgspec.Struct, frozen=True):
    """CUDA C, its launches in order, and the global memory that they share."""

    text: str
    launches: tuple[KernelLaunch, ...]
    workspaces: tuple[Buffer, ...] = ()


def never(s: Invoke) -> bool:
    """No instruction is printed with its meaning."""
    return False


def cuda_source(module: Module, target: Target, emulated: Callable[[Invoke], bool] = never) -> Source:
    """The source of a module.

    Args:
        module: functions for threads, after all passes.
        target: the GPU.
        emulated: instructions to be printed along with their meaning (`#ifdef MSLANG_EMULATION`), so that a compiler
            of CPUs may take the meaning.

    Raises:
        MsError: MS440, something cannot be written in CUDA C; MS419 or MS441, an instruction's text is faulty; MS442,
            an atomic operation that GPUs lack.
    """
    used = Used(target.nan_free)
    names = Names()
    kernels: list[str] = []
    launches: list[KernelLaunch] = []
    for f in module.functions:
        text, launch = _kernel(f, module, used, names.fresh(f.name), emulated)
        kernels.append(text)
        launches.append(launch)
    headers = "".join(f"#include <{h}>\n" for h in sorted(used.headers))
    parts = [part for part in (headers, prelude(used.functions), *kernels) if part]
    return Source("\n".join(parts), tuple(launches), module.workspaces)


def _kernel(
    f: Function, module: Module, used: Used, name: str, emulated: Callable[[Invoke], bool]
) -> tuple[str, KernelLaunch]:
    launch = f.launch or ONE_THREAD
    reserved = int(launch.dynamic_shared.value) if isinstance(launch.dynamic_shared, Const) else 0
    names = Names()
    scope = Scope({}, {})
    declared: list[str] = []
    stored = _stored(f.body)
    ex = ExpressionPrinter(used)
    for b in f.params:
        own = names.fresh(b.name)
        const = "" if b.name in stored else "const "
        declared.append(f"{const}{memory_name(ex.typed(b.dtype))}* __restrict__ {own}")
        place = Place(b, own, b.strides or row_major(b.shape), alignment(b))
        scope = scope._replace(memory={**scope.memory, b.name: place})
    for size in module.dynamic:
        domain = size.domain
        bounds = (domain.lo, domain.hi) if isinstance(domain, DynamicRange) else None
        dtype = INT if bounds is not None and bounds[1] <= FITS[1] else INDEX
        own = names.fresh(size.name)
        declared.append(f"{NAMES[dtype]} {own}")
        scope = scope.bind(key_of(size), Value(own, dtype, bounds=bounds))
    together = with_shared_fragments(f.body, emulated)
    printer = StatementPrinter(used, names, fragment_types(f.body), together)
    if reserved:
        printer.put(f"extern __shared__ __align__({DYNAMIC_ALIGN}) unsigned char {DYNAMIC}[];")
    printer.body(f.body, _threads(printer, launch, f.body, scope, names))
    threads = [int(e.value) if isinstance(e, Const) else 0 for e in launch.block]
    limit = threads[0] * threads[1] * threads[2]
    bounds_text = f" __launch_bounds__({limit})" if limit else ""
    head = f'extern "C" __global__ void{bounds_text} {name}(\n    {", ".join(declared)}\n) {{'
    made = KernelLaunch(
        name,
        tuple(b.name for b in f.params),
        tuple(s.name for s in module.dynamic),
        launch.grid,
        launch.block,
        reserved,
    )
    return "\n".join((head, *printer.lines, "}")) + "\n", made


def _threads(printer: StatementPrinter, launch: Launch, body: Body, scope: Scope, names: Names) -> Scope:
    """The scope with the numbers of blocks and threads; those that the body uses are variables."""
    mentioned = {x.name for s in walk(body) for e in expressions(s) for x in walk_expr(e) if isinstance(x, Var)}
    for variable, extent in zip(_THREADS, (*launch.grid, *launch.block), strict=True):
        if variable not in mentioned:
            continue
        if extent == Const(1):
            scope = scope.bind(variable, constant(0, INDEX))
            continue
        what, _, dimension = variable.partition(".")
        own = names.fresh(_SHORT[what] + dimension)
        printer.put(f"const int {own} = (int){variable};")
        known = printer.expressions.value(extent, scope).bounds
        bounds = (0, FITS[1] - 1 if known is None else max(known[1] - 1, 0))
        scope = scope.bind(variable, Value(own, INT, bounds=bounds))
    return scope


def _stored(body: Body) -> frozenset[str]:
    """The buffers that a body writes; an instruction writes what its meaning does."""
    return frozenset(s.buffer for s in walk(body) if isinstance(s, Store | Atomic))
