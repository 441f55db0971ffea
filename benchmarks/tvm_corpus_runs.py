"""Functions of TVM's own tests, run here and by TVM: whether what is read computes the same.

python benchmarks/tvm_corpus_runs.py PATH/TO/tvm [--file PATTERN] [--log FILE] [--seconds 20] [--memory 4] [--update]

Needs TVM. Each `prim_func` under `tests/python` that is read, with the first values that its file gives to names from
outside of it, is compiled by TVM for the CPU, and run there and here on the same random arguments: small ones by the
interpreter, others compiled. Loops bound to threads are run one iteration after the other, on both sides. Each function
has a process of its own, with limits of time and memory. `--log` keeps the outcomes, so that a run that was stopped
goes on, and several can share the work.
"""

from __future__ import annotations

import argparse
import ast
import math
import multiprocessing
import re
import resource
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import ml_dtypes
import msgspec
import numpy as np
import tvm
from common import ROOT, conditions, table
from tvm.script import tirx
from tvm_corpus import TILES

import mslang as ms
from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.interop.tvmscript.constants import aliases_of, is_program
from mslang.interop.tvmscript.expressions import Expressions
from mslang.interop.tvmscript.instances import Instances
from mslang.interop.tvmscript.read import programs_in
from mslang.interop.tvmscript.scope import Value
from mslang.interop.tvmscript.values import Number
from mslang.ir import visit
from mslang.ir.expr import Const, Symbol
from mslang.ir.program import For, Param, Program

LARGEST = 1 << 24
"""Elements of a parameter."""
INTERPRETED = 1 << 15
"""Iterations, and elements of a parameter, above which the program is compiled."""
SIZE = 5
"""The value of sizes that nothing else gives."""
NUMPY: Mapping[str, Any] = {
    "bool": np.bool_,
    **{f"{k}{b}": np.dtype(f"{word}{b}") for k, word in (("i", "int"), ("u", "uint")) for b in (8, 16, 32, 64)},
    **{f"f{b}": np.dtype(f"float{b}") for b in (16, 32, 64)},
    "bf16": np.dtype(ml_dtypes.bfloat16),
}
PAGE = ROOT / "docs" / "tvm.md"
BEGIN, END = "<!-- runs: begin -->", "<!-- runs: end -->"


class Script(msgspec.Struct, frozen=True):
    """A function as a text of its own, with the values of the names that it takes from outside."""

    line: int
    text: str
    values: Mapping[str, Any]
    aliases: frozenset[str]

    @property
    def read(self) -> str:
        """The text as it is read here."""
        head = [f"from tvm.script import tirx as {a}" for a in sorted(self.aliases)]
        return "\n".join([*head, *(f"{n} = {v!r}" for n, v in self.values.items()), self.text])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--file", default="")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--memory", type=float, default=4, help="of a process, in GiB")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    known: dict[str, str] = {}
    if options.log and options.log.exists():
        known = dict(line.split(" ", 1) for line in options.log.read_text().splitlines())
    for file in sorted((options.checkout / "tests" / "python").rglob("*.py")):
        name = str(file.relative_to(options.checkout))
        if not re.search(options.file, name):
            continue
        for script in scripts(file.read_text(errors="replace")):
            at = f"{name}:{script.line}"
            if at in known:
                continue
            known[at] = " ".join(apart(script, options.seconds, int(options.memory * 2**30)).split())
            if options.log:
                with options.log.open("a") as log:
                    log.write(f"{at} {known[at]}\n")
            if options.verbose or known[at].startswith("different"):
                print(f"{at} {known[at]}", flush=True)
    text = summary(known.values())
    print(text)
    if options.update:
        whole = PAGE.read_text()
        PAGE.write_text(f"{whole[: whole.index(BEGIN)]}{BEGIN}\n{text}\n{whole[whole.index(END) :]}")


def summary(found: Iterable[str]) -> str:
    """The table for the page."""
    counts = Counter(x.split(":")[0] for x in found)
    return f"{table(('outcome', 'functions'), counts.most_common())}\n\n{conditions('apache-tvm', 'numpy')}"


# ------------------------------------------------------------------ the functions of a file
def scripts(text: str) -> Iterator[Script]:
    """The functions of a file outside of the tile dialect, each with the first values that the file gives it."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    aliases = aliases_of(tree)
    read = Expressions(aliases, ())
    seen: set[int] = set()
    for f, names in programs_in(tree.body, {}, read, Instances(tree, read), ()):
        if f.lineno in seen or TILES.search(ast.get_source_segment(text, f) or ""):
            continue
        seen.add(f.lineno)
        used = {x.id for x in ast.walk(f) if isinstance(x, ast.Name)}
        values = {n: v for n in sorted(used & names.keys()) if (v := literal(names[n])) is not None}
        yield Script(f.lineno, ast.unparse(InTurn().visit(f)), values, aliases)


def literal(value: Value) -> Any:
    """A number, a text, or a tuple of them, as Python has it; None for all else."""
    match value:
        case Number(expr=Const(value=v)):
            return v
        case str():
            return value
        case tuple():
            every = tuple(map(literal, value))
            return None if None in every else every
    return None


class InTurn(ast.NodeTransformer):
    """Loops bound to threads as serial ones."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "thread_binding":
            given = [*node.args, *(k.value for k in node.keywords if k.arg in ("start", "stop"))]
            given = [x for x in given if not (isinstance(x, ast.Constant) and isinstance(x.value, str))]
            kept = [k for k in node.keywords if k.arg == "annotations"]
            return ast.Call(ast.Attribute(node.func.value, "serial", ast.Load()), given, kept)
        return node


# ------------------------------------------------------------------ one function
def apart(script: Script, seconds: float, memory: int) -> str:
    """What comes of a function, in a process of its own."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    worker = context.Process(target=_worker, args=(script, memory, there))
    worker.start()
    there.close()
    found, end = "takes too long", time.monotonic() + seconds
    try:
        while here.poll(max(0.0, end - time.monotonic())):
            found = str(here.recv())
    except EOFError:
        return "the process dies" if found == "takes too long" else found
    finally:
        worker.kill()
        worker.join()
    return found


def _worker(script: Script, memory: int, to: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        for found in compared(script):
            to.send(found)
    except MemoryError:
        to.send("takes too much memory")
    except Exception as e:  # noqa: BLE001 (the last word of a worker, whatever happened)
        to.send(f"fails: {type(e).__name__} {str(e)[:200]}")
    to.close()


def compared(script: Script) -> Iterator[str]:
    """Run a function on both sides; the class of the outcome, and details. The last one holds: where what was compiled
    gave something else, the interpreter says whether the program reads what nobody wrote."""
    found = tvmscript.read(script.read)
    if found.diagnostics or len(found.functions) != 1:
        why = "" if not found.diagnostics else f": {found.diagnostics[0].code} {found.diagnostics[0].message}"
        yield f"not read by itself{why}"
        return
    p = found.functions[0].program
    f = next(f for f in ast.walk(ast.parse(script.text)) if isinstance(f, ast.FunctionDef) and is_program(f))
    sizes = {s.name: SIZE for s in p.dynamic if isinstance(s, Symbol)}
    if not any(q.direction != "in" for q in p.params):
        yield "computes nothing"
        return
    if any(_elements(q, sizes) > LARGEST or q.buffer.dtype not in NUMPY for q in p.params):
        yield "too large, or of a type that NumPy lacks"
        return
    try:
        function = _compiled(script)
    except Exception as e:  # noqa: BLE001 (TVM raises anything)
        yield f"TVM refuses: {type(e).__name__} {str(e).strip()[-150:]}"
        return
    arrays = _arrays(p, sizes)
    work = max(*(_iterations(q, sizes) for q in visit.walk_paths(p.body)), *(_elements(q, sizes) for q in p.params))
    try:
        if work > INTERPRETED:
            yield (outcome := _same(p, f, function, arrays, sizes, _kernel(p, arrays)))
            if not outcome.startswith("different"):
                return
        yield _same(p, f, function, arrays, sizes, _interpreted(p, arrays, sizes))
    except MsError as error:
        yield f"refused here: {error.diagnostic.code} {error.diagnostic.message}"


def _compiled(script: Script) -> Any:
    names = {"tvm": tvm, "T": tirx, **dict.fromkeys(script.aliases, tirx), **script.values}
    made = tvm.script.from_source(script.text, extra_vars=names)
    return tvm.compile(made.with_attr("global_symbol", "main"), target="llvm")


def _interpreted(p: Program, arrays: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    return run(p, {q.buffer.name: _bits(arrays[q.buffer.name]) for q in p.params if q.direction != "out"}, sizes=sizes)


def _kernel(p: Program, arrays: dict[str, Any]) -> dict[str, Any]:
    """What the compiled program makes of the arrays; sizes are those of the arrays."""
    mine = {n: _bits(a.copy()) for n, a in arrays.items()}
    ms.build(p)(*mine.values())
    outputs = [q.buffer for q in p.params if q.direction != "in"]
    return {b.name: mine[b.name].view(NUMPY[b.dtype]) for b in outputs}


def _bits(array: Any) -> Any:
    """An array of bf16 as its bits, as kernels take it."""
    return array.view(np.uint16) if array.dtype == NUMPY["bf16"] else array


def _iterations(path: visit.Path, sizes: dict[str, int]) -> int:
    """About how often the end of a path runs; extents that are not sizes count as 1."""
    extents = (_size(s.extent, sizes) for s in path if isinstance(s, For))
    return math.prod(n for n in extents if n <= LARGEST)


def _same(
    p: Program, f: ast.FunctionDef, function: Any, arrays: dict[str, Any], sizes: dict[str, int], ours: dict[str, Any]
) -> str:
    pointers: Any = dict(p.annotations).get("tvm.unused_pointers", ())
    unused = {name for name, _ in pointers}
    waiting = [q for q in p.params if not (f.returns is not None and q is p.params[-1] and q.buffer.name == "result")]
    tensors: dict[str, Any] = {}
    arguments: list[Any] = []
    for k, a in enumerate(f.args.args):
        kind = "" if a.annotation is None else ast.unparse(a.annotation).strip("'\"")
        scalar = re.fullmatch(r"T\.(u?int|float|bool)\w*", kind) is not None
        if k in unused:
            arguments.append(None)
        elif scalar and a.arg in sizes:
            arguments.append(sizes[a.arg])
        elif scalar:
            arguments.append(arrays[waiting.pop(0).buffer.name].item())
        else:
            q = waiting.pop(0)
            tensors[q.buffer.name] = tvm.runtime.tensor(arrays[q.buffer.name])
            arguments.append(tensors[q.buffer.name])
    try:
        returned = function(*arguments)
    except Exception as e:  # noqa: BLE001 (TVM raises anything)
        return f"TVM does not run it: {type(e).__name__} {str(e).strip()[-150:]}"
    for name, wanted in ours.items():
        got = np.array(returned) if name not in tensors else tensors[name].numpy()
        if not np.allclose(
            got.astype(np.float64), np.asarray(wanted, np.float64), rtol=1e-3, atol=1e-4, equal_nan=True
        ):
            return f"different: {name}"
    return "same"


def _elements(q: Param, sizes: dict[str, int]) -> int:
    return int(np.prod([_size(n, sizes) for n in q.buffer.shape], dtype=np.int64))


def _size(n: Any, sizes: dict[str, int]) -> int:
    match n:
        case Const(value=v):
            return int(v)
        case Symbol(name=name):
            return sizes[name]
    return LARGEST + 1


def _arrays(p: Program, sizes: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for q in p.params:
        shape = tuple(_size(n, sizes) for n in q.buffer.shape)
        kind = NUMPY[q.buffer.dtype]
        drawn = rng.integers(0, 2 if q.buffer.dtype == "bool" else 4, shape)
        found[q.buffer.name] = np.asarray(drawn).astype(kind)
    return found


if __name__ == "__main__":
    main()
