"""f16 on x86 without its conversions (F16C): the functions that LLVM calls in their place, written out in a module.

LLVM computes with f16 in f32 and calls `__extendhfsf2` and `__truncsfhf2` of its runtime library to convert. A process
that loads a kernel need not have them; C libraries have them since GCC 12.
"""

from __future__ import annotations

from mslang.backend.llvm.triple import X86_64, processor_of
from mslang.target.description import Target


def conversions(text: str, target: Target, triple: str) -> str:
    """The functions that a module needs to convert f16, or nothing where instructions do it.

    Args:
        text: the module.
        target: what it is compiled for.
        triple: the system and processor family, as LLVM names them.
    """
    native = processor_of(triple) not in (X86_64, "x86") or target.has("f16c") or target.has("avx512fp16")
    return "" if native or "half" not in text else _CONVERSIONS


# Rounding to nearest, ties to even. Smaller than 2^-14, where f16 is subnormal, adding 0.5 rounds: the last bit of
# 0.5 in f32 is 2^-24, as in a subnormal f16.
_CONVERSIONS = """
define weak_odr hidden float @__extendhfsf2(half %x) nounwind {
  %bits = bitcast half %x to i16
  %wide = zext i16 %bits to i32
  %signed = and i32 %wide, 32768
  %sign = shl i32 %signed, 16
  %rest = and i32 %wide, 32767
  %shifted = shl i32 %rest, 13
  %normal = add i32 %shifted, 939524096
  %count = uitofp i32 %rest to float
  %small = fmul float %count, 0x3E70000000000000
  %small.bits = bitcast float %small to i32
  %is.small = icmp ult i32 %rest, 1024
  %finite = select i1 %is.small, i32 %small.bits, i32 %normal
  %special = or i32 %shifted, 2139095040
  %quiet = or i32 %special, 4194304
  %is.nan = icmp ugt i32 %rest, 31744
  %unbounded = select i1 %is.nan, i32 %quiet, i32 %special
  %is.unbounded = icmp uge i32 %rest, 31744
  %magnitude = select i1 %is.unbounded, i32 %unbounded, i32 %finite
  %result = or i32 %magnitude, %sign
  %y = bitcast i32 %result to float
  ret float %y
}

define weak_odr hidden half @__truncsfhf2(float %x) nounwind {
  %bits = bitcast float %x to i32
  %rest = and i32 %bits, 2147483647
  %top = lshr i32 %bits, 16
  %sign = and i32 %top, 32768
  %rebased = sub i32 %rest, 939524096
  %cut = lshr i32 %rebased, 13
  %odd = and i32 %cut, 1
  %half = add i32 %odd, 4095
  %rounded = add i32 %rebased, %half
  %normal = lshr i32 %rounded, 13
  %magnitude = bitcast i32 %rest to float
  %added = fadd float %magnitude, 5.0e-1
  %added.bits = bitcast float %added to i32
  %small = sub i32 %added.bits, 1056964608
  %is.small = icmp ult i32 %rest, 947912704
  %finite = select i1 %is.small, i32 %small, i32 %normal
  %is.large = icmp uge i32 %rest, 1199570944
  %bounded = select i1 %is.large, i32 31744, i32 %finite
  %payload = lshr i32 %rest, 13
  %payload.low = and i32 %payload, 1023
  %nan = or i32 %payload.low, 32256
  %is.nan = icmp ugt i32 %rest, 2139095040
  %chosen = select i1 %is.nan, i32 %nan, i32 %bounded
  %result = or i32 %chosen, %sign
  %short = trunc i32 %result to i16
  %y = bitcast i16 %short to half
  ret half %y
}
"""
