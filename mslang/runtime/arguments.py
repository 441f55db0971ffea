"""The arrays that a kernel is called with: found, checked against the signature, outputs made where none is given."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from mslang.brevity import brief
from mslang.diagnostics import MsError, problem
from mslang.ir import arith
from mslang.ir.dtype import is_float, size_of
from mslang.ir.expr import Const, DynamicRange, Expr, Symbol
from mslang.ir.program import Within
from mslang.ir.rounding import bf16_bits
from mslang.ir.strides import shared_places
from mslang.runtime.arrays import address_of, empty, numpy_name, row_strides
from mslang.runtime.dlpack import array_of, given_back, namespace_of
from mslang.runtime.packing import Packed, Staging, places
from mslang.runtime.ranges import Bounds, numbers, violation
from mslang.runtime.signature import Parameter, Signature

if TYPE_CHECKING:
    from numpy.typing import NDArray


NO_SIZES: Mapping[str, int] = MappingProxyType({})


class Arguments(msgspec.Struct, frozen=True):
    """What a kernel is called with: every parameter's array by name, the dynamic sizes, and for each parameter that is
    packed, and was not given so, the packed array. `given` are the arguments as the caller passes them."""

    arrays: dict[str, NDArray[Any]]
    sizes: dict[str, int]
    staged: dict[str, Staging]
    given: dict[str, object]

    def result(self, p: Parameter) -> Any:
        """An output for the caller: the array that was given for it, else a new one of the library that the inputs are
        from."""
        if p.name in self.given:
            x = self.given[p.name]
            return x.array if isinstance(x, Packed) else x
        namespace = next((n for x in self.given.values() if (n := namespace_of(x)) is not None), None)
        array = self.arrays[p.name]
        return array if namespace is None else given_back(array, p.dtype, namespace)


def prepare(
    signature: Signature, given: Sequence[object], named: Mapping[str, object], *, once: bool = False
) -> Arguments:
    """What a call works on. Arrays are used in place, never copied, but those of parameters that are packed.

    Args:
        signature: what the kernel takes.
        given: arrays by position.
        named: arrays by name, and dynamic sizes.
        once: whether it is for a single call, which takes constants as `pack` made them. Otherwise they are packed
            here, once for all runs.

    Raises:
        MsError: MS410 a missing, extra or unknown argument, MS411 a wrong element type, MS412 a wrong shape, MS413 a
            wrong layout, MS414 an output that cannot be written or overlaps another argument, MS162 a value outside of
            the declared range, for a kernel that checks its accesses.
    """
    stated, named = _stated_sizes(signature, named)
    matched = _matched(signature, given, named)
    if once:
        _require_packed(signature, matched)
    packed = {name: x for name, x in matched.items() if isinstance(x, Packed)}
    arrays = {name: x.array if isinstance(x, Packed) else _as_array(name, x) for name, x in matched.items()}
    shapes = {name: packed[name].shape if name in packed else x.shape for name, x in arrays.items()}
    sizes = _dynamic_sizes(signature, shapes, stated)
    for p in signature.parameters:
        if p.name in packed and packed[p.name].packing != p.packing:
            here = f"{p.name} is packed in another layout than {signature.name} takes"
            _refuse("MS413", here, help=_PACK.format(p.name))
        shape = tuple(evaluate(e, sizes) for e in (p.shape if p.name in packed else p.given))
        if p.name not in arrays:
            arrays[p.name] = _empty(p, shape)
        _check_strides(p, shape, sizes)
        _check(p, shape, sizes, arrays[p.name])
        if not _is_staged(p, packed):
            _check_alignment(p, arrays[p.name])
        if signature.checked and p.within is not None and p.name not in packed:
            _check_range(p, p.within, sizes, arrays[p.name])
    _check_overlaps(signature, arrays)
    staged = {p.name: _staging(p, arrays[p.name], sizes) for p in signature.parameters if _is_staged(p, packed)}
    return Arguments(arrays, sizes, staged, matched)


_PACK = '`{0} = kernel.pack("{0}", {0})` of this kernel, once before the calls'


def _require_packed(signature: Signature, matched: Mapping[str, object]) -> None:
    """Refuse a constant that is not what `pack` makes: it would be packed in each call."""
    for p in signature.parameters:
        if p.constant and not isinstance(matched[p.name], Packed):
            _refuse(
                "MS413",
                f"{p.name} is constant, and is not packed",
                why=f"{signature.name} declares it `const`: it is packed once, not in each call",
                help=_PACK.format(p.name),
            )


def number_of_threads(signature: Signature, named: Mapping[str, object]) -> tuple[int | None, dict[str, object]]:
    """The number of threads that a call asks for by `threads = n`, and its other arguments.

    Where a parameter or a size is called `threads`, it is meant.

    Raises MsError MS410 unless it is a whole number from 1 on, or None.
    """
    others = dict(named)
    taken = {*(p.name for p in signature.parameters), *(s.text for s in signature.dynamic)}
    if "threads" not in others or "threads" in taken:
        return None, others
    threads = others.pop("threads")
    if threads is None:
        return None, others
    if isinstance(threads, bool) or not hasattr(threads, "__index__") or operator.index(threads) < 1:
        why = "it is a whole number from 1 on: how many run a call"
        _refuse("MS410", f"`threads` is {brief(repr(threads))}", why=why)
    return operator.index(threads), others


def sizes_of_call(signature: Signature, given: Sequence[object], named: Mapping[str, object]) -> dict[str, int]:
    """The dynamic sizes of a call; raises MsError MS410 to MS412 as `prepare` does."""
    _, others = number_of_threads(signature, named)
    stated, remaining = _stated_sizes(signature, others)
    matched = _matched(signature, given, remaining)
    shapes = {n: x.shape if isinstance(x, Packed) else _as_array(n, x).shape for n, x in matched.items()}
    return _dynamic_sizes(signature, shapes, stated)


def call_sizes(signature: Signature, sizes: Mapping[str, int]) -> dict[str, int]:
    """Dynamic sizes that are given as numbers; raises MsError MS412: one is missing, unknown, no whole number, or
    outside of its range."""
    known = [s.text for s in signature.dynamic]
    for name, n in sizes.items():
        if name not in known:
            _refuse(
                "MS412",
                f"{signature.name} has no size {name} that is known only at the call",
                help=f"it has {', '.join(known)}",
            )
        _require_whole(name, n)
    for symbol in signature.dynamic:
        _require_in_range(symbol, sizes)
    return dict(sizes)


def _require_whole(name: str, n: object) -> None:
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        _refuse("MS412", f"{name} = {brief(repr(n))} is not a whole number")


def _stated_sizes(signature: Signature, named: Mapping[str, object]) -> tuple[dict[str, int], Mapping[str, object]]:
    """The dynamic sizes that a call names, `M=3`, and its other arguments. A parameter of that name is meant first."""
    parameters = {p.name for p in signature.parameters}
    sizes = {s.text for s in signature.dynamic} - parameters
    if not sizes & named.keys():
        return {}, named
    stated: dict[str, int] = {}
    for name in sizes & named.keys():
        _require_whole(name, named[name])
        stated[name] = operator.index(named[name])  # type: ignore[arg-type]
    return stated, {name: x for name, x in named.items() if name not in stated}


def _is_staged(p: Parameter, packed: Mapping[str, Packed]) -> bool:
    return p.packing is not None and p.name not in packed


def _staging(p: Parameter, array: NDArray[Any], sizes: Mapping[str, int]) -> Staging:
    assert p.packing is not None
    into = tuple(evaluate(e, sizes) for e in p.shape)
    at = places(p.packing, array.shape, into, sizes)
    staged = Staging(array, empty(into, p.dtype, align=p.align), at, padding(p.packing.pad, p.dtype), p.constant)
    if staged.kept:
        staged.fill()
    return staged


def pack(p: Parameter, signature: Signature, given: object) -> Packed:
    """An array in the layout of a parameter: a new one. A constant has one in any case.

    Raises MsError: MS410 the parameter is not packed, and not constant; or as `prepare`.
    """
    if p.packing is None and not p.constant:
        _refuse("MS410", f"{p.name} is not packed", help="pass the array as it is")
    if isinstance(given, Packed):
        _refuse("MS413", f"{p.name} is packed already", help="pass it to the kernel as it is")
    array = _as_array(p.name, given)
    sizes = _dynamic_sizes(msgspec.structs.replace(signature, dynamic=()), {p.name: array.shape})
    _check(p, tuple(evaluate(e, sizes) for e in p.given), sizes, array, written=False)
    if signature.checked and p.within is not None:
        _check_range(p, p.within, sizes, array)
    if p.packing is None:
        strides = None if p.strides is None else tuple(evaluate(e, sizes) for e in p.strides)
        copy = empty(array.shape, p.dtype, strides, p.align)
        copy[...] = array
        return Packed(copy, array.shape, None)
    staged = _staging(p, array, sizes)
    staged.put()
    return Packed(staged.packed, array.shape, p.packing)


def padding(pad: Expr | None, dtype: str) -> float:
    """What padding holds, as an element of a NumPy array."""
    if not isinstance(pad, Const):
        return 0
    return bf16_bits(float(pad.value)) if dtype == "bf16" else pad.value


def evaluate(e: Expr, sizes: Mapping[str, int]) -> int:
    """A size as a number."""
    if isinstance(e, Const):
        return int(e.value)
    try:
        return int(arith.evaluate(e, {}, sizes))
    except MsError as error:
        why = error.diagnostic.message
        raise MsError(problem("MS412", "a size cannot be inferred from the arguments", why=why)) from error


def _matched(signature: Signature, given: Sequence[object], named: Mapping[str, object]) -> dict[str, object]:
    names = [p.name for p in signature.parameters]
    needed = [p.name for p in signature.parameters if p.direction != "out"]
    call = f"{signature.name}({', '.join(names)})"
    # Outputs may be left out: then the arguments are the inputs in order.
    order = names if len(given) == len(names) else needed
    if len(given) > len(order):
        _refuse("MS410", f"{signature.name} takes {len(names)} arrays, {len(given)} are given", help=call)
    found = dict(zip(order, given, strict=False))
    for name, x in named.items():
        if name not in names:
            _refuse("MS410", f"{signature.name} has no parameter {name}", help=call)
        if name in found:
            _refuse("MS410", f"{name} is given twice", help=call)
        found[name] = x
    missing = [n for n in needed if n not in found]
    if missing:
        _refuse("MS410", f"{signature.name} is called without {', '.join(missing)}", help=call)
    return found


def _as_array(name: str, x: object) -> NDArray[Any]:
    import numpy as np

    if isinstance(x, np.ndarray):
        # NumPy would convert its numbers: what is packed, copied and given is their bits.
        return x.view(np.uint16) if x.dtype.name == "bfloat16" else x
    if not hasattr(x, "__dlpack__"):
        _refuse(
            "MS411",
            f"{name} is not an array but {type(x).__name__}",
            help="pass a NumPy array, or anything that speaks DLPack (a torch tensor)",
        )
    return array_of(name, x)


def _dynamic_sizes(
    signature: Signature, shapes: Mapping[str, tuple[int, ...]], stated: Mapping[str, int] = NO_SIZES
) -> dict[str, int]:
    sizes = dict(stated)
    for p in signature.parameters:
        if p.name not in shapes:
            continue
        for e, actual in zip(p.given, shapes[p.name], strict=False):
            if not isinstance(e, Symbol):
                continue
            if sizes.setdefault(e.text, actual) != actual:
                other = "the call says" if e.text in stated else "another argument"
                _refuse("MS412", f"{p.name} has {e.text} = {actual}, {other} {e.text} = {sizes[e.text]}")
    for symbol in signature.dynamic:
        if symbol.text not in sizes:
            _refuse(
                "MS412",
                f"the size {symbol.text} cannot be inferred from the arguments",
                help=f"pass an array that has it as a dimension, or the size itself by name: `{symbol.text}=…`",
            )
        _require_in_range(symbol, sizes)
    return sizes


def _require_in_range(symbol: Symbol, sizes: Mapping[str, int]) -> None:
    if symbol.text not in sizes:
        _refuse("MS412", f"the size {symbol.text} is missing")
    n, known = sizes[symbol.text], symbol.domain
    if isinstance(known, DynamicRange) and not (known.lo <= n <= known.hi and n % known.multiple == 0):
        multiple = f", multiple = {known.multiple}" if known.multiple > 1 else ""
        _refuse(
            "MS412",
            f"{symbol.text} = {n} is outside of its range",
            why=f"it is declared dyn({known.lo}..{known.hi}{multiple})",
        )


def _empty(p: Parameter, shape: tuple[int, ...]) -> NDArray[Any]:
    if p.strides is not None:
        _refuse("MS410", f"the output {p.name} must be given", why="its layout is not compact")
    return empty(shape, p.dtype, align=p.align)


def _check(
    p: Parameter, shape: tuple[int, ...], sizes: Mapping[str, int], x: NDArray[Any], written: bool = True
) -> None:
    expected = numpy_name(p.dtype)
    if x.dtype.name not in (expected, "bfloat16" if p.dtype == "bf16" else expected):
        _refuse("MS411", f"{p.name} holds {x.dtype.name}, expected {expected}", help=f"{p.name}.astype({expected!r})")
    if not x.dtype.isnative:
        order = "big" if x.dtype.byteorder == ">" else "little"
        _refuse(
            "MS413",
            f"the elements of {p.name} are in {order}-endian byte order",
            why="kernels work on elements in the machine's own byte order",
            help=_mended(p, written, f'{p.name}.astype({p.name}.dtype.newbyteorder("="))'),
        )
    if x.shape != shape:
        _refuse("MS412", f"{p.name} has shape {x.shape}, expected {shape}")
    strides = row_strides(shape) if p.strides is None else tuple(evaluate(e, sizes) for e in p.strides)
    wanted = tuple(s * size_of(p.dtype) for s in strides)
    if any(n > 1 and a != b for n, a, b in zip(shape, x.strides, wanted, strict=True)) and x.size:
        _refuse(
            "MS413",
            f"{p.name} is not contiguous" if p.strides is None else f"{p.name} does not have its declared strides",
            why=f"its strides are {x.strides} bytes, expected {wanted}",
            help=_mended(p, written, f"np.ascontiguousarray({p.name})") if p.strides is None else None,
        )
    if address_of(x) % size_of(p.dtype):
        _refuse(
            "MS413",
            f"{p.name} is not aligned",
            why=f"its address is not a multiple of {size_of(p.dtype)}, the size of an element",
            help=_mended(p, written, f"{p.name}.copy()"),
        )
    if written and p.direction != "in" and not x.flags.writeable:
        tensor = type(x.base).__name__ == "PyCapsule"
        _refuse(
            "MS414",
            f"{p.name} is written by the kernel, but the {'tensor' if tensor else 'array'} is read-only",
            why="its library does not say through DLPack that it may be written" if tensor else None,
            help=f"leave {p.name} out: the result is then a new array" if p.direction == "out" else None,
        )


def _check_alignment(p: Parameter, x: NDArray[Any]) -> None:
    """Refuse an array that the kernel works on where it is, unless it is aligned as declared."""
    if address_of(x) % p.align:
        _refuse(
            "MS413",
            f"{p.name} is not aligned",
            why=f"its address is not a multiple of {p.align}, which `align = {p.align}` declares",
            help=f'`ms.empty({x.shape}, "{p.dtype}", align={p.align})` makes an array that is',
        )


def _check_strides(p: Parameter, shape: tuple[int, ...], sizes: Mapping[str, int]) -> None:
    """Refuse strides that, at the sizes of the call, let elements of what is written share memory."""
    if p.strides is None:
        return
    strides = tuple(evaluate(e, sizes) for e in p.strides)
    why = shared_places(strides, shape, written=p.direction != "in")
    if why is not None:
        at = ", ".join(f"{name} = {n}" for name, n in sizes.items())
        _refuse("MS413", f"the declared strides of {p.name} do not serve {at}", why=why)


def _check_range(p: Parameter, w: Within, sizes: Mapping[str, int], x: NDArray[Any]) -> None:
    if is_float(p.dtype):
        low, high = (float(e.value) for e in (w.low, w.high) if isinstance(e, Const))
    else:
        low, high = evaluate(w.low, sizes), evaluate(w.high, sizes)
    bounds = Bounds(low, high, w.sorted, w.unique)
    found = violation(p.name, numbers(x, p.dtype), bounds)
    if found is not None:
        _refuse("MS162", found, why=f"{p.name} is declared to hold {bounds.text}")


def _mended(p: Parameter, written: bool, call: str) -> str:
    """What to pass in place of an array: a copy that the kernel can use."""
    if not written or p.direction == "in":
        return call
    return f"pass a copy, `copy = {call}`, and copy the result back: `{p.name}[...] = copy`"


def _check_overlaps(signature: Signature, arrays: Mapping[str, NDArray[Any]]) -> None:
    import numpy as np

    for p in signature.parameters:
        if p.direction == "in":
            continue
        for name, other in arrays.items():
            if name != p.name and np.may_share_memory(arrays[p.name], other):
                _refuse(
                    "MS414",
                    f"{p.name} and {name} share memory",
                    why="compiled code relies on outputs that do not overlap other arguments",
                )


def _refuse(code: str, message: str, why: str | None = None, help: str | None = None) -> NoReturn:
    raise MsError(problem(code, message, why=why, help=help))
