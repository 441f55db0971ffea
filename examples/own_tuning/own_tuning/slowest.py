"""A task scheduler: after one generation of each, always the task that takes longest now."""

from collections.abc import Sequence

from mslang.tune.task_scheduler import TaskState


class Slowest:
    """Gives the next generation to the task whose weighted best time is the largest; failures come last."""

    def next(self, tasks: Sequence[TaskState]) -> int | None:
        """The index of the task, or None if all are over."""
        alive = [k for k, task in enumerate(tasks) if not task.over]
        fresh = [k for k in alive if not tasks[k].best]
        if fresh:
            return fresh[0]
        return max(alive, key=lambda k: self.cost(tasks[k]), default=None)

    def cost(self, task: TaskState) -> float:
        """The weighted seconds of its best; -1 where nothing is valid yet."""
        best = task.best[-1]
        return -1.0 if best == float("inf") else task.weight * best
