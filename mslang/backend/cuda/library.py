"""A program for a GPU as a library: CUDA C with a host function that starts its kernels, its header, PTX or a cubin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from mslang import __version__
from mslang.backend.aot.header import C_TYPES, c_names, enclosed, parameter_lines
from mslang.backend.backend import Library, LibraryPart
from mslang.backend.cuda.executable import CudaExecutable, compiled
from mslang.backend.cuda.source import KernelLaunch
from mslang.backend.cuda.types import FITS
from mslang.diagnostics import TargetError, problem
from mslang.ir.dtype import size_of
from mslang.ir.expr import Binary, Const, DynamicRange, Expr, Symbol
from mslang.ir.program import Program
from mslang.ir.text import print_expr
from mslang.kernel.nodes import Module
from mslang.lower.layout import span
from mslang.runtime.signature import symbol
from mslang.target.description import Target

_IF_FINE = "if (mslang_error == cudaSuccess)"


def library(
    parts: Sequence[LibraryPart], name: str, about: str, lowered: Callable[[Program, Target], object]
) -> Library:
    """What can be written of a program for a GPU.

    Args:
        parts: the scheduled program and its target: one.
        name: the host function.
        about: what it was made from, for the header.
        lowered: makes the kernels of a program.

    Returns:
        The forms: `.cu` kernels and a host function that starts them on a stream, `.h` its declaration, `.ptx` and
        `.cubin` the kernels alone, whose launches the header lists.

    Raises:
        TargetError: MS452, there are several targets, or schedules for buckets of sizes; MS455, a parameter is packed.
    """
    if len({p.target.name for p in parts}) > 1:
        why = "code for GPUs is chosen by the driver, not by the library"
        raise TargetError(problem("MS452", "a library for a GPU is for one target", why=why, help="build one for each"))
    if len(parts) > 1:
        why = "the schedules of its buckets have launches of their own"
        help = "leave `db` out of `--apply`, or fix the size with `--set`"
        raise TargetError(problem("MS452", "a library for a GPU has one schedule for all sizes", why=why, help=help))
    part = parts[0]
    packed = next((p.buffer.name for p in part.program.params if p.packing is not None), None)
    if packed is not None:
        raise TargetError(
            problem(
                "MS455",
                f"the schedule packs `{packed}`, which a library for a GPU does not do",
                why="its arrays are on the GPU, in the layout that the kernels take",
                help="pack in a block of the program, or leave out the `transform_layout` of a parameter",
            )
        )
    module = lowered(part.program, part.target)
    assert isinstance(module, Module)
    made = compiled(module, part.target, text_only=True)
    # The kernel has the program's name.
    function = f"{symbol(name)}_launch"
    return Library(
        MappingProxyType(
            {
                ".h": lambda: _header(function, made, about).encode(),
                ".cu": lambda: (made.source.text + "\n" + _host(function, made)).encode(),
                ".ptx": lambda: made.ptx.encode(),
                ".cubin": lambda: made.loadable().image or b"",
            }
        )
    )


def _declaration(function: str, made: CudaExecutable) -> str:
    signature = made.signature
    names = c_names(signature)
    arrays = [
        f"{'const ' if p.direction == 'in' else ''}{C_TYPES[p.dtype]} *{n}"
        for p, n in zip(signature.parameters, names, strict=False)
    ]
    sizes = [f"int64_t {n}" for n in names[len(arrays) :]]
    return f"int {function}({', '.join((*arrays, *sizes, 'void *mslang_stream'))})"


def _header(function: str, made: CudaExecutable, about: str) -> str:
    lines = ["/*", *parameter_lines(made.signature)]
    lines += [
        " *",
        " * Pointers are to memory of the GPU, aligned to 16 bytes; arrays that are written overlap no other array.",
        " * `mslang_stream` is a cudaStream_t. Returns the cudaError_t of starting the kernels,",
        " * which then run on the stream. It is defined by the `.cu` file. The kernels, in order:",
    ]
    for k in made.source.launches:
        grid, block = (", ".join(map(print_expr, e)) for e in (k.grid, k.block))
        taken = ", ".join((*k.params, *k.sizes))
        lines.append(f" *   {k.function}<<<({grid}), ({block}), {k.dynamic_shared}>>>({taken})")
    lines += [
        f" *   {b.name}: {b.dtype}[{', '.join(map(print_expr, b.shape))}] of workspace" for b in made.source.workspaces
    ]
    lines += [" */", f"{_declaration(function, made)};", ""]
    return enclosed(function, f"Made by mslang {__version__} from {about} for {made.target.name}.", lines)


def _host(function: str, made: CudaExecutable) -> str:
    """The host function: workspaces on the stream, launches in order."""
    signature = made.signature
    names = c_names(signature)
    c = dict(zip((*(p.name for p in signature.parameters), *(s.text for s in signature.dynamic)), names, strict=True))
    lines = [
        "#include <cuda_runtime.h>",
        "#include <stdint.h>",
        "",
        f'extern "C" {_declaration(function, made)} {{',
        "    const cudaStream_t mslang_on = static_cast<cudaStream_t>(mslang_stream);",
        "    cudaError_t mslang_error = cudaSuccess;",
    ]
    for s in signature.dynamic:
        if isinstance(s.domain, DynamicRange):
            bad = (
                f"{c[s.text]} < {s.domain.lo} || {c[s.text]} > {s.domain.hi} || {c[s.text]} % {s.domain.multiple} != 0"
            )
            lines.append(f"    if ({bad}) return cudaErrorInvalidValue;")
    memory = {p.name: c[p.name] for p in signature.parameters}
    for number, b in enumerate(made.source.workspaces):
        memory[b.name] = f"mslang_workspace{number}"
        size = f"{size_of(b.dtype)} * {_size(span(b), c)}"
        place = f"mslang_workspace{number}"
        lines.append(f"    void *{place} = nullptr;")
        lines.append(f"    {_IF_FINE} mslang_error = cudaMallocAsync(&{place}, {size}, mslang_on);")
    for k in made.source.launches:
        lines += _launch(k, made, memory, c)
    lines += [
        f"    if (mslang_workspace{k}) cudaFreeAsync(mslang_workspace{k}, mslang_on);"
        for k in range(len(made.source.workspaces))
    ]
    return "\n".join((*lines, "    return mslang_error;", "}", ""))


def _launch(k: KernelLaunch, made: CudaExecutable, memory: Mapping[str, str], c: Mapping[str, str]) -> list[str]:
    domains = {s.text: s.domain for s in made.signature.dynamic}
    lines = ["    {"]
    taken = [f"(void *)&{memory[name]}" for name in k.params]
    for number, size in enumerate(k.sizes):
        domain = domains[size]
        kind = "int" if isinstance(domain, DynamicRange) and domain.hi <= FITS[1] else "long long"
        lines.append(f"        {kind} mslang_size{number} = static_cast<{kind}>({c[size]});")
        taken.append(f"&mslang_size{number}")
    grid, block = (", ".join(_extent(e, c) for e in es) for es in (k.grid, k.block))
    kernel = f"reinterpret_cast<const void *>({k.function})"
    lines += [
        f"        void *mslang_arguments[] = {{{', '.join(taken) or 'nullptr'}}};",
        f"        const dim3 mslang_grid({grid}), mslang_block({block});",
    ]
    # The limit without this is on static and dynamic memory together.
    if k.dynamic_shared:
        what = f"cudaFuncAttributeMaxDynamicSharedMemorySize, {k.dynamic_shared}"
        lines.append(f"        {_IF_FINE} mslang_error = cudaFuncSetAttribute({kernel}, {what});")
    launch = f"cudaLaunchKernel({kernel}, mslang_grid, mslang_block, mslang_arguments, {k.dynamic_shared}, mslang_on)"
    lines.append("        // A launch without blocks is an error; it has nothing to do.")
    some = " && ".join(("mslang_error == cudaSuccess", *(f"mslang_grid.{d} != 0" for d in "xyz")))
    lines.append(f"        if ({some}) mslang_error = {launch};")
    return [*lines, "    }"]


def _extent(e: Expr, c: Mapping[str, str]) -> str:
    return str(int(e.value)) if isinstance(e, Const) else f"static_cast<unsigned>({_size(e, c)})"


def _size(e: Expr, c: Mapping[str, str]) -> str:
    """A size at the call, none of whose parts is negative, in C."""
    match e:
        case Const(value=v):
            return f"{int(v)}LL"
        case Symbol(text=text):
            return c[text]
        case Binary(op="min" | "max" as op, left=left, right=right):
            a, b = _size(left, c), _size(right, c)
            return f"({a} {'<' if op == 'min' else '>'} {b} ? {a} : {b})"
        case Binary(op="+" | "-" | "*" | "//" | "%" as op, left=left, right=right):
            return f"({_size(left, c)} {op[0]} {_size(right, c)})"
    raise TargetError(problem("MS451", f"an extent of a launch cannot be computed from the arguments: {e!r}"))
