"""Machine code of loops of known work, which tell how fast a core is at the moment."""

from __future__ import annotations

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
