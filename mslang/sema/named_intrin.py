"""Intrinsics by name: those of the library, or the text of an item."""

from __future__ import annotations

from functools import lru_cache

from mslang.diagnostics import MsError, problem
from mslang.ir.intrin import Intrin
from mslang.resources import stdlib_folder
from mslang.sema.intrin import intrin_from, parse_intrin
from mslang.sema.module import Found
from mslang.sema.modules import load
from mslang.syntax import tree


@lru_cache(maxsize=128)
def library_intrin(address: str) -> Intrin:
    """The intrinsic of the library that is called `std.….name`.

    Raises:
        MsError: MS101, there is none.
    """
    found = library_item(address)
    if found is None:
        help = "name it in full, as `std.cuda.wmma.load_a`"
        raise MsError(problem("MS101", f"there is no intrinsic `{address}`", help=help))
    return intrin_from(found, address.rpartition(".")[2])


@lru_cache(maxsize=128)
def library_item(address: str) -> Found | None:
    """The item of an intrinsic of the library that is called `std.….name`; None if there is none."""
    path, _, name = address.removeprefix("std.").rpartition(".")
    if not address.startswith("std.") or not path:
        return None
    file = stdlib_folder().joinpath(*path.split(".")).with_suffix(".ms")
    if not file.is_file():
        return None
    found = load(str(file)).find(name)
    return found if isinstance(found, Found) and isinstance(found.item, tree.Intrin) else None


def named_intrin(text: str) -> Intrin:
    """The intrinsic that a text stands for: an item, or a name of the library.

    Raises:
        MsError: it stands for none.
    """
    return library_intrin(text) if text.startswith("std.") else parse_intrin(text)
