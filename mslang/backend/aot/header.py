"""The C header of a library: the function, what it takes and returns, in C and C++."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from mslang import __version__
from mslang.backend.aot.entry import BAD_ARGUMENT, NO_MEMORY, OK, UNSUPPORTED
from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import size_of
from mslang.ir.expr import DynamicRange, Symbol
from mslang.ir.text import print_expr
from mslang.runtime.c_library import WORDS
from mslang.runtime.signature import Parameter, Signature

C_TYPES = {
    "bool": "bool",
    "bf16": "uint16_t",
    "f16": "uint16_t",
    "f32": "float",
    "f64": "double",
    **{f"i{b}": f"int{b}_t" for b in (8, 16, 32, 64)},
    **{f"u{b}": f"uint{b}_t" for b in (8, 16, 32, 64)},
}
"""The C type of each element type; halves are passed as their bits."""

_OWN = re.compile(
    r"u?int\w*_t|U?INT\w*_(MIN|MAX|C|WIDTH)|(PTRDIFF|SIG_ATOMIC|SIZE|WCHAR|WINT)_(MIN|MAX|WIDTH)"
    r"|mslang_status|MSLANG_(OK|NO_MEMORY|BAD_ARGUMENT|UNSUPPORTED|STATUS)"
)
"""Names of `stdint.h`, which a header includes, and of what it declares beside the function."""

_STATUS = f"""#ifndef MSLANG_STATUS
#define MSLANG_STATUS
enum mslang_status {{
    MSLANG_OK = {OK},           /* done */
    MSLANG_NO_MEMORY = {NO_MEMORY},    /* no workspace could be allocated; nothing was written */
    MSLANG_BAD_ARGUMENT = {BAD_ARGUMENT}, /* a pointer or size is not as documented; nothing was written */
    MSLANG_UNSUPPORTED = {UNSUPPORTED}   /* instructions are missing or refused; nothing was written */
}};
#endif
"""


class Packer(msgspec.Struct, frozen=True):
    """What packs a constant: a C function, the constant's name in C, and the bytes of the packed array."""

    function: str
    constant: str
    bytes: int


NO_PACKERS: Mapping[str, Packer] = MappingProxyType({})


def require_name(name: str) -> None:
    """Raise MS701 if a function of the name cannot be declared in C and C++."""
    if name in WORDS or _OWN.fullmatch(name):
        whose = "a word of C" if name in WORDS else "declared in each header"
        raise MsError(problem("MS701", f"`{name}` is {whose}, and no name of a function", help="choose one: `--name`"))


def header(
    name: str,
    signature: Signature,
    targets: tuple[tuple[str, tuple[str, ...]], ...],
    about: str,
    parallel: bool,
    packers: Mapping[str, Packer] = NO_PACKERS,
) -> str:
    """The header's text.

    Args:
        name: the function.
        signature: what it takes.
        targets: the targets that there is code for, the best first, with the features that each needs.
        about: what it was made from.
        parallel: whether it has parallel loops.
        packers: the parameters that its caller packs.

    Raises:
        MsError: MS701, the function is called by a word of C or C++.
    """
    require_name(name)
    names = c_names(signature)
    arrays = [_declared(p, n) for p, n in zip(signature.parameters, names, strict=False)]
    sizes = [f"int64_t {n}" for n in names[len(arrays) :]]
    lines = [_STATUS]
    for p, n in zip(signature.parameters, names, strict=False):
        if p.name in packers:
            lines += _packer_lines(name, p, n, packers[p.name])
    ahead = {
        n: f"constant, as {made.function} packed it, {_size_macro(name, made.constant)} bytes, read"
        for n, made in packers.items()
    }
    lines += ["/*", *parameter_lines(signature, ahead)]
    lines += [f" * {line}".rstrip() for line in _terms(targets, parallel)]
    lines += [" */", f"int {name}({', '.join((*arrays, *sizes)) or 'void'});", ""]
    if parallel:
        lines += [
            "/*",
            " * Parallel loops run on n threads, the caller one of them: all processors that it may run on, unless",
            " * this is called before the first kernel of the program or shared library.",
            " * Returns MSLANG_OK, or MSLANG_BAD_ARGUMENT if n < 1.",
            " */",
            f"int {name}_set_threads(int n);",
            "",
        ]
    return enclosed(name, f"Made by mslang {__version__} from {about}.", lines)


def enclosed(name: str, about: str, lines: list[str]) -> str:
    """Declarations as a header for C and C++, with what it was made from at its head."""
    # As it is written: `gemm` and `GEMM` are two.
    guard = f"MSLANG_{name}_H"
    head = [f"/* {_commented(about)} */", f"#ifndef {guard}", f"#define {guard}", ""]
    head += ["#include <stdbool.h>", "#include <stdint.h>", "", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    return "\n".join((*head, *lines, "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""))


def _size_macro(name: str, constant: str) -> str:
    return f"{name.upper()}_PACKED_{constant}"


def _packer_lines(name: str, p: Parameter, constant: str, made: Packer) -> list[str]:
    """The declaration of what packs a constant."""
    size, kind = _size_macro(name, constant), C_TYPES[p.dtype]
    packed = "packed" if constant != "packed" else "packed_"
    return [
        f"#define {size} {made.bytes} /* bytes */",
        "",
        "/*",
        f" * Packs {constant} for {name}, once for all calls. The packed array is for this library and this processor.",
        f" * {constant}: {_described(p)}",
        f" * {packed}: {size} bytes, written; best aligned to 64",
        " * Returns an mslang_status.",
        " */",
        f"int {made.function}(const {kind} *{constant}, {kind} *{packed});",
        "",
    ]


NO_TEXTS: Mapping[str, str] = MappingProxyType({})


def parameter_lines(signature: Signature, known: Mapping[str, str] = NO_TEXTS) -> list[str]:
    """What each parameter is, as lines of a comment, some described already."""
    names = c_names(signature)
    pairs = zip(signature.parameters, names, strict=False)
    lines = [f" * {n}: {known.get(p.name) or _described(p)}" for p, n in pairs]
    dynamic = zip(signature.dynamic, names[len(lines) :], strict=True)
    return lines + [f" * {n}: {_size(s)}" for s, n in dynamic]


def c_names(signature: Signature) -> tuple[str, ...]:
    """Names of the C parameters: arrays, then dynamic sizes."""
    found: list[str] = []
    for name in (*(p.name for p in signature.parameters), *(s.text for s in signature.dynamic)):
        plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
        plain = f"_{plain}" if not plain or plain[0].isdigit() else plain
        while plain in WORDS or _OWN.fullmatch(plain) or plain in found:
            plain += "_"
        found.append(plain)
    return tuple(found)


def _declared(p: Parameter, name: str) -> str:
    const = "const " if p.direction == "in" else ""
    return f"{const}{C_TYPES[p.dtype]} *{name}"


def _described(p: Parameter) -> str:
    shape = ", ".join(map(print_expr, p.given))
    use = {"in": "read", "out": "written", "inout": "read and written"}[p.direction]
    if p.strides is None:
        layout = "row-major"
    else:
        layout = f"strides of {', '.join(map(print_expr, p.strides))} elements"
    aligned = f", aligned to {p.align} bytes" if p.align > size_of(p.dtype) else ""
    within = ""
    if p.within is not None:
        order = " sorted along the last dimension" * p.within.sorted + " all different" * p.within.unique
        within = f"; values from {print_expr(p.within.low)} up to, not including, {print_expr(p.within.high)}{order}"
    return _commented(f"{p.dtype}[{shape}], {layout}, {use}{aligned}{within}")


def _size(s: Symbol) -> str:
    if not isinstance(s.domain, DynamicRange):
        return "a size"
    multiple = f", a multiple of {s.domain.multiple}" if s.domain.multiple > 1 else ""
    return f"from {s.domain.lo} to {s.domain.hi}{multiple}"


def _terms(targets: tuple[tuple[str, tuple[str, ...]], ...], parallel: bool) -> list[str]:
    lines = [
        "",
        "Pointers are aligned to their elements, or as stated; arrays that are written overlap no other array: both",
        "are checked, as are null pointers and sizes. Not checked: that arrays are as large as stated, and what",
        "values they hold.",
        "Several threads may call it concurrently. Workspace is allocated and freed by each call.",
        "Returns an mslang_status.",
        "",
    ]
    for name, features in targets:
        lines.append(f"Code for {name}" + (f", which needs {' '.join(features)}" if features else ""))
    lines += ["", "Link with -lm" + (" -pthread." if parallel else ".")]
    return _wrapped(lines)


def _wrapped(lines: list[str]) -> list[str]:
    import textwrap

    return [part for line in lines for part in (textwrap.wrap(line, 110, subsequent_indent="    ") or [""])]


def _commented(text: str) -> str:
    return text.replace("*/", "* /").replace("\n", " ")
