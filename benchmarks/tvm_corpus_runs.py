"""Functions of TVM's own tests, run here and by TVM: whether what is read computes the same.

python benchmarks/tvm_corpus_runs.py PATH/TO/tvm [--file PATTERN] [--names LIST] [--seconds 20] [-v]

Needs TVM. Each `prim_func` under `tests/python` that is read is parsed by TVM too, compiled there for the CPU, and
run on the same random arguments as the interpreter runs the program, in a process of its own. `--names` is a file
of lines `PATH:LINE`, the functions to take.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import re
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from tvm_corpus import TILES

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.interop.tvmscript.constants import is_program
from mslang.ir.expr import Const, Symbol
from mslang.ir.program import Param, Program

LARGEST = 1 << 16
"""Elements of a parameter: larger ones take the interpreter too long."""
SIZE = 5
"""The value of sizes that nothing else gives."""
HEAD = "from tvm.script import tirx as T\n\n"
NUMPY = {
    "bool": np.bool_,
    **{f"{k}{b}": np.dtype(f"{word}{b}") for k, word in (("i", "int"), ("u", "uint")) for b in (8, 16, 32, 64)},
    **{f"f{b}": np.dtype(f"float{b}") for b in (16, 32, 64)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--file", default="")
    parser.add_argument("--names", type=Path)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    wanted = set(options.names.read_text().split()) if options.names else None
    counts: Counter[str] = Counter()
    for file in sorted((options.checkout / "tests" / "python").rglob("*.py")):
        name = str(file.relative_to(options.checkout))
        if not re.search(options.file, name):
            continue
        for line, source in functions(file.read_text(errors="replace")):
            if wanted is not None and f"{name}:{line}" not in wanted:
                continue
            found = apart(source, options.seconds)
            counts[found.split(":")[0]] += 1
            if options.verbose or found.startswith("different"):
                print(f"{name}:{line} {found}", flush=True)
    for found, n in counts.most_common():
        print(n, found)


def functions(text: str) -> list[tuple[int, str]]:
    """The functions of a file outside of the tile dialect, each as a text of its own."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    marked = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and is_program(f)]
    return [
        (f.lineno, HEAD + ast.unparse(f)) for f in marked if not TILES.search(ast.get_source_segment(text, f) or "")
    ]


# ------------------------------------------------------------------ one function
def apart(source: str, seconds: float) -> str:
    """What comes of a function, in a process of its own."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    worker = context.Process(target=_worker, args=(source, there))
    worker.start()
    there.close()
    try:
        return str(here.recv()) if here.poll(seconds) else "takes too long"
    except EOFError:
        return "TVM crashes"
    finally:
        worker.kill()
        worker.join()


def _worker(source: str, to: Connection) -> None:
    try:
        to.send(compared(source))
    except Exception as e:  # noqa: BLE001 (the last word of a worker, whatever happened)
        to.send(f"fails: {type(e).__name__} {str(e)[:200]}")


def compared(source: str) -> str:
    """Run a function on both sides; the class of the outcome, and details."""
    found = tvmscript.read(source)
    if found.diagnostics or len(found.functions) != 1:
        return "not read by itself"
    p = found.functions[0].program
    f = next(f for f in ast.walk(ast.parse(source)) if isinstance(f, ast.FunctionDef) and is_program(f))
    sizes = {s.name: SIZE for s in p.dynamic if isinstance(s, Symbol)}
    if any(_elements(q, sizes) > LARGEST or q.buffer.dtype not in NUMPY for q in p.params):
        return "too large, or of a type that NumPy lacks"
    if not any(q.direction != "in" for q in p.params):
        return "computes nothing"
    try:
        function = _compiled(source)
    except Exception as e:  # noqa: BLE001 (TVM raises anything)
        return f"TVM refuses: {type(e).__name__} {str(e).strip()[-150:]}"
    arrays = _arrays(p, sizes)
    given = {q.buffer.name: arrays[q.buffer.name] for q in p.params if q.direction != "out"}
    try:
        ours = run(p, given, sizes=sizes)
    except MsError as error:
        return f"refused by the interpreter: {error.diagnostic.code} {error.diagnostic.message}"
    return _same(p, f, function, arrays, sizes, ours)


def _compiled(source: str) -> Any:
    import tvm
    from tvm.script import tirx as T  # noqa: N812 (its name in scripts)

    made = tvm.script.from_source(source.removeprefix(HEAD), extra_vars={"T": T, "tvm": tvm})
    return tvm.compile(made.with_attr("global_symbol", "main"), target="llvm")


def _same(
    p: Program, f: ast.FunctionDef, function: Any, arrays: dict[str, Any], sizes: dict[str, int], ours: dict[str, Any]
) -> str:
    import tvm

    unused = {k for k, _ in dict(p.annotations).get("tvm.unused_pointers", ())}  # type: ignore[misc, union-attr]
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
