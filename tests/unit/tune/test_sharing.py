"""Whether threads have a core each: on this machine, and on made-up ones."""

import pytest

from mslang.runtime.linker import process_linker
from mslang.runtime.sharing import PATIENCE, REMEMBERED, WAITED, Sharing
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


class Waits(Threads):
    """Threads that share a core for good; each run of the yardstick takes a millisecond."""

    now, seconds = 0.5, 0.0

    def __init__(self) -> None:
        super().__init__(Unit(), process_linker().pool, 1.0, clock=lambda: self.seconds)

    def _run(self) -> float:
        self.seconds += 0.001
        return super()._run()


def test_patience_ends() -> None:
    threads = Waits()
    assert threads.share(1.0, 0.05) == 0.5 and 0.05 < threads.seconds < 0.06


def test_patience_takes_a_part_of_the_time_at_most() -> None:
    threads = Waits()
    waited = 0.0
    while threads.seconds < 5.0:
        before = threads.seconds
        assert threads.share(1.0, PATIENCE) == 0.5
        waited += threads.seconds - before
        threads.seconds += 0.01  # what is timed
    # Asking takes 2 ms of every 12 by itself.
    assert waited < 5.0 * (WAITED + 2 / 12) + 2 * PATIENCE


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
