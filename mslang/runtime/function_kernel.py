"""A kernel made of a Python function over arrays: what back ends that call something else load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mslang.diagnostics import MsError, problem
from mslang.runtime.arguments import Arguments, number_of_threads, pack, prepare
from mslang.runtime.packing import Packed
from mslang.runtime.signature import Signature
from mslang.runtime.timing import Limits, Timing, measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

Function = Callable[[Mapping[str, "NDArray[Any]"], Mapping[str, int]], None]
"""Runs once on arrays by parameter, in the kernel's layouts, and dynamic sizes by name; writes the outputs in place."""


class FunctionKernel:
    """A function that is called as a kernel: arguments are checked, outputs made, layouts packed and unpacked.

    Args:
        signature: what it takes.
        function: what runs.

    >>> import numpy
    >>> from mslang.runtime.signature import Parameter
    >>> from mslang.ir.expr import Const
    >>> a, b = Parameter("A", "f32", (Const(2),), "in"), Parameter("B", "f32", (Const(2),), "out")
    >>> twice = FunctionKernel(Signature("twice", (a, b)), lambda x, _: numpy.multiply(x["A"], 2, out=x["B"]))
    >>> twice(numpy.ones(2, numpy.float32)).tolist()
    [2.0, 2.0]
    """

    def __init__(self, signature: Signature, function: Function) -> None:
        self.signature, self.function = signature, function

    def __repr__(self) -> str:
        return f"<kernel {self.signature.name}({', '.join(p.name for p in self.signature.parameters)})>"

    def __call__(self, /, *arrays: object, **named: object) -> Any:
        """Run on arrays, in the order of the parameters, by name, or with the outputs left out.

        Returned: the output, or all of them if there are several.
        """
        _, named = number_of_threads(self.signature, named)
        bound = FunctionCall(self, prepare(self.signature, arrays, named, once=True))
        bound.run()
        outputs = tuple(bound.arguments.result(p) for p in self.signature.parameters if p.direction != "in")
        return outputs[0] if len(outputs) == 1 else outputs

    def bind(self, /, *arrays: object, **named: object) -> FunctionCall:
        """Check the arguments once, to run many times. Raises MsError MS410 to MS414, MS420."""
        _, named = number_of_threads(self.signature, named)
        return FunctionCall(self, prepare(self.signature, arrays, named))

    def pack(self, name: str, array: object) -> Packed:
        """An array in the layout that the kernel takes. Raises MsError MS410: there is no such packed parameter."""
        found = next((p for p in self.signature.parameters if p.name == name), None)
        if found is None:
            raise MsError(problem("MS410", f"{self.signature.name} has no parameter {name}"))
        return pack(found, self.signature, array)

    def time(self, /, *arrays: object, limits: Limits | None = None, **named: object) -> Timing:
        """How long a run takes."""
        return self.bind(*arrays, **named).time(limits)


class FunctionCall:
    """A function with its arguments."""

    def __init__(self, kernel: FunctionKernel, arguments: Arguments) -> None:
        self.kernel, self.arguments = kernel, arguments
        self._worked_on = {**arguments.arrays, **{name: s.packed for name, s in arguments.staged.items()}}

    def run(self, times: int = 1) -> None:
        """Run so many times."""
        with self.prepared() as (enter, _):
            enter(times)

    @contextmanager
    def prepared(self) -> Iterator[tuple[Callable[[int], None], Callable[[], None]]]:
        """What runs the function so many times on packed arrays, and what packs the arrays again after a change."""

        def enter(times: int) -> None:
            for _ in range(times):
                self.kernel.function(self._worked_on, self.arguments.sizes)

        def put() -> None:
            for s in self.arguments.staged.values():
                s.put()

        put()
        yield enter, put
        for p in self.kernel.signature.parameters:
            if p.direction != "in" and p.name in self.arguments.staged:
                self.arguments.staged[p.name].take()

    def time(self, limits: Limits | None = None) -> Timing:
        """How long a run takes, without packing."""
        with self.prepared() as (enter, _):
            return measure(enter, limits or Limits())
