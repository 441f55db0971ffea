"""Kernels as a library for C: one module with code for each target, as text, object or shared library."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from mslang.backend.aot.entry import Entry, Variant, entries_ir
from mslang.backend.aot.header import Packer, c_names, header, require_name
from mslang.backend.aot.linking import shared_library
from mslang.backend.aot.packing import constants, packed_bytes, packer, self_packing
from mslang.backend.aot.processor import checkable
from mslang.backend.aot.threads import has_threads, threads_ir
from mslang.backend.backend import Library, LibraryPart
from mslang.backend.llvm.compile import machine, optimised, signature_of
from mslang.backend.llvm.containment import require_contained
from mslang.backend.llvm.module import ModuleWriter
from mslang.diagnostics import TargetError, problem
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const
from mslang.ir.program import Program
from mslang.kernel.nodes import Module
from mslang.runtime.llvm_lock import ONE_AT_A_TIME
from mslang.runtime.signature import Signature, symbol
from mslang.target.description import Target

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef


class _Code(msgspec.Struct, frozen=True):
    """A variant with its module's text and the target it is optimised for, and those that pack its constants."""

    variant: Variant
    text: str
    target: Target
    auto_vectorize: bool
    packers: tuple[_Code, ...] = ()


def library(
    parts: Sequence[LibraryPart],
    name: str,
    about: str,
    allow_native: bool,
    lowered: Callable[[Program, Target], object],
) -> Library:
    """What can be written of a program for CPUs.

    Args:
        parts: the scheduled program for each target, the best target first, each with those for buckets of its sizes
            behind it. All take the same arguments.
        name: the C function.
        about: what it was made from, for the header.
        allow_native: whether implementations in LLVM text may do more than compute.
        lowered: makes the kernel of a program.

    Returns:
        The forms: `.h` the C header, `.ll`, `.s`, `.o`, and `.so`, which needs the system's linker.

    Raises:
        MsError: MS701, the name is none of a function in C.
        TargetError: MS452, several targets of which the processor cannot be asked; MS455, constants that schedules for
            buckets pack in other ways; or what `compile` raises.
    """
    # An object is called from C, too, whether its header is written or not.
    require_name(symbol(name))
    made = _Build(tuple(parts), name, about, allow_native, lowered)
    made.require_choosable()
    made.require_one_layout()
    return Library(
        MappingProxyType(
            {
                ".h": made.header,
                ".ll": lambda: made.ir.encode(),
                ".s": lambda: made.assembly,
                ".o": lambda: made.object,
                ".so": lambda: shared_library(made.object, made.symbol, made.triple),
            }
        )
    )


class _Build:
    """Makes each form when it is asked for."""

    def __init__(
        self,
        parts: tuple[LibraryPart, ...],
        name: str,
        about: str,
        allow_native: bool,
        lower: Callable[[Program, Target], object],
    ) -> None:
        self._parts, self._about, self._allow_native, self._lower = parts, about, allow_native, lower
        self.symbol = symbol(name)
        program = parts[0].program
        self._constants = constants(program)
        names = dict(zip((p.buffer.name for p in program.params), c_names(Signature.of_program(program)), strict=False))
        self._packers = {
            n: Packer(f"{self.symbol}_pack_{names[n]}", names[n], max(packed_bytes(p.program, n) for p in parts))
            for n in self._constants
        }
        base = machine(_baseline(parts[0].target))
        self.triple: str = base.triple
        # Another processor's assembler is not there to write the question.
        self._asks = all(t.startswith("x86_64") for t in (self.triple, machine(Target()).triple))

    def require_choosable(self) -> None:
        """Refuse several targets on processors that cannot be asked what they have."""
        others = {machine(_baseline(p.target)).triple for p in self._parts} - {self.triple}
        if others:
            why = f"they are {', '.join(sorted((self.triple, *others)))}"
            raise TargetError(problem("MS452", "one library is for one system and processor family", why=why))
        if sum(p.bucket is None for p in self._parts) > 1 and not self._asks:
            why = "code is chosen by the processor's features on x86-64 only"
            help = "build one library for each target"
            raise TargetError(
                problem("MS452", f"several targets cannot share a library on {self.triple}", why=why, help=help)
            )

    def require_one_layout(self) -> None:
        """Refuse constants that schedules for buckets of sizes pack in other ways than that for all sizes."""
        whole = self._parts[0]
        for part in self._parts:
            if part.bucket is None:
                whole = part
                continue
            pairs = zip(whole.program.params, part.program.params, strict=True)
            other = next((q for p, q in pairs if q.buffer.name in self._constants and p.packing != q.packing), None)
            if other is not None:
                message = f"schedules for different sizes pack the constant `{other.buffer.name}` in different ways"
                why = f"it is packed once, before the sizes of a call are known; for {part.bucket.text} in another way"
                help = "give all of them schedules with one layout, or leave out `const`"
                raise TargetError(problem("MS455", message, why=why, help=help))

    def header(self) -> bytes:
        """The C header."""
        program = self._parts[0].program
        signature = Signature.of_program(program)
        parallel = has_threads(self.triple) and any(c.variant.signature.parallel for c in self._codes)
        targets = tuple((p.target.name, self._features(p.target)) for p in self._parts if p.bucket is None)
        return header(self.symbol, signature, targets, self._about, parallel, self._packers).encode()

    def _features(self, target: Target) -> tuple[str, ...]:
        return checkable(target.features) if self._asks else tuple(sorted(target.features))

    @cached_property
    def _codes(self) -> tuple[_Code, ...]:
        return tuple(self._code(k, p) for k, p in enumerate(self._parts))

    def _code(self, number: int, part: LibraryPart) -> _Code:
        features = self._features(part.target)
        # The processor's name says for what to tune; only features that are asked for may be used.
        target = replace(part.target, features=features, cpu="x86-64" if self._asks else part.target.cpu)
        lowered = self._lower(part.program, target)
        assert isinstance(lowered, Module)
        module = self_packing(lowered, self._constants)
        if not self._allow_native:
            require_contained(module.body)
        packers = tuple(
            self._written(packer(lowered, n, f"{made.function}_v{number}"), target, part.target.cpu)
            for n, made in self._packers.items()
        )
        found = self._written(replace(module, name=f"{self.symbol}_v{number}"), target, part.target.cpu)
        return replace(found, variant=replace(found.variant, bucket=part.bucket), packers=packers)

    def _written(self, module: Module, target: Target, cpu: str) -> _Code:
        writer = ModuleWriter(module, target)
        text = writer.text()
        if self._asks:
            text = _attributed(text, target, cpu)
        variant = Variant(symbol(module.name), target.features, signature_of(module, writer))
        return _Code(variant, text, target, module.auto_vectorize)

    def _entries(self) -> tuple[Entry, ...]:
        """The kernel, and what packs its constants."""
        codes = self._codes
        found = [Entry(self.symbol, self._largest(codes[0].variant.signature), tuple(c.variant for c in codes))]
        for k, made in enumerate(self._packers.values()):
            variants = tuple(c.packers[k].variant for c in codes)
            found.append(Entry(made.function, self._largest(variants[0].signature), variants))
        return tuple(found)

    def _largest(self, signature: Signature) -> Signature:
        """A signature whose packed arrays are as large as any variant takes them."""
        return replace(
            signature,
            parameters=tuple(
                replace(p, shape=(Const(self._packers[p.name].bytes // size_of(p.dtype)),), strides=None)
                if p.name in self._packers
                else p
                for p in signature.parameters
            ),
        )

    @cached_property
    def _module(self) -> ModuleRef:
        """The whole library, optimised."""
        import llvmlite.binding as llvm

        codes = self._codes
        base = replace(_baseline(codes[0].target), features=() if self._asks else codes[0].target.features)
        threads = has_threads(self.triple) and any(c.variant.signature.parallel for c in codes)
        text = entries_ir(self._entries(), triple=self.triple, threads=threads, asks=self._asks)
        text += threads_ir(self.triple) if threads else ""
        with ONE_AT_A_TIME:
            whole = optimised(f'source_filename = "{self.symbol}.ms"\n{text}', base, True)
            linked = [c for code in codes for c in (code, *code.packers)]
            for code in linked:
                whole.link_in(optimised(code.text, code.target, code.auto_vectorize))
            for code in linked:
                for entry in (code.variant.entry, f"{code.variant.entry}.bench"):
                    whole.get_function(entry).linkage = "internal"
            passes = llvm.create_new_module_pass_manager()
            passes.add_global_dead_code_eliminate_pass()
            passes.run(whole, llvm.create_pass_builder(machine(base), llvm.create_pipeline_tuning_options()))
            whole.name = self.symbol
        self._base = base
        return whole

    @property
    def ir(self) -> str:
        """The module as LLVM IR."""
        with ONE_AT_A_TIME:
            return str(self._module)

    @property
    def assembly(self) -> bytes:
        """The module as assembly."""
        with ONE_AT_A_TIME:
            module = self._module
            text: str = machine(self._base).emit_assembly(module)
        return text.encode()

    @property
    def object(self) -> bytes:
        """The module as an object file."""
        with ONE_AT_A_TIME:
            module = self._module
            code: bytes = machine(self._base).emit_object(module)
        return code


def _baseline(target: Target) -> Target:
    """What every processor of a target's family has."""
    return Target(triple=target.triple)


_DEFINITION = re.compile(r"^(define\b[^{]*?)\{$", re.MULTILINE)


def _attributed(text: str, target: Target, tune: str) -> str:
    """A module of which every function is compiled for the features of a target, whatever the others are for."""
    features = ",".join(f"+{f}" for f in target.features)
    notes = f'"target-cpu"="{target.cpu}"'
    notes += f' "target-features"="{features}"' if features else ""
    notes += f' "tune-cpu"="{tune}"' if tune else ""
    return _DEFINITION.sub(lambda found: f"{found[1]}{notes} {{", text)
