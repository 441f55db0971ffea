"""Where the blocks of a program are written."""

from __future__ import annotations

from mslang.ide.declarations import Role, declarations
from mslang.sema.module import Found, Module
from mslang.syntax import tree


def block_lines(module: Module, program: str) -> dict[str, str]:
    """The place of each block of a program, as `gemm.ms:12`; empty if the module does not know the program.

    Args:
        module: the module that has or imports the program, or has a schedule for one that it names in full.
        program: its name.
    """
    found = next((x for x in (module.find(program), *_programs(module)) if _is(x, program)), None)
    if not isinstance(found, Found) or not isinstance(found.item, tree.Program):
        return {}
    text, start = found.module.file.text, found.placed.start
    name = found.module.path.replace("\\", "/").rpartition("/")[2]
    return {
        d.text: f"{name}:{text.count(chr(10), 0, start + d.span.start) + 1}"
        for d in declarations(found.item)
        if d.role is Role.BLOCK
    }


def _programs(module: Module) -> list[object]:
    """What the schedules of a module are for."""
    items = [p.item for p in module.file.items]
    named = [".".join(n.text for n in s.program) for s in items if isinstance(s, tree.Schedule) and s.program]
    return [module.find(name) for name in named]


def _is(thing: object, program: str) -> bool:
    return isinstance(thing, Found) and isinstance(thing.item, tree.Program) and thing.item.name.text == program
