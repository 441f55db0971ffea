"""Whether threads have a core each: on this machine, and on made-up ones."""

import pytest

from mslang.runtime.linker import process_linker
from mslang.runtime.sharing import REMEMBERED, Sharing
from mslang.target.limits import measured_limits
from mslang.target.yardstick import Yardstick


class Threads(Sharing):
    """Threads whose share is the test's."""

    now = 1.0

    def _run(self) -> float:
        return 1.0 / self.now


class Unit(Yardstick):
    """A yardstick of one operation, which takes a second."""

    @property
    def work(self) -> float:
        return 1.0


def test_a_share_is_a_part_of_the_usual_one() -> None:
    threads = Threads(Unit(), process_linker().pool, 0.8)
    found = []
    for threads.now in (0.8, 0.4, 1.0):
        found.append(threads.share(1.0))
    assert found == pytest.approx([1.0, 0.5, 1.0])


def test_threads_are_kept_busy_until_each_has_a_core() -> None:
    class Host(Threads):
        """Moves two threads apart that have worked at once for a while."""

        runs = 0

        def _run(self) -> float:
            self.runs += 1
            self.now = 0.5 if self.runs < 40 else 1.0
            return super()._run()

    host = Host(Unit(), process_linker().pool, 1.0)
    assert host.share(1.0) == 0.5 and host.runs == 2
    assert host.share(1.0, 60.0) == 1.0 and 40 <= host.runs < 50


def test_patience_ends() -> None:
    seconds = iter(range(100))
    threads = Threads(Unit(), process_linker().pool, 1.0, clock=lambda: float(next(seconds)))
    threads.now = 0.5
    assert threads.share(1.0, 10.0) == 0.5 and next(seconds) == 11


def test_what_lasts_is_usual() -> None:
    # Where threads always share cores, a thread that has half of one is not disturbed.
    threads = Threads(Unit(), process_linker().pool, 1.0)
    threads.now = 0.5
    assert [threads.share(1.0) for _ in range(REMEMBERED // 2)] == [0.5] * (REMEMBERED // 2)
    for _ in range(REMEMBERED // 2):
        threads.share(1.0)
    assert threads.share(1.0) == 1.0


def test_the_threads_of_this_machine_do_the_work_of_the_yardstick() -> None:
    yardstick, pool = Yardstick(), process_linker().pool
    sharing = Sharing(yardstick, pool, measured_limits().scaling / pool.workers)
    assert 0.0 < sharing.share(yardstick.rate()) <= 1.0
