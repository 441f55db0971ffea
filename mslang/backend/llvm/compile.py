"""Kernels to machine code through LLVM: text, a few passes chosen for what they cost, an object."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.backend.llvm import half
from mslang.backend.llvm.containment import require_contained
from mslang.backend.llvm.module import ModuleWriter
from mslang.backend.llvm.source_lines import SourceLine, SourceLines
from mslang.backend.llvm.triple import X86_64, processor_of, triple_of
from mslang.diagnostics import MsError, TargetError, problem
from mslang.ir.origins import Origin
from mslang.kernel.nodes import Module
from mslang.runtime.llvm_lock import ONE_AT_A_TIME
from mslang.runtime.signature import Parameter, Signature
from mslang.target.description import Target

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef, TargetMachine


class Executable(msgspec.Struct, frozen=True):
    """A compiled kernel: an object to link, how to call it, and the module it came from."""

    object: bytes
    llvm: str
    signature: Signature
    target: Target
    auto_vectorize: bool = False
    lines: tuple[SourceLine, ...] = ()
    """The statements that the debug locations of the module name, if it was compiled with them."""

    @property
    def assembly(self) -> str:
        """The machine code as text."""
        with ONE_AT_A_TIME:
            text: str = machine(self.target).emit_assembly(optimised(self.llvm, self.target, self.auto_vectorize))
        return text


def compile(
    kernel: Module,
    target: Target,
    allow_native: bool = False,
    lines: bool = False,
    origins: tuple[Origin, ...] = (),
) -> Executable:
    """The kernel as machine code for the target.

    Args:
        kernel: what to compile; if it is `checked`, every index is compared with its dimension.
        target: the machine.
        allow_native: whether implementations in LLVM text may do more than compute: call functions, hold assembly.
        lines: whether instructions know the statement that they come from.
        origins: the blocks of the program, so that statements know where they are written.

    Raises:
        MsError: MS401, LLVM refuses the module (a fault of this compiler); MS419, MS422, MS423, an implementation
            does what it may not, or is not LLVM text.
        TargetError: MS402, LLVM cannot generate code for the target.
    """
    if not allow_native:
        require_contained(kernel.body)
    writer = ModuleWriter(kernel, target, SourceLines(origins) if lines else None)
    text = writer.text()
    signature = signature_of(kernel, writer)
    with ONE_AT_A_TIME:
        code: bytes = machine(target).emit_object(optimised(text, target, kernel.auto_vectorize))
    known = () if writer.functions.lines is None else tuple(writer.functions.lines.lines)
    return Executable(code, text, signature, target, kernel.auto_vectorize, known)


def signature_of(kernel: Module, writer: ModuleWriter) -> Signature:
    """How a kernel is called whose text was written."""
    return Signature(
        kernel.name,
        tuple(map(Parameter.of, kernel.params)),
        kernel.dynamic,
        writer.workspace,
        writer.functions.worker_workspace,
        bool(writer.functions.tasks),
        () if writer.functions.guard is None else tuple(writer.functions.guard.accesses),
        any("x86_amx" in line for line in writer.functions.declarations.lines),
    )


@lru_cache(maxsize=8)
def machine(target: Target, tuning: tuple[str, ...] = ()) -> TargetMachine:
    """LLVM's code generator for a target; `tuning` says what is slow there, in names of features of LLVM's."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    triple = triple_of(target)
    try:
        found = llvm.Target.from_triple(triple)
        features = ",".join(f"+{f}" for f in (*target.features, *tuning))
        # Of a model whose features are listed, only those may be used: a virtual machine may hide some of the others.
        cpu = "x86-64" if target.features and processor_of(triple) == X86_64 else target.cpu
        return found.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="small")
    except RuntimeError as error:
        raise TargetError(problem("MS402", f"LLVM has no code generator for {triple}", why=str(error))) from error


def optimised(text: str, target: Target, auto_vectorize: bool = False) -> ModuleRef:
    """A module's text, parsed and optimised: by a few passes, or by all of LLVM's.

    Raises:
        MsError: MS401, LLVM refuses the text.
    """
    import llvmlite.binding as llvm

    tm = machine(target)
    header = f'target triple = "{tm.triple}"\ntarget datalayout = "{tm.target_data}"\n'
    try:
        module = llvm.parse_assembly(header + text + half.conversions(text, target, tm.triple))
        module.verify()
    except RuntimeError as error:
        raise MsError(
            problem(
                "MS401",
                "LLVM rejects the module generated from this program",
                why=str(error),
                help="this is a bug in mslang's code generator: please report it with the program",
            )
        ) from error
    if auto_vectorize:
        _all_passes(module, target)
        return module
    passes, builder = _passes(target)
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module


def _all_passes(module: ModuleRef, target: Target) -> None:
    """LLVM's own optimisation of a module, its loop transformations among it.

    On AMD's Zen a gather or scatter takes longer than its scalar accesses, but LLVM's costs are those of Intel's cores:
    it vectorized across the rows of a matrix where a row was unrolled, and the loop ran 200 times as long.
    """
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = True
    options.loop_interleaving = True
    tuning = ("prefer-no-gather", "prefer-no-scatter") if target.cpu.startswith("znver") else ()
    builder = llvm.create_pass_builder(machine(target, tuning), options)
    builder.getModulePassManager().run(module, builder)


@lru_cache(maxsize=8)
def _passes(target: Target) -> tuple[Any, Any]:
    """Registers for local buffers, sums kept in registers over a loop, what does not vary moved out of it.

    Nothing that unrolls or vectorises: schedules do that.
    """
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(machine(target), options)
    return builder.getFunctionPassManager(), builder
