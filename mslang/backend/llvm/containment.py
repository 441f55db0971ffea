"""What the LLVM text of an implementation may do: compute, on its operands, with LLVM's intrinsics.

A file may come from anywhere, and running a candidate runs its implementations. Each text is therefore parsed by LLVM
in a function of its own, and what LLVM understood is inspected: no calls but of intrinsics that compute, no inline
assembly, no symbols, no addresses made of integers or taken from memory, no way out of the function.

This keeps a text from calling into the process. It is not a sandbox: machine code that computes a wrong address can
still overwrite memory.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from mslang.backend.llvm.function import Declarations, FunctionWriter
from mslang.backend.llvm.instruction import put, unknown
from mslang.diagnostics import MsError, problem
from mslang.kernel.nodes import Body, Invoke
from mslang.kernel.visit import walk
from mslang.runtime.llvm_lock import ONE_AT_A_TIME

_PROBE = "mslang.probe"

_INTRINSIC = re.compile(
    r"llvm\.(?:"
    # Integers, floating-point numbers, vectors, memory.
    r"(?:abs|[su](?:min|max)|[su](?:add|sub|shl)\.sat|[su](?:add|sub|mul)\.with\.overflow|[su](?:mul|div)\.fix(?:\.sat)?"
    r"|[su]cmp|ctpop|ctlz|cttz|fsh[lr]|bswap|bitreverse"
    r"|fma|fmuladd|fabs|sqrt|pow|powi|exp|exp2|exp10|log|log2|log10|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh"
    r"|sincos|sincospi|modf|ldexp|frexp|floor|ceil|trunc|rint|nearbyint|round|roundeven|l?lround|l?lrint|copysign"
    r"|canonicalize|minnum|maxnum|minimum|maximum|minimumnum|maximumnum|is\.fpclass|fptrunc\.round|fpto[su]i\.sat"
    r"|arithmetic\.fence|convert\.(?:to|from)\.fp16"
    r"|vector|matrix|vp|stepvector|get\.active\.lane\.mask|experimental\.(?:vector|get\.vector\.length|cttz)"
    r"|masked|memcpy|memmove|memset|prefetch|lifetime|assume|expect|vscale)"
    # Vector instructions of processors.
    r"|x86\.(?:sse|sse2|sse3|ssse3|sse41|sse42|sse4a|avx|avx2|avx512|avx512bf16|avx512fp16|avx10|fma|xop|tbm|bmi|addcarry"
    r"|subborrow|aesni|vpclmulqdq|pclmulqdq|sha|vcvtps2ph|vcvtph2ps|vgf2p8\w*|avxneconvert\w*|v\w+"
    r"|tile\w*|tdp\w*|tcmm\w*|ldtilecfg|sttilecfg|cast\.vector\.to\.tile|cast\.tile\.to\.vector)"
    r"|aarch64\.(?:neon|sve|sme|crc32\w*|crypto)|arm\.(?:neon|mve)|riscv|ppc\.(?:altivec|vsx|mma)|s390\.v\w*"
    r"|loongarch\.l(?:sx|asx)|wasm)(?:\.|$)"
)
"""Names of intrinsics that compute; none of these takes code, or reads registers, the stack or the system's state."""

_OPCODES = frozenset(
    (
        *("fneg", "add", "fadd", "sub", "fsub", "mul", "fmul", "udiv", "sdiv", "fdiv", "urem", "srem", "frem"),
        *("shl", "lshr", "ashr", "and", "or", "xor", "icmp", "fcmp", "phi", "select", "freeze", "bitcast"),
        *("trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "uitofp", "fptosi", "sitofp"),
        *("extractelement", "insertelement", "shufflevector", "extractvalue", "insertvalue"),
        *("alloca", "load", "store", "fence", "atomicrmw", "cmpxchg", "getelementptr", "call", "br", "switch", "ret"),
    )
)
_POINTERS = frozenset(
    ("getelementptr", "phi", "select", "alloca", "freeze", "extractelement", "insertelement", "shufflevector")
)
"""Instructions that may have pointers as their result: they make none but from pointers."""

_HARMLESS = frozenset(
    (
        *("argument", "basic_block", "instruction", "constant_int", "constant_fp", "constant_pointer_null"),
        *("constant_vector", "constant_array", "constant_struct", "constant_data_vector", "constant_data_array"),
        *("constant_aggregate_zero", "undef_value", "poison_value", "metadata_as_value"),
    )
)
"""Kinds of operands: values, numbers and labels."""

_WORDS = re.compile(r"\b(?:inttoptr|ptrtoint|ptrtoaddr|addrspacecast|addrspace|blockaddress|dso_local_equivalent)\b")


def require_contained(body: Body) -> None:
    """Check every implementation of a kernel.

    Raises:
        MsError: MS422, a text does what it may not; MS423, LLVM does not understand it; MS419, it names what it does
            not have.
    """
    for s in walk(body):
        if isinstance(s, Invoke):
            why = _why_not_contained(s.name, s.text, tuple((p.name, r) for p, r in zip(s.params, s.ranks, strict=True)))
            if why is not None:
                raise MsError(
                    problem(
                        "MS422",
                        f"the implementation of `{s.name}` may only compute with LLVM's intrinsics",
                        why=why,
                        help="if you trust the file, allow native code: `--allow-native`, or `allow_native = True`",
                    )
                )


@lru_cache(maxsize=256)
def _why_not_contained(name: str, text: str, operands: tuple[tuple[str, int], ...]) -> str | None:
    """What a text does that it may not, or None."""
    import llvmlite.binding as llvm

    probe = _probe(name, text, operands)
    with ONE_AT_A_TIME:
        try:
            module = llvm.parse_assembly(probe)
            module.verify()
        except RuntimeError as error:
            raise MsError(
                problem(
                    "MS423",
                    f"LLVM does not understand the implementation of `{name}`",
                    why=" ".join(str(error).split()),
                )
            ) from error
        return _why_not(module)


def _probe(name: str, text: str, operands: tuple[tuple[str, int], ...]) -> str:
    """A module with a function that is the text."""
    ranks = dict(operands)
    pointers = {param: f"%o{k}" for k, param in enumerate(ranks)}
    strides = {(param, d): f"%n{k}.{d}" for k, (param, rank) in enumerate(operands) for d in range(rank)}

    def operand(param: str, dimension: int | None) -> str:
        found = pointers.get(param) if dimension is None else strides.get((param, dimension))
        if found is None:
            raise unknown(
                name, f"the operand `{param}`" if param not in ranks else f"dimension {dimension} of `{param}`"
            )
        return found

    declarations = Declarations()
    params = (*(f"ptr {x}" for x in pointers.values()), *(f"i64 {x}" for x in strides.values()))
    fn = FunctionWriter(_PROBE, params, declarations)
    put(fn, name, text, operand)
    fn.do("ret i32 0")
    return "\n".join((fn.text, *declarations.lines, "attributes #0 = { nounwind }", ""))


def _why_not(module: Any) -> str | None:
    defined = [f for f in module.functions if not f.is_declaration]
    if [f.name for f in defined] != [_PROBE]:
        return "it defines functions"
    stray = _outside_functions(str(module))
    if stray is not None:
        return f"it holds more than instructions: `{stray}`"
    for f in module.functions:
        if f.is_declaration and not _INTRINSIC.match(f.name):
            return f"it declares `{f.name}`"
    returns = 0
    for block in defined[0].blocks:
        for i in block.instructions:
            why = _why_not_instruction(i)
            if why is not None:
                return why
            returns += i.opcode == "ret"
    return "it leaves the kernel: `ret`" if returns != 1 else None


def _why_not_instruction(i: Any) -> str | None:
    from llvmlite.binding import ValueKind

    shown = " ".join(str(i).split())
    kinds = [x.value_kind for x in i.operands]
    if i.opcode == "call":
        callee = kinds.pop()
        if callee == ValueKind.inline_asm:
            return "it holds inline assembly"
        if callee != ValueKind.function:
            return f"it calls an address: `{shown}`"
    if i.opcode not in _OPCODES:
        return f"it holds `{shown}`"
    if "ptr" in str(i.type) and i.opcode not in _POINTERS:
        return f"it takes an address from elsewhere than its operands: `{shown}`"
    if not _HARMLESS.issuperset(k.name for k in kinds) or _WORDS.search(shown):
        return f"it holds `{shown}`"
    return None


def _outside_functions(text: str) -> str | None:
    """A line of a printed module that is not part of a function, a declaration or an attribute; None if there is none.

    LLVM prints each on a line of its own, whatever the text looked like.
    """
    inside = False
    for line in text.split("\n"):
        if inside:
            inside = line != "}"
        elif line.startswith("define "):
            inside = True
        elif line and not line.startswith(("declare ", "attributes #", "; ", "source_filename", "target ", "!")):
            return line
    return None
