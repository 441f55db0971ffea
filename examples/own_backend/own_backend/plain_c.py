"""Plain C as a back end: the lowered program as text, compiled by the C compiler of the system."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec

import mslang as ms
from mslang.diagnostics import MsError, TargetError, problem
from mslang.ir.expr import Binary, Cast, Const, Expr, Load, Select, Symbol, Unary, Var, dtype_of
from mslang.ir.intrin import PLACEHOLDER
from mslang.ir.program import Buffer
from mslang.kernel.nodes import Allocate, Body, For, If, Invoke, Let, Module, Stmt, Store, Within
from mslang.lower.layout import row_major
from mslang.runtime.function_kernel import FunctionKernel
from mslang.runtime.signature import Parameter, Signature
from mslang.target.description import Target

TYPES = {"f32": "float", "f64": "double", "bool": "_Bool", "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t"}

PRELUDE = """#include <stdint.h>
static int64_t floordiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static int64_t floormod(int64_t a, int64_t b) { return a - floordiv(a, b) * b; }
"""


class CSource(msgspec.Struct, frozen=True):
    """The executable: a text and what it takes. It is compiled where it is loaded."""

    text: str
    signature: Signature


class Printer:
    """Prints a module; `buffers` are those in scope, by name. `native`: texts of `impl c` are trusted."""

    def __init__(self, module: Module, native: bool) -> None:
        self.module, self.native = module, native
        self.buffers: dict[str, Buffer] = {p.buffer.name: p.buffer for p in module.params}

    def text(self) -> str:
        """The whole source."""
        params = [f"{TYPES[p.buffer.dtype]} *restrict {c(p.buffer.name)}" for p in self.module.params]
        params += [f"int64_t {c(s.text)}" for s in self.module.dynamic]
        return f"{PRELUDE}void kernel({', '.join(params)}) {{\n{self.body(self.module.body)}}}\n"

    def body(self, statements: Body) -> str:
        """Statements in order."""
        return "".join(map(self.statement, statements))

    def statement(self, s: Stmt) -> str:
        """One statement; loops of every kind run in order."""
        match s:
            case Store(buffer=name, indices=indices, value=value, mask=None):
                return f"{self.element(name, indices)} = {self.value(value)};\n"
            case For(var=v, start=start, extent=extent, body=body):
                first, count, i = self.value(start), self.value(extent), c(v)
                return (
                    f"for (int64_t {i} = {first}, e_{i} = {i} + {count}; {i} < e_{i}; {i}++) {{\n{self.body(body)}}}\n"
                )
            case If(condition=condition, then=then, otherwise=otherwise):
                return f"if ({self.value(condition)}) {{\n{self.body(then)}}} else {{\n{self.body(otherwise)}}}\n"
            case Let(name=name, value=value, body=body):
                kind = TYPES[dtype_of(value)]
                return f"{{ {kind} {c(name)} = {self.value(value)};\n{self.body(body)}}}\n"
            case Allocate(buffer=b, body=body):
                self.buffers[b.name] = b
                size = " * ".join(f"({self.value(e)})" for e in b.shape) or "1"
                return f"{{ {TYPES[b.dtype]} {c(b.name)}[{size}];\n{self.body(body)}}}\n"
            case Within(body=body):
                return self.body(body)
            case Invoke():
                return self.instruction(s)
        raise unsupported(s)

    def instruction(self, s: Invoke) -> str:
        """The text of an `impl c`, in which `{x}` is the address of the operand's first element."""
        if not self.native:
            raise MsError(problem("MS422", f"the C text of `{s.name}` may do anything", help="allow native code"))
        addresses = {p.name: f"(&{self.value(e)})" for p, e in zip(s.params, s.operands, strict=True)}
        return PLACEHOLDER.sub(lambda found: addresses[found[1]], s.text) + "\n"

    def element(self, name: str, indices: tuple[Expr, ...]) -> str:
        """An element of a buffer."""
        b = self.buffers[name]
        strides = b.strides or row_major(b.shape)
        terms = [f"({self.value(i)}) * ({self.value(n)})" for i, n in zip(indices, strides, strict=True)]
        return f"{c(name)}[{' + '.join(terms) or '0'}]"

    def value(self, e: Expr) -> str:
        """An expression."""
        match e:
            case Const(value=v, dtype=dtype):
                return f"({TYPES[dtype]}){v!r}" if dtype != "bool" else str(int(v))
            case Var(name=name) | Symbol(name=name):
                return c(name)
            case Load(buffer=name, indices=indices):
                return self.element(name, indices)
            case Binary(op="//" | "%" as op, left=a, right=b):
                return f"floor{'div' if op == '//' else 'mod'}({self.value(a)}, {self.value(b)})"
            case Binary(op="min" | "max" as op, left=a, right=b):
                x, y = self.value(a), self.value(b)
                return f"({x} {'<' if op == 'min' else '>'} {y} ? {x} : {y})"
            case Binary(op=op, left=a, right=b):
                return f"({self.value(a)} { ({'and': '&&', 'or': '||'}.get(op, op)) } {self.value(b)})"
            case Unary(op=op, operand=x):
                return f"({'!' if op == 'not' else '-'}{self.value(x)})"
            case Select(condition=x, then=a, otherwise=b):
                return f"({self.value(x)} ? {self.value(a)} : {self.value(b)})"
            case Cast(dtype=dtype, operand=x):
                return f"(({TYPES[dtype]}){self.value(x)})"
        raise unsupported(e)


def c(name: str) -> str:
    """A name as a C identifier."""
    return "v_" + "".join(x if x.isalnum() else f"_{ord(x)}_" for x in name)


def unsupported(node: Stmt | Expr) -> MsError:
    """What is said of a node that is not printed."""
    return MsError(problem("MS441", f"the plain C back end has no {type(node).__name__}"))


def printed(module: Module, target: Target, options: ms.Options) -> CSource:
    """The module in C."""
    if module.checked:
        raise MsError(problem("MS441", "the plain C back end does not check accesses", help="leave out `checked`"))
    signature = Signature(module.name, tuple(map(Parameter.of, module.params)), module.dynamic)
    return CSource(Printer(module, options.allow_native).text(), signature)


def loaded(source: CSource) -> FunctionKernel:
    """The text, compiled, as a function of this process."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise TargetError(problem("MS453", "there is no C compiler", help="install one"))
    with tempfile.TemporaryDirectory() as folder:
        text, library = Path(folder, "kernel.c"), Path(folder, "kernel.so")
        text.write_text(source.text)
        words = [compiler, "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(library), str(text)]
        subprocess.run(words, check=True)
        kernel = ctypes.CDLL(str(library)).kernel

    def function(arrays, sizes) -> None:
        pointers = [ctypes.c_void_p(arrays[p.name].ctypes.data) for p in source.signature.parameters]
        kernel(*pointers, *(ctypes.c_int64(sizes[s.text]) for s in source.signature.dynamic))

    return FunctionKernel(source.signature, function)


def version() -> str:
    """What compiles: times of other compilers are not compared with it."""
    return "plain C 1"


def text_of(source: CSource) -> str:
    """The stage `c`."""
    return source.text


PLAIN_C = ms.BackEnd("c", (), printed, loaded, version, stages=(ms.Stage("c", "the C source", text_of),))
"""The back end: it is used where it is named."""
