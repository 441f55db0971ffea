"""Stand-ins for what TVM's test files import."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.tvm_suite.arguments import dtype_of
from benchmarks.tvm_suite.comparing import Verdicts
from benchmarks.tvm_suite.intrinsics import Intrinsics
from benchmarks.tvm_suite.macros import called
from benchmarks.tvm_suite.nodes import Node, Outside, Part, Result, function
from benchmarks.tvm_suite.nodes import Parameter as Given
from benchmarks.tvm_suite.reading import NotPortable, Script, Whatever
from benchmarks.tvm_suite.schedule import TvmSchedule
from benchmarks.tvm_suite.traces import Instruction, InstructionKind, LoopRV, SBlockRV, Trace
from mslang.diagnostics import MsError
from mslang.ir.expr import Const

MAKERS = ("te", "topi")
"""Modules of TVM that make programs: they are its own where it is installed."""


class Parameter:
    """A parameter of tests: the values that it takes."""

    def __init__(self, *values: Any, by_dict: dict[str, Any] | None = None, ids: Any = None) -> None:
        self.values = list(by_dict.values()) if by_dict is not None else list(values)


class Names:
    """A module or class of TVM: only what is given is there."""

    def __init__(self, **there: Any) -> None:
        self.__dict__.update(there)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _missing(name)


def _missing(name: str) -> Any:
    class Missing:
        def __call__(self, *args: object, **named: object) -> Any:
            raise NotPortable(name)

        def __getattr__(self, inner: str) -> Any:
            if inner.startswith("__"):
                raise AttributeError(inner)
            return _missing(f"{name}.{inner}")

        def __mro_entries__(self, bases: object) -> tuple[type, ...]:
            return (object,)

    return Missing()


class StandIns:
    """What the names of a test file mean, and where what the test says is judged."""

    def __init__(self, verdicts: Verdicts, library: Path) -> None:
        self.verdicts = verdicts
        self.intrinsics = Intrinsics(library)
        self.made: list[TvmSchedule] = []

    def named(self, name: str) -> Any:
        """The stand-in for an imported name."""
        schedule = partial(TvmSchedule, intrinsics=self.intrinsics, made=self.made)
        inner = Names(ScheduleError=MsError, Schedule=schedule, schedule=Names(ScheduleError=MsError))
        s_tir = Names(Schedule=schedule, ScheduleError=MsError, schedule=inner)
        tirx = Names(
            IntImm=_number,
            FloatImm=_number,
            TensorIntrin=self.intrinsics,
            decl_buffer=Outside,
            Cast=partial(called, "Cast"),
            const=lambda value, dtype: _number(dtype, value),
            PrimFunc=function,
            is_buffer_var=_is_buffer,
        )
        there: dict[str, Any] = {
            "tvm": Names(
                s_tir=s_tir,
                tir=tirx,
                tirx=tirx,
                ir=Names(assert_structural_equal=self.equal),
                testing=Names(parameter=Parameter, main=lambda: None),
                IRModule=_module,
                TVMError=MsError,
            ),
            "s_tir": s_tir,
            "tir": tirx,
            "tirx": tirx,
            "pytest": Names(raises=self.raises, mark=Names(parametrize=_parametrize), fixture=_missing("fixture")),
            "assert_structural_equal_ignore_global_symbol": self.equal,
            "verify_trace_roundtrip": lambda *args, **named: None,
            "assert_structural_equal": self.equal,
            "SBlockRV": SBlockRV,
            "LoopRV": LoopRV,
            "Instruction": Instruction,
            "InstructionKind": InstructionKind,
            "Trace": Trace,
            "tile_with_tensor_intrin": _tiled,
            "ScheduleError": MsError,
            "IntImm": _number,
            "Schedule": schedule,
        }
        if name in MAKERS:
            with contextlib.suppress(ModuleNotFoundError):
                return import_module(f"tvm.{name}")
        if name.endswith("_INTRIN"):
            return self.intrinsics.constant(name)
        return there.get(name, Names() if name in ("T", "I", "R") else _missing(name))

    def equal(self, left: Any, right: Any, *more: object, **options: object) -> None:
        """Two programs are the same."""
        if isinstance(left, Node) and isinstance(right, Node):
            self.verdicts.same_form += left == right
            self.verdicts.different += left != right
            return
        sides = [x.program if isinstance(x, Script | Result | Part) else x for x in (left, right)]
        if any(isinstance(x, Whatever) or not hasattr(x, "params") for x in sides):
            raise NotPortable("a part of TVM's tree is compared")
        ours = sides[0] if isinstance(left, Result | Part) else sides[1]
        theirs = sides[1] if isinstance(left, Result | Part) else sides[0]
        self.verdicts.compare(theirs, ours)

    @contextlib.contextmanager
    def raises(self, *errors: Any, **options: object) -> Iterator[Whatever]:
        """Something must be refused."""
        try:
            yield Whatever()
        except MsError:
            self.verdicts.refusals += 1
            return
        except (AttributeError, IndexError, KeyError, ValueError):
            self.verdicts.refusals += 1
            return
        self.verdicts.accept(self.made[-1].first, self.made[-1].own.program)


def _tiled(sch: TvmSchedule, block: Any, intrin_name: str, allow_padding: bool = False) -> Any:
    return sch.tiled(block, intrin_name)


def _is_buffer(param: object) -> bool:
    return isinstance(param, Given)


def _number(dtype: str, value: Any) -> Const:
    return Const(value, dtype_of(dtype))


def _module(functions: dict[str, Any]) -> Any:
    return next(iter(functions.values()))


def _parametrize(names: str | list[str], values: list[Any], **options: object) -> Any:
    listed = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)

    def mark(test: Any) -> Any:
        first = values[0] if len(listed) > 1 else [values[0]]
        test.given = getattr(test, "given", {}) | dict(zip(listed, first, strict=True))
        return test

    return mark
