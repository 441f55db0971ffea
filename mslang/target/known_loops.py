"""Machine code of loops of known work, which tell how fast a core is at the moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def compiled(text: str, *names: str) -> tuple[Any, ...]:
    """Compile functions for this machine.

    Args:
        text: a module of LLVM IR without a target.
        names: its functions that are called.

    Returns what keeps the machine code alive, and the address of each function.

    Example:
        >>> _, address = compiled("define i64 @one() {\\n  ret i64 1\\n}", "one")
        >>> ctypes.CFUNCTYPE(ctypes.c_int64)(address)()
        1
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
    )
    module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{text}')
    jit = llvm.create_lljit_compiler(use_jit_link=True)  # as `mslang.runtime.linker` does
    builder = llvm.JITLibraryBuilder().add_object_img(machine.emit_object(module))
    for name in names:
        builder = builder.export_symbol(name)
    library = builder.link(jit, names[0])
    return ((jit, library), *(library[name] for name in names))


def counted_loop(
    head: str, entry: Sequence[str], phis: Sequence[str], steps: Sequence[str], after: Sequence[str], end: str
) -> list[str]:
    """The lines of a function of a number of rounds `%n`, which runs a loop as often; `%i` counts the rounds.

    Args:
        head: the function's name, type and attributes, up to the brace.
        entry: what runs before the loop.
        phis: what the loop passes on from round to round.
        steps: its body.
        after: what runs after the loop.
        end: the function's last instruction.
    """
    return [
        f"{head} {{",
        "entry:",
        *entry,
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]",
        *phis,
        *steps,
        "  %i.next = add i64 %i, 1",
        "  %more = icmp slt i64 %i.next, %n",
        "  br i1 %more, label %loop, label %done",
        "done:",
        *after,
        f"  {end}",
        "}",
    ]
