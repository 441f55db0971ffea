"""What an implementation in LLVM text may do: compute with intrinsics, and nothing else unless it is allowed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mslang as ms
from mslang.diagnostics import Diagnostic, MsError
from mslang.sema.modules import load

COPY = "%v = load <4 x float>, ptr {a}, align 4\nstore <4 x float> %v, ptr {b}, align 4\n"

FILE = """
intrin moved(a: f32[4], out b: f32[4]) {
    desc { block d[i: 4] { b[i] = a[i] } }
    impl llvm \"\"\"
        TEXT
    \"\"\"
}
program p(A: f32[8], out B: f32[8]) { block b[i: 8] { B[i] = A[i] } }
schedule s for p { let x, y = b.i.split([2, 4]) y.tensorize(moved) }
test "the instruction does what it says" { check implements(moved) }
use std.testing.{implements}
"""


def file_with(text: str) -> str:
    return FILE.replace("TEXT", text.replace("\n", "\n        "))


def built(text: str, allow_native: bool = False) -> None:
    ms.build(ms.parse(file_with(text)).space("s").sample(0).program, allow_native=allow_native)


def refused(text: str) -> Diagnostic:
    with pytest.raises(MsError) as caught:
        built(text)
    return caught.value.diagnostic


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("%r = call i32 @system(ptr {a})\n" + COPY + "declare i32 @system(ptr)", "it declares `system`"),
        (COPY + "declare i32 @system(ptr)", "it declares `system`"),
        ('call void asm sideeffect "hlt", ""()\n' + COPY, "inline assembly"),
        ("%f = inttoptr i64 4096 to ptr\ncall void %f()\n" + COPY, "it holds `%x1 = inttoptr"),
        ("call void inttoptr (i64 4096 to ptr)()\n" + COPY, "it calls an address"),
        ("call void {a}()\n" + COPY, "it calls an address"),
        ("store i32 0, ptr inttoptr (i64 4096 to ptr)\n" + COPY, "inttoptr"),
        ("%q = load ptr, ptr {a}\n" + COPY, "an address from elsewhere"),
        ("%q = load {ptr, i64}, ptr {a}\n" + COPY, "an address from elsewhere"),
        ("%n = ptrtoint ptr {a} to i64\n" + COPY, "it holds"),
        ("%q = addrspacecast ptr {a} to ptr addrspace(257)\n" + COPY, "it holds"),
        ("ret i32 0\nnext:\n" + COPY, "it leaves the kernel"),
        ("unreachable\nnext:\n" + COPY, "it holds `unreachable`"),
        (COPY + "ret i32 0\n}\ndefine i32 @other() {", "it defines functions"),
        ('call void @llvm.write_register.i64(metadata !{!"rsp"}, i64 0)\n' + COPY
         + "declare void @llvm.write_register.i64(metadata, i64)", "it declares `llvm.write_register.i64`"),
        ("call void @llvm.x86.int(i8 -128)\n" + COPY + "declare void @llvm.x86.int(i8)", "llvm.x86.int"),
        ("%r = call ptr @llvm.returnaddress(i32 0)\n" + COPY + "declare ptr @llvm.returnaddress(i32)",
         "it declares `llvm.returnaddress"),
        ("call void @other(ptr {a})\n" + COPY + "declare extern_weak void @other(ptr)", "it declares `other`"),
    ],
)  # fmt: skip
def test_what_is_more_than_computing_is_refused(text: str, why: str):
    found = refused(text)
    assert found.code == "MS422" and why in (found.why or ""), found
    assert "--allow-native" in (found.help or "")


@pytest.mark.parametrize(
    "text",
    [
        COPY + '}\n@cmd = private constant [3 x i8] c"id\\00"\ndefine void @other() {',
        COPY + '}\nmodule asm "nop"\ndefine void @other() {',
        "%r = call i32 @undeclared(ptr {a})\n" + COPY,
        "not an instruction",
    ],
)
def test_what_is_no_list_of_instructions_is_refused(text: str):
    assert refused(text).code in ("MS422", "MS423")


@pytest.mark.parametrize(
    "text",
    [
        COPY,
        "%v = load <4 x float>, ptr {a}, align 4\n"
        "%w = call <4 x float> @llvm.fma.v4f32(<4 x float> %v, <4 x float> splat (float 1.0), <4 x float> splat"
        " (float 0.0))\nstore <4 x float> %w, ptr {b}, align 4\n"
        "declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)",
        "call void @llvm.memcpy.p0.p0.i64(ptr {b}, ptr {a}, i64 16, i1 false)\n"
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        "%t = alloca [4 x float], align 16\n%v = load <4 x float>, ptr {a}, align 4\n"
        "store <4 x float> %v, ptr %t, align 16\n%w = load <4 x float>, ptr %t, align 16\n"
        "store <4 x float> %w, ptr {b}, align 4",
    ],
)
def test_what_computes_is_compiled(text: str):
    built(text)


def test_native_code_is_compiled_where_it_is_allowed():
    built("%r = call i64 @time(ptr null)\n" + COPY + "declare i64 @time(ptr)", allow_native=True)


def test_the_library_stays_within_what_is_allowed():
    from msgspec.structs import replace

    from mslang.backend.llvm.containment import require_contained
    from mslang.lower.passes import lower
    from mslang.resources import stdlib_folder
    from mslang.sema.named_intrin import library_intrin
    from mslang.target.description import AVX512
    from mslang.transform.primitives.tensorize import as_instruction

    checked = 0
    for path in sorted((stdlib_folder() / "cpu").glob("*.ms")):
        for name, placed in load(str(path)).items.items():
            if type(placed.item).__name__ == "Intrin":
                intrin = replace(library_intrin(f"std.cpu.{path.stem}.{name}"), program=None, guard=None)
                if intrin.texts:
                    require_contained(lower(as_instruction(intrin), AVX512).body)
                    checked += 1
    assert checked >= 8


@pytest.mark.parametrize("verb", [["run", "FILE:s"], ["test", "FILE"], ["show", "FILE:s", "--stage", "asm"]])
def test_the_command_line_refuses_and_allows(verb: list[str], tmp_path: Path):
    path = tmp_path / "evil.ms"
    mark = tmp_path / "written"
    words = [int.from_bytes(f"{mark}\0".encode().ljust(256, b"\0")[k : k + 8], "little") for k in range(0, 256, 8)]
    stores = "".join(
        f"%p{k} = getelementptr i64, ptr %t, i64 {k}\nstore i64 {w}, ptr %p{k}\n" for k, w in enumerate(words)
    )
    path.write_text(
        file_with(f"%t = alloca [32 x i64], align 8\n{stores}%r = call i32 @creat(ptr %t, i32 438)\n{COPY}"
                  "declare i32 @creat(ptr, i32)"), encoding="utf-8"
    )  # fmt: skip
    command = [sys.executable, "-m", "mslang", *(v.replace("FILE", str(path)) for v in verb)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    assert "implementation of `moved`" in done.stdout + done.stderr and not mark.exists()
    done = subprocess.run([*command, "--allow-native"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert mark.exists() == (verb[0] != "show")
