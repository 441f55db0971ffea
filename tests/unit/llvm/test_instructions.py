"""Intrinsics as LLVM text: what is put in place, with which names, and what is refused."""

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.llvm.compile import compile
from mslang.diagnostics import MsError, TargetError
from mslang.ir.expr import Const
from mslang.ir.intrin import Formal, Guard, Recorded
from mslang.kernel.print import print_module
from mslang.lower.instructions import CUDA as CUDA_TEXTS
from mslang.lower.instructions import InstructionTexts, text_for, why_lacking
from mslang.lower.passes import lower
from mslang.runtime.kernel import load
from mslang.sema.intrin import parse_intrin
from mslang.sema.named_intrin import library_intrin
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, CUDA
from mslang.target.detect import host
from mslang.transform.outcome import LoopRef
from mslang.transform.primitives.loops import split
from mslang.transform.primitives.tensorize import as_instruction, tensorize
from tests.unit.transform.programs import loop, sizes

# A loop in the text: sums rows of 4, however far apart they are.
SUMS = parse_intrin(
    "intrin sums(a: f32[4, 4], inout s: f32[4]) on cpu {\n"
    "    desc { block d[i: 4 | k: 4] { s[i] += a[i, k] } }\n"
    '    impl llvm """\n'
    "        br label %next  ; from the start\n"
    "    next:\n"
    "        %i = phi i64 [ 0, {entry} ], [ %j, %next ]\n"
    "        %o = mul i64 %i, {a.stride}\n"
    "        %p = getelementptr float, ptr {a}, i64 %o\n"
    "        %v = load <4 x float>, ptr %p, align 4\n"
    "        %q = getelementptr float, ptr {s}, i64 %i\n"
    "        %x = load float, ptr %q, align 4\n"
    "        %r = call reassoc float @llvm.vector.reduce.fadd.v4f32(float %x, <4 x float> %v)\n"
    "        store float %r, ptr %q, align 4\n"
    "        %j = add i64 %i, 1\n"
    "        %more = icmp slt i64 %j, 4\n"
    "        br i1 %more, label %next, label %done\n"
    "    done:\n"
    "        declare float @llvm.vector.reduce.fadd.v4f32(float, <4 x float>)\n"
    '    """\n}\n'
)

ROWS = parse_program(
    "program rows(A: f32[8, 12], out S: f32[8]) {\n    for i in 8, k in 12 {\n"
    "        block s[x: 8 = i | y: 12 = k] { S[x] += A[x, y] }\n    }\n}\n"
)


def tiled(intrin=SUMS):
    p = split(ROWS, loop("i"), sizes(None, 4)).program
    p = split(p, loop("k"), sizes(None, 4)).program
    from mslang.transform.primitives.loops import reorder

    p = reorder(p, [LoopRef(n) for n in ("i_0", "k_0", "i_1", "k_1")]).program
    return tensorize(p, loop("i_1"), intrin).program


def result(program, checked=False):
    made = compile(lower(program, host(), checked=checked), host())
    a = np.arange(96, dtype=np.float32).reshape(8, 12) % 7
    s = np.full(8, np.nan, np.float32)
    load(made.object, made.signature).bind(A=a, S=s).run()
    return s, a.sum(axis=1)


@pytest.mark.parametrize("checked", [False, True])
def test_a_text_with_a_loop_put_in_place_several_times(checked):
    found, wanted = result(tiled(), checked)
    assert np.array_equal(found, wanted)


OPERANDS_IN_A_PHI = """
    br label %next
next:
    %i = phi i64 [ 0, {entry} ], [ %j, %next ]
    %row = phi ptr [ {a}, {entry} ], [ %below, %next ]
    %v = load <4 x float>, ptr %row, align 4
    %sum = call float @llvm.vector.reduce.fadd.v4f32(float 0.0, <4 x float> %v)
    %at = getelementptr float, ptr {s}, i64 %i
    %old = load float, ptr %at, align 4
    %new = fadd float %old, %sum
    store float %new, ptr %at, align 4
    %below = getelementptr float, ptr %row, i64 {a.stride}
    %j = add i64 %i, 1
    %more = icmp slt i64 %j, 4
    br i1 %more, label %next, label %done
done:
    declare float @llvm.vector.reduce.fadd.v4f32(float, <4 x float>)
"""

OPERANDS_BEHIND_LABELS = """
    %c = icmp eq i64 {a.stride}, 12
    br i1 %c, label %yes, label %no
yes:
    %p = load float, ptr {a}, align 4
    br label %no
no:
    %q = load float, ptr {a}, align 4
    %r = fadd float %q, 0.0
"""


def test_operands_are_known_behind_every_label():
    found, wanted = result(tiled(replace(SUMS, texts=(("llvm", OPERANDS_IN_A_PHI),))))
    assert np.array_equal(found, wanted)
    compile(lower(with_text(OPERANDS_BEHIND_LABELS), host()), host())


def test_the_text_is_in_the_module_and_its_meaning_where_all_is_checked():
    kernel = lower(tiled(), host())
    assert "reduce.fadd" in compile(kernel, host()).llvm
    assert "reduce.fadd" not in compile(lower(tiled(), host(), checked=True), host()).llvm
    assert "sums(A[" in print_module(kernel)


def with_text(text):
    return as_instruction(replace(SUMS, texts=(("llvm", text),)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("store float 0.0, ptr {b}", "the operand `b`"),
        ("%x = mul i64 {s.stride1}, 2", "dimension 1 of `s`"),
        ("%x = add i64 %y, 2", "the value `%y`"),
    ],
)
def test_names_that_stand_for_nothing(text, says):
    with pytest.raises(MsError) as found:
        compile(lower(with_text(text), host()), host())
    assert found.value.diagnostic.code == "MS419" and says in found.value.diagnostic.message


def test_memory_that_has_changed():
    declared = parse_intrin(SUMS.text.replace("a: f32[4, 4]", "a: f32[4, 4] @ global(strides = [4, 1])"))
    program = as_instruction(declared)
    assert compile(lower(program, host()), host()).object
    (first, second) = program.params
    wide = replace(first, buffer=replace(first.buffer, strides=(Const(8), Const(1))))
    with pytest.raises(MsError) as found:
        compile(lower(replace(program, params=(wide, second)), host()), host())
    assert found.value.diagnostic.code == "MS419" and "strides differ" in (found.value.diagnostic.why or "")


def test_a_text_that_llvm_refuses():
    with pytest.raises(MsError) as found:
        compile(lower(with_text("not an instruction"), host()), host())
    assert found.value.diagnostic.code == "MS423"


def test_a_target_that_lacks_it():
    program = as_instruction(library_intrin("std.cpu.dot.u8s8_vnni"))
    with pytest.raises(TargetError) as found:
        lower(program, AVX2)
    assert found.value.diagnostic.code == "MS418" and "avx512vnni" in (found.value.diagnostic.why or "")
    with pytest.raises(TargetError) as found:
        lower(as_instruction(library_intrin("std.cuda.wmma.fill_f32")), host())
    assert found.value.diagnostic.code == "MS418" and "a cpu" in (found.value.diagnostic.why or "")


def test_no_text_for_the_back_end():
    with pytest.raises(TargetError) as found:
        lower(as_instruction(replace(SUMS, texts=(("cuda", "f({a});"),))), host())
    assert found.value.diagnostic.code == "MS417"


def test_what_can_be_emulated_is_compiled_as_it_is():
    record = Recorded("x", (Formal("a", "f32"),), Guard("cuda", ("sm >= 70",)), True, {"cuda": "f({a});"})
    assert text_for(record, host()) is None
    assert text_for(record, host(), CUDA_TEXTS) is None
    ampere = replace(CUDA, extra=(("arch", "sm_80"),))
    assert text_for(record, ampere, CUDA_TEXTS) == text_for(record, ampere, InstructionTexts()) == "f({a});"
    assert text_for(record, ampere) is None


@pytest.mark.parametrize(
    ("guard", "target", "lacks"),
    [
        (Guard("cpu"), AVX2, None),
        (Guard("avx2"), AVX2, None),
        (Guard("cpu", ("avx512bw",)), AVX512, None),
        (Guard("cpu", ("avx512bw",)), AVX2, "it needs `avx512bw`"),
        (Guard("cpu", ("vector_bits >= 512",)), AVX2, "it needs `vector_bits >= 512`"),
        (Guard("cpu", ("vector_bits >= 256", "registers == 16")), AVX2, None),
        (Guard("cuda", ("sm >= 70",)), CUDA, "it needs `sm >= 70`"),
        (Guard("cuda", ("sm >= 70",)), replace(CUDA, extra=(("arch", "sm_80"),)), None),
        (Guard("cuda"), AVX2, "it is for `cuda`; the target is a cpu"),
    ],
)
def test_guards(guard, target, lacks):
    assert why_lacking(guard, target) == lacks


def test_rows_that_an_instruction_relies_on_are_not_padded():
    first = parse_intrin(
        "intrin first(a: f32[4, 12] @ local(strides = [12, 1]), inout s: f32[4]) on cpu {\n"
        "    desc { block d[i: 4 | k: 12] { s[i] += a[i, k] } }\n"
        '    impl llvm """%v = load float, ptr {a}, align 4"""\n}\n'
    )
    program = parse_program("""program rows(A: f32[4, 12], out S: f32[4]) {
        alloc t: f32[4, 12] @ local
        for i in 4, k in 12 { block c[x: 4 = i, y: 12 = k] { t[x, y] = A[x, y] } }
        for m in 4, n in 12 { block s[x: 4 = m | y: 12 = n] { S[x] += t[x, y] } }
    }""")
    made = compile(lower(tensorize(program, loop("m"), first).program, AVX512), AVX512)
    assert "alloca [48 x float]" in made.llvm


def test_a_buffer_keeps_the_strides_that_an_instruction_relies_on_where_less_of_it_is_needed():
    first = parse_intrin(
        "intrin first(a: f32[4, 16] @ global(strides = [32, 1]), inout s: f32[4]) on cpu {\n"
        "    desc { block d[i: 4 | k: 16] { s[i] += a[i, k] } }\n"
        '    impl llvm """%v = load float, ptr {a}, align 4"""\n}\n'
    )
    program = parse_program("""program rows(A: f32[8, 32], inout S: f32[8]) {
        alloc t: f32[8, 32]
        for g in 2, h in 2 {
            for i in 4, k in 16 { block c[x: 8 = g * 4 + i, y: 32 = h * 16 + k] { t[x, y] = A[x, y] } }
            for m in 4, n in 16 { block s[x: 8 = g * 4 + m | y: 32 = h * 16 + n] { init {} S[x] += t[x, y] } }
        }
    }""")
    kernel = lower(tensorize(program, loop("m"), first).program, AVX512)
    compile(kernel, AVX512)
    assert "alloc t: f32[4, 32]" in print_module(kernel)
