"""A compiled kernel in this process: linked, called with arrays, timed."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from mslang.diagnostics import MsError, Note, problem
from mslang.runtime.arguments import Arguments, number_of_threads, pack, prepare
from mslang.runtime.arrays import address_of, empty
from mslang.runtime.dlpack import given_back, namespace_of
from mslang.runtime.forms import Form, Forms, in_place, key_of
from mslang.runtime.linker import Linker, process_linker
from mslang.runtime.packing import Packed
from mslang.runtime.signature import FIRST_ARGUMENT, Signature
from mslang.runtime.tiles import request_tiles
from mslang.runtime.timing import Limits, Timing, measure
from mslang.runtime.workspace import Workspaces

if TYPE_CHECKING:
    from numpy.typing import NDArray


def load(code: bytes, signature: Signature, linker: Linker | None = None) -> LoadedKernel:
    """Link a compiled kernel into this process.

    Arguments: the object and signature that the compiler made; the linker (default: the process's own).
    Raises MsError MS416 if the object cannot be linked here, TargetError MS427 if it needs matrix tiles that the system
    does not give.
    """
    return LoadedKernel(code, signature, process_linker() if linker is None else linker)


class LoadedKernel:
    """A kernel that can be called, from several threads at once too: each call has a workspace of its own.

    Python's lock is released while compiled code runs.
    """

    def __init__(self, code: bytes, signature: Signature, linker: Linker) -> None:
        if signature.tiles:
            request_tiles()
        once, many = signature.entry, signature.bench_entry
        self.signature = signature
        self._linker = linker
        self._library = linker.link(code, (once, many))
        self._run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self._library[once])
        self._bench = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)(self._library[many])
        workers = linker.workers if signature.parallel else 1
        size = -(-signature.workspace // 64) * 64 + workers * (-(-signature.worker_workspace // 64) * 64)
        self.workspace = Workspaces(size)
        self._forms = Forms(signature)
        # The words that an entry is given, and those of its status behind them.
        status_at = FIRST_ARGUMENT + len(signature.parameters) + len(signature.dynamic)
        self._words = ctypes.c_int64 * (status_at + signature.status_words)
        self._status_at = status_at * ctypes.sizeof(ctypes.c_int64)

    def __repr__(self) -> str:
        return f"<kernel {self.signature.name}({', '.join(p.name for p in self.signature.parameters)})>"

    def __call__(self, /, *arrays: object, **named: object) -> Any:
        """Run on arrays, in the order of the parameters, by name, or with the outputs left out.

        `threads = n`, which is not an array, lets at most so many threads run its parallel loops (default: as many as
        there are processors). Dynamic sizes are those of the arrays; one that no array has as a dimension is given by
        its name, `M = 3`.

        Where the schedule gave a parameter another layout, its array is given and returned as the unscheduled program
        has it, and packed and unpacked here; `pack` does that once for an array that stays as it is. Parameters that
        the program declares constant are given as `pack` made them.

        Returned: the output, or all of them if there are several. Outputs that are left out are tensors of the library
        that the inputs are from (torch tensors for torch tensors), and NumPy arrays for NumPy arrays.
        """
        found = None if named else in_place(arrays)
        key = None if found is None else key_of(found)
        if found is not None and (form := self._forms.find(key)) is not None:
            return self._known_call(form, arrays, found)
        threads, named = number_of_threads(self.signature, named)
        bound = Bound(self, prepare(self.signature, arrays, named, once=True), threads)
        bound.run()
        if found is not None:
            self._forms.learn(key, found, bound.arguments)
        outputs = tuple(bound.arguments.result(p) for p in self.signature.parameters if p.direction != "in")
        return outputs[0] if len(outputs) == 1 else outputs

    def _known_call(self, form: Form, given: Sequence[object], found: Sequence[NDArray[Any] | Packed]) -> Any:
        """A call with arguments of a form that was accepted before: a few microseconds of Python."""
        arrays = [x.array if isinstance(x, Packed) else x for x in found]
        addresses = [address_of(x) for x in arrays]
        if not form.disjoint(addresses):
            self.bind(*given)  # Raises MsError MS414.
        results = list(given)
        if form.made:
            namespace = next((n for x in given if (n := namespace_of(x)) is not None), None)
        for m in form.made:
            made = empty(m.shape, m.dtype)
            addresses.insert(m.place, address_of(made))
            results.insert(m.place, made if namespace is None else given_back(made, m.dtype, namespace))
        self.run(self.words(addresses, form.sizes), None, 1)
        outputs = [x.array if isinstance(x := results[k], Packed) else x for k in form.returned]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def bind(self, /, *arrays: object, **named: object) -> Bound:
        """Check the arguments once, to run many times; constants are packed here.

        Raises MsError MS410 to MS414, MS420.
        """
        threads, named = number_of_threads(self.signature, named)
        return Bound(self, prepare(self.signature, arrays, named), threads)

    def pack(self, name: str, array: object) -> Packed:
        """An array as the kernel takes it for a constant, or a parameter of another layout: a copy, to call it with.

        Raises MsError MS410 if there is no such parameter, or it is neither constant nor of another layout.
        """
        for p in self.signature.parameters:
            if p.name == name:
                return pack(p, self.signature, array)
        names = ", ".join(p.name for p in self.signature.parameters)
        raise MsError(problem("MS410", f"{self.signature.name} has no parameter {name}", help=f"it has {names}"))

    def time(self, /, *arrays: object, limits: Limits | None = None, **named: object) -> Timing:
        """How long a run takes, measured inside compiled code; packing and unpacking are not part of it."""
        return self.bind(*arrays, **named).time(limits)

    def words(self, addresses: Iterable[int], sizes: Iterable[int]) -> Any:
        """What an entry is given: addresses of the parameters' arrays, and the dynamic sizes, in order.

        The workspace and the pool are put in by `run` and `ready`; the words of the status lie behind.
        """
        words = self._words(*(0,) * FIRST_ARGUMENT, *addresses, *sizes)
        words[FIRST_ARGUMENT - 1] = ctypes.addressof(words) + self._status_at
        return words

    def status(self, words: Any) -> Any:
        """The words in which a kernel that checks its accesses says what it found, a part of those that it is given."""
        return (ctypes.c_int64 * self.signature.status_words).from_buffer(words, self._status_at)

    @contextmanager
    def ready(self, words: Any, threads: int | None = None) -> Iterator[Callable[[int], None]]:
        """What runs the kernel so many times over bound arguments; it has a workspace until the context ends."""
        held = self.workspace.take()
        try:
            words[0] = held[0]
            self._engage(words, threads)
            yield partial(self._enter, ctypes.addressof(words))
        finally:
            self.workspace.give(held)

    def run(self, words: Any, threads: int | None, times: int) -> None:
        """Run so many times over bound arguments. It is `ready` for one call, which costs a microsecond less so."""
        held = self.workspace.take()
        try:
            words[0] = held[0]
            self._engage(words, threads)
            self._enter(ctypes.addressof(words), times)
        finally:
            self.workspace.give(held)

    def _engage(self, words: Any, threads: int | None) -> None:
        """Name the pool and the team that a call runs on."""
        if not self.signature.parallel or self._linker.workers == 1 or threads == 1:
            words[1] = words[2] = 0
            return
        pool = self._linker.pool
        words[1], words[2] = pool.launcher, pool.team(threads)

    def _enter(self, address: int, times: int) -> None:
        if times == 1:
            self._run(address)
        else:
            self._bench(address, times)


class Bound:
    """A kernel with its arguments: `arrays` are the caller's. Its runs take turns, as they write to the same arrays."""

    def __init__(self, kernel: LoadedKernel, arguments: Arguments, threads: int | None = None) -> None:
        self.kernel = kernel
        self._threads = threads
        self.arguments = arguments
        self._turns: dict[int, threading.Lock] = {}
        self.arrays = arguments.arrays
        self._staged = arguments.staged
        self._outputs = [p.name for p in kernel.signature.parameters if p.direction != "in" and p.name in self._staged]
        worked_on = {**arguments.arrays, **{name: s.packed for name, s in arguments.staged.items()}}
        addresses = [address_of(worked_on[p.name]) for p in kernel.signature.parameters]
        self._words = kernel.words(addresses, [arguments.sizes[s.text] for s in kernel.signature.dynamic])
        self._status = kernel.status(self._words)

    @property
    def _turn(self) -> threading.Lock:
        """The lock of this process: a forked one would wait for ever for a thread that had a turn at the fork."""
        return self._turns.setdefault(os.getpid(), threading.Lock())

    def run(self, times: int = 1) -> None:
        """Run; raises MsError MS415 if a kernel that checks its accesses found one out of bounds."""
        with self._turn:
            self._put()
            self.kernel.run(self._words, self._threads, times)
            self._finished()

    @contextmanager
    def prepared(self) -> Iterator[tuple[Callable[[int], None], Callable[[], None]]]:
        """What runs the kernel so many times on packed arrays, and what packs the arrays again after a change to them.

        At the end the outputs are unpacked. Raises MsError MS415 as `run` does.
        """
        with self._turn:
            self._put()
            with self.kernel.ready(self._words, self._threads) as enter:
                yield enter, self._put
            self._finished()

    def _put(self) -> None:
        for s in self._staged.values():
            s.put()

    def _finished(self) -> None:
        """Report what a checking kernel found; unpack the outputs."""
        if self._status[0]:
            self._report()
        for name in self._outputs:
            self._staged[name].take()

    def _report(self) -> None:
        code, dimension, index, extent, *axes = self._status
        self._status[0] = 0
        access = self.kernel.signature.checked[code - 1]
        at = ", ".join(f"{name} = {value}" for name, value in zip(access.axes, axes, strict=False))
        where = f"in block `{access.block}`" + (f" at {at}" if at else "")
        raise MsError(
            problem(
                "MS415",
                f"{access.buffer} is accessed at {index} in dimension {dimension}, which has {extent} elements",
                why="the index is out of bounds; other accesses may be, too",
                notes=() if access.block is None else (Note(where),),
            )
        )

    def time(self, limits: Limits | None = None) -> Timing:
        """How long a run takes: of the kernel alone, on arrays that are packed already."""
        with self.prepared() as (enter, _):
            return measure(enter, limits or Limits())
