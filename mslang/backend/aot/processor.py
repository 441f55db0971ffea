"""What a processor has, asked by the compiled code itself, so that it uses no instruction that is absent.

Sources: Intel's and AMD's manuals, the CPUID instruction; names of features are LLVM's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

WORDS = 11
"""Words that the code reads: registers of CPUID, then what the system saves of the registers (XCR0)."""

_XCR0 = 10
_AVX, _AVX512, _AMX = 0x6, 0xE6, 0x60000


def _bits(word: int, **bits: int) -> dict[str, tuple[int, int]]:
    return {name.replace("_", "-"): (word, bit) for name, bit in bits.items()}


FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType(
    _bits(0, sse3=0, pclmul=1, ssse3=9, fma=12, cx16=13, movbe=22, popcnt=23, aes=25, avx=28, f16c=29, rdrnd=30)
    | {"sse4.1": (0, 19), "sse4.2": (0, 20)}
    | _bits(1, cx8=8, cmov=15, mmx=23, fxsr=24, sse=25, sse2=26)
    | _bits(2, bmi=3, avx2=5, bmi2=8, avx512f=16, avx512dq=17, rdseed=18, adx=19, avx512ifma=21)
    | _bits(2, avx512cd=28, sha=29, avx512bw=30, avx512vl=31)
    | _bits(3, avx512vbmi=1, avx512vbmi2=6, gfni=8, vaes=9, vpclmulqdq=10, avx512vnni=11, avx512bitalg=12)
    | _bits(3, avx512vpopcntdq=14)
    | _bits(4, avx512vp2intersect=8, amx_bf16=22, avx512fp16=23, amx_tile=24, amx_int8=25)
    | _bits(5, sha512=0, sm3=1, sm4=2, avxvnni=4, avx512bf16=5, amx_fp16=21, avxifma=23)
    | _bits(6, avxvnniint8=4, avxneconvert=5, amx_complex=8, avxvnniint16=10)
    | _bits(7, sahf=0, lzcnt=5, sse4a=6, xop=11, fma4=16, tbm=21)
)
"""Where each feature that compiled code may rely on is: word and bit."""


def checkable(features: Iterable[str]) -> tuple[str, ...]:
    """The features that code can ask for. Others are of no use to kernels: code is compiled without them."""
    return tuple(sorted(f for f in features if f in FEATURES))


def masks(features: Iterable[str]) -> dict[int, int]:
    """The bits that must be set in each word for code that uses the features.

    >>> masks(["avx2"])
    {2: 32, 10: 6}
    """
    found: dict[int, int] = {}
    for f in sorted(features):
        word, bit = FEATURES[f]
        found[word] = found.get(word, 0) | 1 << bit
        saved = _AVX512 if f.startswith("avx512") else _AMX if f.startswith("amx") else _saved(f)
        if saved:
            found[_XCR0] = found.get(_XCR0, 0) | saved
    return dict(sorted(found.items()))


def _saved(feature: str) -> int:
    """The registers beyond SSE's that a feature works on."""
    return _AVX if feature.startswith("avx") or feature in ("fma", "f16c", "fma4", "xop", "vaes", "vpclmulqdq") else 0


_SOURCES = (
    (1, 0, 2), (1, 0, 3), (7, 0, 1), (7, 0, 2), (7, 0, 3), (7, 1, 0), (7, 1, 3), (0x80000001, 0, 2),
)  # fmt: skip
"""Leaf, subleaf and register (0: eax to 3: edx) of each word before the last ones."""


def processor_ir() -> str:
    """`@mslang.processor_words(ptr)`: writes the words. x86-64 only."""
    lines = [
        "define internal { i32, i32, i32, i32 } @mslang.cpuid(i32 %leaf, i32 %sub) {",
        '  %r = call { i32, i32, i32, i32 } asm sideeffect "cpuid",'
        ' "={ax},={bx},={cx},={dx},0,2,~{dirflag},~{fpsr},~{flags}"(i32 %leaf, i32 %sub)',
        "  ret { i32, i32, i32, i32 } %r",
        "}",
        "",
        "; The register of a leaf; 0 where the processor has no such leaf.",
        "define internal i32 @mslang.register(i32 %leaf, i32 %sub, i32 %which) {",
        "entry:",
        "  %base = and i32 %leaf, -2147483648",
        "  %top = call { i32, i32, i32, i32 } @mslang.cpuid(i32 %base, i32 0)",
        "  %last = extractvalue { i32, i32, i32, i32 } %top, 0",
        "  %there = icmp uge i32 %last, %leaf",
        "  br i1 %there, label %subleaf, label %none",
        "subleaf:",
        "  %first = call { i32, i32, i32, i32 } @mslang.cpuid(i32 %leaf, i32 0)",
        "  %subs = extractvalue { i32, i32, i32, i32 } %first, 0",
        "  %zero = icmp eq i32 %sub, 0",
        "  %has = icmp uge i32 %subs, %sub",
        "  %ask = or i1 %zero, %has",
        "  br i1 %ask, label %read, label %none",
        "read:",
        "  %all = call { i32, i32, i32, i32 } @mslang.cpuid(i32 %leaf, i32 %sub)",
        *(f"  %r{k} = extractvalue {{ i32, i32, i32, i32 }} %all, {k}" for k in range(4)),
        *(f"  %is{k} = icmp eq i32 %which, {k}" for k in range(3)),
        "  %c = select i1 %is2, i32 %r2, i32 %r3",
        "  %b = select i1 %is1, i32 %r1, i32 %c",
        "  %a = select i1 %is0, i32 %r0, i32 %b",
        "  ret i32 %a",
        "none:",
        "  ret i32 0",
        "}",
        "",
        "define internal void @mslang.processor_words(ptr %words) {",
        "entry:",
    ]
    for k, (leaf, sub, which) in enumerate(_SOURCES):
        signed = leaf - (1 << 32) if leaf >> 31 else leaf
        lines.append(f"  %w{k} = call i32 @mslang.register(i32 {signed}, i32 {sub}, i32 {which})")
        lines.append(f"  %p{k} = getelementptr i32, ptr %words, i64 {k}")
        lines.append(f"  store i32 %w{k}, ptr %p{k}")
    return "\n".join([*lines, _XCR0_IR])


_XCR0_IR = f"""  %p{_XCR0} = getelementptr i32, ptr %words, i64 {_XCR0}
  %osxsave = and i32 %w0, 134217728
  %readable = icmp ne i32 %osxsave, 0
  br i1 %readable, label %ask, label %none
ask:
  %x = call {{ i32, i32 }} asm sideeffect ".byte 0x0f, 0x01, 0xd0", "={{ax}},={{dx}},{{cx}},~{{flags}}"(i32 0)
  %low = extractvalue {{ i32, i32 }} %x, 0
  store i32 %low, ptr %p{_XCR0}
  ret void
none:
  store i32 0, ptr %p{_XCR0}
  ret void
}}
"""
