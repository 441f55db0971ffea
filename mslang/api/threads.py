"""The threads of parallel loops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def keep_awake() -> Iterator[None]:
    """Keep the threads of parallel loops spinning between calls of kernels.

    They sleep after about 100 µs without a loop, and take some 70 µs to wake up. That matters where short kernels
    alternate with other work, for instance of NumPy. Threads that spin occupy their cores; other libraries that use
    several threads get slower. It may be nested, and used in several threads.

    Example:
        >>> import mslang as ms
        >>> with ms.keep_awake():
        ...     pass  # calls of kernels, and short work between them
    """
    from mslang.runtime.linker import process_linker

    with process_linker().pool.kept_awake():
        yield
