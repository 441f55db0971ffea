"""The interpreter as a back end: runs any program, slowly, and checks its rules. It serves no kind of target by
itself: it is asked for by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from mslang import __version__
from mslang.backend.backend import BackEnd, Options
from mslang.diagnostics import MsError, problem
from mslang.ir.expr import Symbol
from mslang.ir.program import Program
from mslang.runtime.arguments import Arguments, pack, prepare
from mslang.runtime.packing import Packed
from mslang.runtime.signature import Parameter, Signature
from mslang.runtime.timing import Limits, Timing, measure
from mslang.target.description import Target


class Interpreted(msgspec.Struct, frozen=True):
    """A program to be interpreted: the executable of the reference back end."""

    program: Program

    @property
    def signature(self) -> Signature:
        """What the program takes."""
        dynamic = tuple(s for s in self.program.dynamic if isinstance(s, Symbol))
        # The interpreter takes what the caller of the unscheduled program has: nothing is packed.
        given = tuple(msgspec.structs.replace(p, buffer=p.given, packing=None) for p in self.program.params)
        return Signature(self.program.name, tuple(map(Parameter.of, given)), dynamic)


class InterpretedKernel:
    """A program that is interpreted when it is called."""

    def __init__(self, executable: Interpreted) -> None:
        self.program = executable.program
        self.signature = executable.signature

    def __repr__(self) -> str:
        return f"<interpreted {self.signature.name}({', '.join(p.name for p in self.signature.parameters)})>"

    def __call__(self, *arrays: object, **named: object) -> Any:
        """Run on arrays, in the order of the parameters, by name, or with the outputs left out.

        Raises:
            MsError: the arguments do not fit, or the program breaks a rule of the language.
        """
        bound = self.bind(*arrays, **named)
        bound.run()
        outputs = tuple(bound.arguments.result(p) for p in self.signature.parameters if p.direction != "in")
        return outputs[0] if len(outputs) == 1 else outputs

    def bind(self, *arrays: object, **named: object) -> InterpretedCall:
        """Check the arguments once, to run many times."""
        return InterpretedCall(self.program, prepare(self.signature, arrays, named))

    def pack(self, name: str, array: object) -> Packed:
        """An array as the kernel takes it for a parameter of another layout.

        Raises:
            MsError: MS410, there is no such parameter, or it is not packed.
        """
        found = next((p for p in self.signature.parameters if p.name == name), None)
        if found is None:
            raise MsError(problem("MS410", f"{self.signature.name} has no parameter {name}"))
        return pack(found, self.signature, array)

    def time(self, *arrays: object, limits: Limits | None = None, **named: object) -> Timing:
        """How long the interpreter takes."""
        return self.bind(*arrays, **named).time(limits)


class InterpretedCall:
    """A program with its arguments."""

    def __init__(self, program: Program, arguments: Arguments) -> None:
        self.program, self.arguments = program, arguments

    def run(self, times: int = 1) -> None:
        """Interpret; raises MsError if the program breaks a rule of the language."""
        from mslang.backend.reference.interpret import run

        for _ in range(times):
            results = run(self.program, self.arguments.arrays, sizes=self.arguments.sizes, bits=True)
            for name, result in results.items():
                self.arguments.arrays[name][...] = result

    @contextmanager
    def prepared(self) -> Iterator[tuple[Callable[[int], None], Callable[[], None]]]:
        """What interprets the program so many times; nothing is packed."""
        yield self.run, lambda: None

    def time(self, limits: Limits | None = None) -> Timing:
        """How long the interpreter takes."""
        return measure(self.run, limits or Limits())


def interpreted(program: Program, target: Target, options: Options) -> Interpreted:
    """The program as it is."""
    return Interpreted(program)


def version() -> str:
    """The interpreter's version."""
    return f"reference {__version__}"


REFERENCE = BackEnd("reference", (), interpreted, InterpretedKernel, version, passes=None)
"""The interpreter."""
