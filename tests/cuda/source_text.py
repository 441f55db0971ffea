"""What of a CUDA C file g++ cannot take as it is, in a form that it can: dynamic shared memory and inline PTX."""

from __future__ import annotations

import re

KERNEL = re.compile(r"__global__\s+(?:void\s+)?(?:__launch_bounds__\s*\([^)]*\)\s*)?(?:void\s+)?(\w+)\s*\(")
KERNEL_LINKAGE = re.compile(r'extern\s+"C"\s+__global__')
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*", re.MULTILINE)
_DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?:__align__\s*\(\w+\)\s+|alignas\s*\(\w+\)\s+)?([\w ]+?)\s+"
    r"(?:__align__\s*\(\w+\)\s+)?(\w+)\s*\[\s*\]\s*;"
)
_ASM = re.compile(r"\b(?:asm|__asm__)\s*(?:volatile|__volatile__)?\s*\(")
_STRING = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')
_OPERAND = re.compile(r'\s*"[=+]?&?\w+"\s*\(')
_INSTRUCTION = re.compile(r"(?:@(!?)(\S+)\s+)?([\w.:]+)\s*(.*)$", re.DOTALL)
_WORD = re.compile(r"%(\d+)|%?([A-Za-z_]\w*)|(-?(?:0x[0-9a-fA-F]+|\d+))")
_REGISTERS = {
    "pred": "bool",
    "b32": "unsigned",
    "u32": "unsigned",
    "s32": "int",
    "b64": "unsigned long long",
    "f32": "float",
}


def kernels(source: str) -> tuple[str, ...]:
    """The names of the kernels that a file defines, in order."""
    return tuple(dict.fromkeys(KERNEL.findall(source)))


def for_cpu(source: str) -> str:
    """The file with dynamic shared memory as a pointer and PTX instructions as calls; lines stay where they are."""
    dynamic = _DYNAMIC.sub(lambda m: f"{m[1]}* const {m[2]} = ({m[1]}*)emulated_dynamic_shared();", source)
    pieces, end = [], 0
    for found in _ASM.finditer(dynamic):
        if found.start() < end:
            continue
        close = _closing(dynamic, found.end() - 1)
        pieces += [dynamic[end : found.start()], _calls(dynamic[found.end() : close])]
        pieces.append("\n" * dynamic.count("\n", found.start(), close))
        end = dynamic.index(";", close) + 1
    return "".join([*pieces, dynamic[end:]])


def _closing(text: str, at: int) -> int:
    """Where the parenthesis that opens at `at` closes; strings are passed over."""
    depth, i = 0, at
    while i < len(text):
        if text[i] == '"':
            i = _STRING.match(text, i).end() - 1  # type: ignore[union-attr]
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
        i += 1
    raise ValueError("a parenthesis is not closed")


def _calls(inside: str) -> str:
    template, at = "", 0
    while m := _STRING.match(inside, at):
        template, at = template + m[1].replace("\\n", "\n").replace("\\t", " "), m.end()
    operands = []
    while m := _OPERAND.search(inside, at):
        close = _closing(inside, m.end() - 1)
        operands.append(inside[m.end() : close])
        at = close + 1
    return "{ " + " ".join(_call(i.strip(), operands) for i in re.split(r"[;\n]", _bare(template)) if i.strip()) + " }"


def _bare(template: str) -> str:
    """The instructions without the braces of their scope; those of register lists stay."""
    text = template.strip()
    return text[1:-1] if text.startswith("{") and ";" in text and text.endswith("}") else text


def _call(instruction: str, operands: list[str]) -> str:
    if declared := re.match(r"\.reg\s*\.(\w+)\s+(.*)", instruction):
        return f"{_REGISTERS[declared[1]]} {declared[2].replace('%', '')};"
    m = _INSTRUCTION.match(instruction)
    if m is None:
        raise ValueError(f"not a PTX instruction: {instruction}")
    negated, condition, mnemonic, rest = m.groups()
    words = [operands[int(n)] if n else name or number for n, name, number in _WORD.findall(rest)]
    arguments = ["ptx::unused" if word == "_" else word for word in words]
    guard = f"if ({negated}({condition.lstrip('%')})) " if condition else ""
    name = re.sub(r"\W+", "_", mnemonic).replace("__", "_")
    return f"{guard}ptx::{name}({', '.join(['__LINE__', *arguments])});"
