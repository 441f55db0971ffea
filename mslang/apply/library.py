"""`library`: programs that match a pattern are computed by a function of another library.

A `LibraryCall` states that a Python function over NumPy arrays computes what a program, its pattern, computes. It is a
pass by itself; the pass `library` asks those that installed packages declare, of packages that were allowed:

    [project.entry-points."mslang.library_calls"]
    numpy_matmul = "package.module:numpy_matmul"

A program that is served in this way has the call as its back end, which loads a `FunctionKernel`: a kernel that is
called, bound, timed and verified like every other.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.apply.matching import sizes_of_match
from mslang.apply.passes import Missed, Served
from mslang.backend.backend import BackEnd, Loaded, Options
from mslang.brevity import brief
from mslang.diagnostics import MsError, Severity, problem
from mslang.extensions import LIBRARY_CALLS, allowed, declared_points, load, loaded, package_of
from mslang.ir.program import Program
from mslang.runtime.arrays import numpy_name
from mslang.runtime.function_kernel import FunctionKernel
from mslang.runtime.signature import Parameter, Signature
from mslang.sema.module import Module
from mslang.sema.modules import load as load_module
from mslang.target.description import Target

if TYPE_CHECKING:
    from numpy.typing import NDArray

PREFIX = "library:"
"""What stands before the name of one call among the names of passes."""


class LibraryCall(msgspec.Struct, frozen=True):
    """A function that computes what a program computes, and serves all programs that match it.

    Args:
        name: how explanations call it.
        pattern: the text of one program, which may have sizes; element types and layouts count, names do not.
        function: is called with the arrays of the program's inputs, in their order, and returns the output (several:
            a tuple). It must not write to its inputs, except those that are `inout`. A function of a module, so that
            worker processes can import it.
        out: whether it takes the array of the output (several: a tuple) as the keyword `out`, as functions of NumPy
            do; a result that is this array is not copied.
        kinds: the kinds of targets that it serves.

    >>> import numpy
    >>> from mslang.sema.program import parse_program
    >>> text = "program twice[N = 4](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] + A[i] } }"
    >>> call = LibraryCall("own_twice", text, lambda a: numpy.add(a, a))
    >>> call.serve(parse_program(text.replace("N", "M").replace("M = 4", "M = 8")), Target()).how
    'the library call own_twice, N = 8'
    """

    name: str
    pattern: str
    function: Callable[..., object]
    out: bool = False
    kinds: tuple[str, ...] = ("cpu",)

    def serve(self, program: Program, target: Target) -> Served | Missed:
        """The program as it is, and the function as the back end that serves it.

        Raises:
            MsError: MS614, the call has no usable pattern or function.
        """
        if not callable(self.function):
            raise _unusable(self.name, f"its function is {brief(repr(self.function))}")
        if not isinstance(self.pattern, str):
            raise _unusable(self.name, f"its pattern is {brief(repr(self.pattern))}")
        module = _module(self.name, self.pattern)
        if target.kind not in self.kinds:
            return Missed(f"it serves targets of the kind {', '.join(self.kinds)}, and {target.name} is {target.kind}")
        sizes = sizes_of_match(module, next(iter(module.programs)), program)
        if isinstance(sizes, str):
            return Missed(sizes)
        text = "".join(f", {n} = {v}" for n, v in sizes.items())
        return Served(program, f"the library call {self.name}{text}", backend=self.backend())

    def __reduce__(self) -> tuple[object, ...]:
        """Worker processes are sent the name of the function, and import it."""
        try:
            pickle.dumps(self.function)
        except Exception as failure:
            why = f"its function {brief(repr(self.function))} is none of a module, so worker processes cannot import it"
            raise _unusable(self.name, why, "define the function by `def` at the top of a module") from failure
        return LibraryCall, (self.name, self.pattern, self.function, self.out, self.kinds)

    def backend(self) -> BackEnd[Called]:
        """The function as a back end for programs that match."""
        return BackEnd(
            self.name, (), partial(_compiled, self), _callable, partial(str, self.name), passes=None, finish=None
        )


class Called(msgspec.Struct, frozen=True):
    """A program and the call that computes it: the executable of its back end."""

    call: LibraryCall
    program: Program


class FromLibrary(msgspec.Struct, frozen=True):
    """The pass `library`: the first of its calls that serves a program.

    Args:
        calls: in the order in which they are tried.
        barred: calls that packages declare which were not allowed, each with its package.
    """

    calls: tuple[LibraryCall, ...]
    barred: tuple[tuple[str, str], ...] = ()
    name: str = "library"

    def serve(self, program: Program, target: Target) -> Served | Missed:
        """What the first call that matches gives."""
        missed: list[str] = []
        for call in self.calls:
            found = call.serve(program, target)
            if isinstance(found, Served):
                return found
            missed.append(f"`{call.name}`: {found.why}")
        missed += (
            f"`{name}` is not loaded: `--extension {package}` allows its package" for name, package in self.barred
        )
        return Missed("; ".join(missed) or f"no installed package declares any of `{LIBRARY_CALLS}`")


def library_calls() -> FromLibrary:
    """The pass with the calls of all packages that were allowed, in the order of their names.

    Raises:
        MsError: MS212 or MS213, one cannot be loaded.
    """
    calls: list[LibraryCall] = []
    for found in loaded(LIBRARY_CALLS, LibraryCall, allowed()):
        if found.problem is not None:
            raise MsError(found.problem)
        calls.append(_named(found.name, found.value))
    points = sorted({(p.name, package_of(p)) for p in declared_points(LIBRARY_CALLS)})
    return FromLibrary(tuple(calls), tuple((name, package) for name, package in points if package not in allowed()))


def library_call(name: str) -> LibraryCall:
    """The call that an allowed package declares by a name: the pass `library:NAME`.

    Raises:
        MsError: MS271, there is none; MS272, its package was not allowed; MS212 or MS213, it cannot be loaded.
    """
    return _named(name, load(LIBRARY_CALLS, name, allowed(), LibraryCall))


def _named(name: str, value: object) -> LibraryCall:
    """A call under the name by which it was declared."""
    assert isinstance(value, LibraryCall)
    return msgspec.structs.replace(value, name=name)


@lru_cache(maxsize=256)
def _module(name: str, pattern: str) -> Module:
    """The module of a pattern, which is one program."""
    module = load_module(f"the pattern of {name}", pattern)
    errors = [d for d in module.diagnostics if d.severity is Severity.ERROR]
    if errors:
        raise _unusable(name, f"its pattern is faulty: {errors[0].message}")
    if len(module.programs) != 1:
        raise _unusable(name, f"its pattern has {len(module.programs)} programs")
    return module


_CONSTRUCTOR = "`ms.LibraryCall(name, pattern, function)` takes the text of one program, and a function"


def _unusable(name: str, why: str, help: str = _CONSTRUCTOR) -> MsError:
    return MsError(problem("MS614", f"the library call {name} is not usable", why=why, help=help))


# ------------------------------------------------------------------ the back end
def _compiled(call: LibraryCall, program: Program, target: Target, options: Options) -> Called:
    return Called(call, program)


def _callable(executable: Called) -> Loaded:
    """A kernel that runs the function; a call raises MsError MS612 or MS613 if that fails."""
    signature = Signature.of_program(executable.program)

    def function(arrays: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> None:
        _run(executable.call, signature.parameters, arrays)

    return FunctionKernel(signature, function)


def _run(call: LibraryCall, parameters: tuple[Parameter, ...], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Call the function, and put its results where the caller expects them."""
    inputs = [arrays[p.name] for p in parameters if p.direction != "out"]
    outputs = [p for p in parameters if p.direction != "in"]
    places = tuple(arrays[p.name] for p in outputs)
    out = {"out": places[0] if len(places) == 1 else places} if call.out else {}
    try:
        made = call.function(*inputs, **out)
    except Exception as failure:
        said = brief(f"{type(failure).__name__}: {failure}".partition("\n")[0])
        help = "correct the function, or leave its pass out"
        raise MsError(problem("MS612", f"the library call {call.name} raised {said}", help=help)) from failure
    results = (made,) if len(outputs) == 1 else made
    if not isinstance(results, tuple) or len(results) != len(outputs):
        raise _wrong(call, f"returned {_described(made)}, expected a tuple of {len(outputs)} arrays")
    kept = [_kept(result, place, places) for result, place in zip(results, places, strict=True)]
    for p, place, result in zip(outputs, places, kept, strict=True):
        if result is place:
            continue
        array = _array(result)
        dtype = numpy_name(p.dtype)
        if array is None or array.shape != place.shape or array.dtype != dtype:
            shape = ", ".join(map(str, place.shape))
            raise _wrong(call, f"returned {_described(result)} for {p.name}, expected {dtype}[{shape}]")
        place[...] = array


def _kept(result: object, place: NDArray[Any], places: Sequence[NDArray[Any]]) -> object:
    """A result for one place, copied if it lies where another one is stored: functions may return their arguments."""
    import numpy as np

    array = _array(result)
    if array is None or result is place:
        return result
    return array.copy() if any(np.may_share_memory(array, x) for x in places if x is not place) else result


def _array(result: object) -> NDArray[Any] | None:
    """A result as an array; NumPy gives scalars for arrays of rank 0."""
    import numpy as np

    return np.asarray(result) if isinstance(result, np.ndarray | np.generic) else None


def _described(result: object) -> str:
    array = _array(result)
    if array is None:
        return "None" if result is None else f"an object of the type {type(result).__name__}"
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def _wrong(call: LibraryCall, what: str) -> MsError:
    help = "return arrays of the program's shapes and element types: nothing is converted"
    return MsError(problem("MS613", f"the library call {call.name} {what}", help=help))
