"""Programs compiled and run, for the tests of lowering and of the LLVM back end."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from mslang.backend.llvm.compile import Executable, compile
from mslang.backend.registry import serving
from mslang.ir.build import ProgramBuilder, spatial
from mslang.ir.operators import Value, call
from mslang.ir.program import Program
from mslang.lower import lower
from mslang.runtime.kernel import LoadedKernel, load
from mslang.target.description import Target
from mslang.target.detect import host


def executable(program: Program, target: Target | None = None, checked: bool = False) -> Executable:
    target = target or host()
    return compile(lower(program, target, checked=checked), target)


def loaded(program: Program, target: Target | None = None, checked: bool = False) -> LoadedKernel:
    """Lowered for a target; the code is for this machine where it cannot run the target's."""
    target = target or host()
    runs = serving(target).unavailable(target) is None
    made = compile(lower(program, target, checked=checked), target if runs else host())
    return load(made.object, made.signature)


def run(program: Program, *arrays: Any, target: Target | None = None, checked: bool = False) -> Any:
    return loaded(program, target, checked)(*arrays)


def function_of_one(name: str, count: int, dtype: str = "f32", kind: str = "vectorized") -> Program:
    """`Y[i] = name(X[i])`."""
    b = ProgramBuilder("apply")
    x, y = b.input("X", (count,), dtype), b.output("Y", (count,), dtype)
    with b.loop("i0", count, kind=kind) as i0, b.block("y", spatial("i", count, at=i0)) as (i,):
        y[i] = call(name, x[i])
    return b.finish()


def function_of_two(name: str, count: int, dtype: str = "f32") -> Program:
    """`Y[i] = name(X[i], Z[i])`."""
    b = ProgramBuilder("apply")
    x, z, y = b.input("X", (count,), dtype), b.input("Z", (count,), dtype), b.output("Y", (count,), dtype)
    with b.loop("i0", count, kind="vectorized") as i0, b.block("y", spatial("i", count, at=i0)) as (i,):
        y[i] = call(name, x[i], z[i])
    return b.finish()


def binary_program(op: Any, count: int, dtype: str, kind: str = "vectorized") -> Program:
    """`Y[i] = op(X[i], Z[i])`; op takes and gives `Value`s."""
    b = ProgramBuilder("apply")
    x, z, y = b.input("X", (count,), dtype), b.input("Z", (count,), dtype), b.output("Y", (count,), dtype)
    with b.loop("i0", count, kind=kind) as i0, b.block("y", spatial("i", count, at=i0)) as (i,):
        result: Value = op(x[i], z[i])
        y[i] = result
    return b.finish()


def printed_alone(script: str) -> str:
    """What a script prints in a process of its own, which must end well."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
