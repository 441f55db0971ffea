"""A kernel made of several that serve parts of the ranges of dynamic sizes: each call goes to the one of its sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mslang.backend.backend import Bound, Loaded
from mslang.diagnostics import MsError, problem
from mslang.ir.buckets import Bucket
from mslang.runtime.arguments import call_sizes, sizes_of_call
from mslang.runtime.packing import PackedForSizes
from mslang.runtime.signature import Signature
from mslang.runtime.timing import Limits, Timing


class Serving(NamedTuple):
    """A bucket of sizes and the kernel that serves it."""

    bucket: Bucket
    kernel: Loaded


class DispatchKernel:
    """Kernels of one program, called as one.

    Args:
        signature: what a call takes: that of the program, with the whole range of its sizes.
        cases: kernels for buckets; the first that holds the sizes of a call serves it.
        otherwise: serves all other sizes.
    """

    def __init__(self, signature: Signature, cases: Sequence[Serving], otherwise: Loaded) -> None:
        self.signature, self.cases, self.otherwise = signature, tuple(cases), otherwise

    def __repr__(self) -> str:
        served = "; ".join((*(c.bucket.text for c in self.cases), "other sizes"))
        return f"<kernel {self.signature.name}({', '.join(p.name for p in self.signature.parameters)}): {served}>"

    def at(self, /, **sizes: int) -> Loaded:
        """The kernel that serves some sizes.

        Raises:
            MsError: MS412, a size is missing, or outside of its declared range.
        """
        return self._serving(call_sizes(self.signature, sizes))

    def _serving(self, sizes: Mapping[str, int]) -> Loaded:
        return next((c.kernel for c in self.cases if c.bucket.holds(sizes)), self.otherwise)

    def __call__(self, /, *arrays: object, **named: object) -> Any:
        """Run on arrays, as every kernel; returns the outputs."""
        kernel, given, known = self._of_call(arrays, named)
        return kernel(*given, **known)

    def bind(self, /, *arrays: object, **named: object) -> Bound:
        """Check the arguments once, to run many times."""
        kernel, given, known = self._of_call(arrays, named)
        return kernel.bind(*given, **known)

    def pack(self, name: str, array: object) -> Any:
        """An array in the layout that the kernels take for a parameter; a constant in each of their layouts.

        Raises:
            MsError: MS410, they take different ones for a parameter that is not constant: `kernel.at(M=64).pack` packs
                for one of them.
        """
        kernels = [*(c.kernel for c in self.cases), self.otherwise]
        layouts = {p.packing: k for k in kernels for p in k.signature.parameters if p.name == name}
        if len(layouts) > 1:
            if any(p.constant for p in self.signature.parameters if p.name == name):
                return PackedForSizes(name, [k.pack(name, array) for k in layouts.values()])
            sizes = ", ".join(f"{s.text}=…" for s in self.signature.dynamic)
            why = "each of its kernels has a schedule of its own, and may have another layout"
            help = f'`kernel.at({sizes}).pack("{name}", array)` packs for the kernel of these sizes'
            raise MsError(problem("MS410", f"{name} has no layout that serves all sizes", why=why, help=help))
        return self.otherwise.pack(name, array)

    def time(self, /, *arrays: object, limits: Limits | None = None, **named: object) -> Timing:
        """How long a run takes."""
        return self.bind(*arrays, **named).time(limits)

    def _of_call(
        self, arrays: Sequence[object], named: Mapping[str, object]
    ) -> tuple[Loaded, list[object], dict[str, object]]:
        """The kernel of a call, and its arguments: constants in the layout that this kernel takes."""

        def laid_out(kernel: Loaded, x: object) -> object:
            if not isinstance(x, PackedForSizes):
                return x
            return x.laid_out(next((p.packing for p in kernel.signature.parameters if p.name == x.name), None))

        def given(kernel: Loaded) -> tuple[list[object], dict[str, object]]:
            return [laid_out(kernel, x) for x in arrays], {n: laid_out(kernel, x) for n, x in named.items()}

        # Sizes are those of the arrays as they were, in any layout.
        kernel = self._serving(sizes_of_call(self.signature, *given(self.otherwise)))
        return kernel, *given(kernel)
