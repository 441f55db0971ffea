"""TVM's registry of intrinsics: each is a description and an implementation in TVMScript."""

from __future__ import annotations

import ast
import contextlib

from benchmarks.tvm_suite.reading import NotPortable, Script
from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.ir.intrin import Intrin


class Intrinsics:
    """The intrinsics that a test file registers."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[Script, Script]] = {}

    def register(self, name: str, desc: Script, impl: Script, override: bool = False) -> None:
        """Make one known."""
        self.known[name] = (desc, impl)

    def get(self, name: str, allow_missing: bool = False) -> tuple[Script, Script] | None:
        """One by its name.

        Raises:
            ValueError: there is none.
        """
        if name not in self.known and not allow_missing:
            raise ValueError(name)
        return self.known.get(name)

    def intrin(self, name: str) -> Intrin:
        """One as this project has them.

        Raises:
            NotPortable: it is one of TVM's library.
        """
        found = self.known.get(name)
        if found is None:
            raise NotPortable(f"an intrinsic of TVM's library: {name}")
        desc, impl = found
        try:
            return tvmscript.intrin(name, desc.text, impl.text)
        except MsError as error:
            if any(isinstance(x, ast.Attribute) and x.attr == "data" for x in ast.walk(ast.parse(impl.text))):
                raise NotPortable(f"not read: {error.diagnostic.message}") from error
        return Intrin(name, desc.program, program=impl.program)

    def readable(self) -> list[Intrin]:
        """Those of which it is known what their calls look like."""
        found: list[Intrin] = []
        for name in self.known:
            with contextlib.suppress(NotPortable):
                found.append(self.intrin(name))
        return found
