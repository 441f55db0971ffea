"""A Python function in the place of a kernel, such as a call of NumPy or torch: verified and timed like one."""

from __future__ import annotations

import importlib.util
import inspect
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from mslang.backend.backend import BackEnd, Options
from mslang.diagnostics import MsError, problem
from mslang.ir.program import Program
from mslang.runtime.timing import Limits, Timing, measure
from mslang.target.description import Target
from mslang.tune.job import Built
from mslang.tune.libraries.library_function import LibraryFunction, prepared_call


class PythonFunction(msgspec.Struct, frozen=True):
    """A function of a file: `name` of `file`, and the program's parameters that it writes."""

    file: str
    name: str
    written: tuple[str, ...] = ()


def built_library(made: LibraryFunction) -> Built:
    """The calls of a library as what a worker takes for a compiled candidate."""
    return Built(made, PYTHON)


def built_function(file: Path, name: str, program: Program) -> Built:
    """A function as what a worker takes for a compiled candidate.

    It is called with the program's arrays by name; outputs that are not parameters of it are left out. It writes the
    outputs or returns them; or it returns a function
    without parameters, which is then what runs, so that what is done once need not be timed.

    Args:
        file: a Python file, which is run where the function is loaded.
        name: the function's name.
        program: what it computes.

    >>> built = built_function(Path("peers.py"), "matmul", program)
    """
    written = tuple(p.buffer.name for p in program.params if p.direction != "in")
    return Built(PythonFunction(str(file), name, written), PYTHON)


def _load(made: PythonFunction | LibraryFunction) -> Any:
    if isinstance(made, LibraryFunction):
        return _Loaded(made, prepared_call(made))
    spec = importlib.util.spec_from_file_location("mslang_peer", made.file)
    function = None
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        function = getattr(module, made.name, None)
    if not callable(function):
        raise MsError(problem("MS709", f"{made.file} has no function {made.name}", help="name one of its functions"))
    return _Loaded(made, function)


class _Loaded:
    """The function, to be given its arrays."""

    def __init__(self, made: PythonFunction | LibraryFunction, function: Callable[..., Any]) -> None:
        self._made, self._function = made, function

    def bind(self, /, **arrays: Any) -> _Bound:
        return _Bound(self._made, self._function, arrays)


class _Bound:
    """The function with its arrays."""

    def __init__(
        self, made: PythonFunction | LibraryFunction, function: Callable[..., Any], arrays: dict[str, Any]
    ) -> None:
        given = _taken(function, arrays, made.written)
        self._call: Callable[[], Any] = lambda: function(**given)
        self._outputs = [arrays[name] for name in made.written]
        self._allocates = isinstance(made, LibraryFunction) and made.allocates

    def run(self, times: int = 1) -> None:
        for _ in range(times):
            self._keep(self._returned())

    def _returned(self) -> Any:
        returned = self._call()
        if callable(returned):
            self._call = returned
            returned = returned()
        return returned

    def _timed(self, times: int) -> None:
        """What is timed: a library's result in an array of its own is not copied into the output each time."""
        for _ in range(times):
            returned = self._returned()
            if not self._allocates:
                self._keep(returned)

    def _keep(self, returned: Any) -> None:
        if returned is None:
            return
        results = returned if isinstance(returned, tuple) else (returned,)
        for output, result in zip(self._outputs, results, strict=True):
            if result is not output:
                output[...] = result

    @contextmanager
    def prepared(self) -> Iterator[tuple[Callable[[int], None], Callable[[], None]]]:
        yield self._timed, lambda: None
        if self._allocates:
            self.run()

    def time(self, limits: Limits | None = None) -> Timing:
        with self.prepared() as (enter, _):
            return measure(enter, limits or Limits())


def _taken(function: Callable[..., Any], arrays: dict[str, Any], written: tuple[str, ...]) -> dict[str, Any]:
    """What a function takes: one that returns its results need not name them, nor sizes that it does not use."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return arrays
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return arrays
    needed = {name for name, x in arrays.items() if name not in written and not isinstance(x, int)}
    return {name: x for name, x in arrays.items() if name in parameters or name in needed}


def _compile(program: Any, target: Target, options: Options) -> PythonFunction:
    raise TypeError("a Python function is not compiled: `built_function` makes one")


def _version() -> str:
    return f"Python {platform.python_version()}"


PYTHON: BackEnd[PythonFunction | LibraryFunction] = BackEnd(
    "python", (), _compile, load=_load, version=_version, passes=None
)
"""What loads Python functions; no target is served by it."""
