"""Results remembered within a budget."""

import subprocess
import sys
from pathlib import Path

import pytest

from mslang.caching import cached


def test_the_least_recently_used_results_go_when_the_budget_is_spent() -> None:
    calls: list[int] = []

    @cached(budget=10, weight=lambda result, n: n)
    def double(n: int) -> int:
        """Twice."""
        calls.append(n)
        return 2 * n

    assert [double(3), double(4), double(3)] == [6, 8, 6] and calls == [3, 4]
    double(5)  # 3 + 4 + 5 is over the budget: 4 was used longest ago
    double(3)
    assert calls == [3, 4, 5]
    double(4)
    assert calls == [3, 4, 5, 4] and double.cache_info().currsize <= 10
    assert double.__doc__ == "Twice."


def test_a_result_over_the_budget_is_kept_alone() -> None:
    calls: list[int] = []

    @cached(budget=10, weight=lambda result, n: n)
    def same(n: int) -> int:
        calls.append(n)
        return n

    assert [same(5), same(100), same(100)] == [5, 100, 100] and calls == [5, 100]
    same(5)
    assert same.cache_info().currsize == 5
    same.cache_clear()
    assert same.cache_info() == (0, 0, 10, 0)


def test_what_raises_is_not_kept() -> None:
    @cached(budget=10, weight=lambda result, n: n)
    def never(n: int) -> int:
        raise ValueError(n)

    for _ in range(2):
        with pytest.raises(ValueError, match="1"):
            never(1)
    assert never.cache_info().misses == 2


def test_a_key_stands_for_the_arguments() -> None:
    @cached(budget=10, weight=lambda result, words: 1, key=lambda words: words[0])
    def first(words: list[str]) -> str:
        return words[0]

    assert first(["a", "b"]) == first(["a", "c"]) == "a"
    assert first.cache_info().hits == 1


EDITS = """
import os
from pathlib import Path
from mslang.ide.findings import findings
from mslang.ide.formatting import formatting
from mslang.ide.snapshot import Snapshot
from mslang.ide.symbols import symbols

program = "program p[N = 64](A: f32[N], out B: f32[N]) {\\n    block b[i: N] { B[i] = A[i] }\\n}\\n"
lines = [f"    let v{k} ~ choose([1, 2, {k + 3}])\\n" for k in range(120)]

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

def edit(k):
    typed = [*lines[:60], " " * k + "\\n", *lines[60:]]
    snapshot = Snapshot({"a.ms": program + "schedule s for p {\\n" + "".join(typed) + "    b.i.parallel()\\n}\\n"})
    assert findings(snapshot.module("a.ms")) == ()
    symbols(snapshot, "a.ms")

for k in range(80):
    edit(k)
before = resident()
for k in range(80, 240):
    edit(k)
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the resident size is read from /proc")
def test_editing_a_long_schedule_does_not_fill_the_memory() -> None:
    """Each version of the schedule once stayed, with the names in scope at each statement: 0.6 MB an edit."""
    assert Path("/proc/self/statm").exists()
    done = subprocess.run([sys.executable, "-c", EDITS], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 48
