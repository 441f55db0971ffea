"""Mistakes from Python: each is one diagnostic that says what would be right."""

from collections.abc import Callable
from pathlib import Path

import pytest

import mslang as ms

GEMM = """program gemm[M = 16, N = 16, K = 16](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}"""

WRONG: list[tuple[Callable[[ms.Schedule], object], str, str]] = [
    (lambda s: s.get("mn"), "MS201", "did you mean `mm`?"),
    (lambda s: s.get("mn"), "MS201", "there are: mm, A, B, C"),
    (lambda s: s.apply("splitt", s.axis("mm", "i"), [None, 8]), "MS201", "did you mean `split`?"),
    (
        lambda s: s.split(s.axis("mm", "i"), [None, 8], names=["a", "b", "c"]),
        "MS206",
        "3 names are given, `split` gives 2",
    ),
    (lambda s: s.apply("split", s.axis("mm", "i"), 8), "MS203", "takes a list of factors"),
    (lambda s: s.apply("cache_read", s.get("mm"), "A"), "MS203", "`schedule.get(name)` gives a block or buffer"),
    (
        lambda s: s.apply("transform_layout", s.get("mm"), s.get("A"), lambda i, j: [j, i]),
        "MS203",
        "`schedule.index_map(f)` makes a map of a function",
    ),
    (
        lambda s: s.apply("unsafe_hide_buffer_access", s.get("mm"), "reads", [s.get("A")]),
        "MS203",
        "takes `read` or `write` as `access`, not reads",
    ),
    (lambda s: s.reorder(), "MS303", "name those to permute"),
    (lambda s: s.choose([1, 2], [-1.0, 1.0], name="c"), "MS203", "one finite weight, of 0 or more"),
]


@pytest.mark.parametrize(("wrong", "code", "said"), WRONG)
def test_a_wrong_call_is_one_diagnostic(wrong: Callable[[ms.Schedule], object], code: str, said: str) -> None:
    schedule = ms.Schedule(ms.parse(GEMM).program())
    with pytest.raises(ms.MsError) as caught:
        wrong(schedule)
    d = caught.value.diagnostic
    assert d.code == code and said in f"{d.message}; {d.why}; {d.help}"
    assert schedule.trace.instructions == ()


@pytest.mark.parametrize(("sizes", "said"), [({"Q": 1}, "its sizes are M, N, K"), ({"M": "3"}, "size `M` is '3'")])
def test_a_size_that_cannot_be(sizes: dict[str, int], said: str) -> None:
    with pytest.raises(ms.MsError) as caught:
        ms.parse(GEMM).program(**sizes)
    d = caught.value.diagnostic
    assert d.code == "MS112" and said in f"{d.message}; {d.why}"


def many_unit_loops(s: ms.Schedule) -> None:
    for _ in range(200):
        s.add_unit_loop(s.get("mm"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda s: s.split(s.axis("mm", "i"), [None, 1 << 200]), "number of more than 128 bits"),
        (lambda s: s.split(s.axis("mm", "i"), [1] * 20_000), "list of more than 16384 elements"),
        (lambda s: s.apply("unroll", s.axis("mm", "i")), "`unroll` of more than 65536 iterations"),
        (many_unit_loops, "more than 128 loops around one statement"),
    ],
)
def test_the_limits_of_text_hold_from_python(wrong: Callable[[ms.Schedule], object], said: str) -> None:
    schedule = ms.Schedule(ms.parse(GEMM).program(M=1 << 20))
    with pytest.raises(ms.MsError) as caught:
        wrong(schedule)
    assert caught.value.diagnostic.code == "MS140" and said in caught.value.diagnostic.message


def test_a_schedule_is_of_a_program() -> None:
    source = ms.parse(GEMM + "schedule s for gemm {}")
    for wrong in (source, source.space("s"), "gemm"):
        with pytest.raises(ms.MsError) as caught:
            ms.Schedule(wrong)  # type: ignore[arg-type]
        assert caught.value.diagnostic.code == "MS706"


def test_text_that_is_nested_too_deeply(tmp_path: Path) -> None:
    deep = GEMM.replace("B[k, j]", "(" * 5000 + "B[k, j]" + ")" * 5000)
    (tmp_path / "deep.ms").write_text(deep)
    long = GEMM.replace("B[k, j]", " + ".join(["B[k, j]"] * 400))
    for read in (
        lambda: ms.parse(deep),
        lambda: ms.load(tmp_path / "deep.ms"),
        lambda: ms.parse_program(deep.replace("[M = 16, N = 16, K = 16]", "").replace("M", "9")),
        lambda: ms.build(ms.parse(long)),
    ):
        with pytest.raises(ms.MsError) as caught:
            read()
        assert caught.value.diagnostic.code == "MS705"
