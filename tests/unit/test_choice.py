"""Which of many similar cases are run."""

from __future__ import annotations

import pytest

from tests.choice import one_in

CASES = [f"test[{target}-{name}]" for name in "abcdefgh" for target in ("avx2", "avx512")]


@pytest.mark.parametrize("n", [1, 2, 3, 100])
def test_one_in_n_is_run_and_at_least_one(n: int) -> None:
    assert len(one_in(n, CASES)) == -(-len(CASES) // n)
    assert one_in(n, CASES) == one_in(n, CASES[::-1])


def test_both_values_of_a_parameter_are_run() -> None:
    assert {name.split("-")[0] for name in one_in(2, CASES)} == {"test[avx2", "test[avx512"}
