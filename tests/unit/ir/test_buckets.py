"""Buckets of dynamic sizes: stated, powers of two, several sizes; programs for a bucket and at numbers."""

from __future__ import annotations

import pytest

import mslang as ms
from mslang.diagnostics import MsError
from mslang.ir.buckets import at_sizes, buckets_of, restricted
from mslang.ir.equal import workload_hash
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.sema.program import parse_program


def program(*sizes: str) -> Program:
    names = [s.replace("=", ":").partition(":")[0].strip() for s in sizes]
    shape = ", ".join(names)
    axes = ", ".join(f"x{k}: {n}" for k, n in enumerate(names))
    at = ", ".join(f"x{k}" for k in range(len(names)))
    body = f"block b[{axes}] {{ C[{at}] = 1.0 }}"
    return parse_program(f"program p[{', '.join(sizes)}](out C: f32[{shape}]) {{ {body} }}")


def texts(*sizes: str) -> list[str]:
    return [b.text for b in buckets_of(program(*sizes))]


def test_buckets_end_at_powers_of_two_or_where_the_program_says():
    assert texts("M: dyn(5..40)") == ["M = 5..8", "M = 9..16", "M = 17..32", "M = 33..40"]
    assert texts("M: dyn(1..40, buckets = [7, 8])") == ["M = 1..7", "M = 8", "M = 9..40"]
    assert texts("M: dyn(8..64, multiple = 8)") == ["M = 8", "M = 9..16", "M = 17..32", "M = 33..64"]
    assert texts("M: dyn(3..3)") == ["M = 3"]
    assert texts("M = 4") == []


def test_several_sizes_make_no_more_than_16_buckets_unless_stated():
    both = texts("M: dyn(1..4096)", "N: dyn(1..4096)")
    assert both[0] == "M = 1, N = 1" and both[-1] == "M = 257..4096, N = 257..4096" and len(both) == 16
    assert len(texts("M: dyn")) <= 16
    stated = ", ".join(map(str, range(1, 20)))
    assert len(texts(f"M: dyn(1..99, buckets = [{stated}])")) == 20


def test_every_size_lies_in_one_bucket():
    p = program("M: dyn(3..50, multiple = 3)", "N: dyn(1..9, buckets = [4])")
    found = buckets_of(p)
    for m in range(3, 51, 3):
        for n in range(1, 10):
            assert sum(b.holds({"M": m, "N": n}) for b in found) == 1
    for b in found:
        for sizes in b.typical:
            assert b.holds(sizes) and sizes["M"] % 3 == 0
            at_sizes(restricted(p, b), sizes)


def test_a_program_for_a_bucket_is_a_program_of_that_range():
    p = program("M: dyn(1..40, buckets = [8])")
    assert "dyn(1..40, buckets = [8])" in print_program(p) and parse_program(print_program(p)) == p
    low, high = (restricted(p, b) for b in buckets_of(p))
    assert low == program("M: dyn(1..8)") and high == program("M: dyn(9..40)")
    # Where others lie does not count: records of a bucket serve wherever it occurs.
    other = program("M: dyn(1..99, buckets = [8, 12])")
    assert workload_hash(restricted(other, buckets_of(other)[0])) == workload_hash(low) != workload_hash(high)


def test_a_program_at_numbers_is_the_program_with_these_sizes():
    p = program("M: dyn(1..40)")
    made = at_sizes(p, {"M": 12})
    assert not made.dynamic and made.params[0].buffer.shape == program("M = 12").params[0].buffer.shape
    for sizes, why in (({"M": 41}, r"M = 41 is outside.*1\.\.40"), ({"M": 0}, "M = 0"), ({}, "no value")):
        with pytest.raises(MsError, match=rf"(?s)MS112.*{why}"):
            at_sizes(p, sizes)


@pytest.mark.parametrize(
    ("stated", "why"),
    [
        ("[]", None),
        ("[8, 4]", "4 does not end a bucket"),
        ("[40]", "40 does not end a bucket"),
        ("[0]", "0 does not end a bucket"),
        ("8", "a list of sizes"),
    ],
)
def test_stated_buckets_ascend_within_the_range(stated: str, why: str | None):
    text = f"program p[M: dyn(1..40, buckets = {stated})](out C: f32[M]) {{ block b[i: M] {{ C[i] = 1.0 }} }}"
    if why is None:
        ms.parse(text)
        return
    with pytest.raises(MsError, match=f"(?s)MS112.*{why}"):
        ms.parse(text)


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ("dyn(multiple = 0)", "no size from 1 to 2147483647 is a multiple of 0"),
        ("dyn(multiple = -8)", "is a multiple of -8"),
        (f"dyn(multiple = {10**20})", "no size from 1 to 2147483647"),
        (f"dyn(1..{2**63})", "at most 2[*][*]47"),
        (f"dyn(1..{10**20}, buckets = [8])", "at most 2[*][*]47"),
    ],
)
def test_a_range_that_no_array_has_is_refused(declared: str, why: str):
    with pytest.raises(MsError, match=f"(?s)MS112.*{why}"):
        program(f"M: {declared}")
    assert program(f"M: dyn(1..{2**47})") and program("M: dyn(multiple = 8, buckets = [16])")


def test_each_bucket_holds_a_multiple():
    with pytest.raises(MsError, match="9 does not end a bucket"):
        program("M: dyn(8..64, multiple = 8, buckets = [8, 9])")
    with pytest.raises(MsError, match="no multiple of 8 is greater"):
        program("M: dyn(8..66, multiple = 8, buckets = [65])")
