"""What runs teach the searches of other programs: kept in the record store, and learned from when a search begins."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from io import BytesIO
from typing import NamedTuple

from mslang.search.features.extractor import PerStore
from mslang.search.features.task import Correction
from mslang.search.lessons import Lesson
from mslang.search.models.boosting import LEAST, is_installed
from mslang.search.models.transfer import TREES, correction_of
from mslang.tune.record import RunLesson

MOST = 1024
"""So many candidates are learned from at most, those of the latest runs; 50 trees of them take a second."""

_ARRAYS = ("stores", "draft", "cost", "censored")


def packed(
    lessons: Sequence[Lesson],
    run: str,
    workload: str,
    machine: str,
    *,
    cold: bool = False,
    features: str = PerStore.name,
) -> RunLesson | None:
    """What a run teaches, as it is kept; None where it measured too little.

    Args:
        lessons: what it measured.
        run: its name.
        workload: the hash of its program.
        machine: the key of the machine.
        cold: whether it timed with cold caches.
        features: the name of the extractor that made the features.
    """
    import numpy as np

    if sum(map(len, lessons)) < LEAST:
        return None
    file = BytesIO()
    arrays = {f"{name}{k}": getattr(x, name) for k, x in enumerate(lessons) for name in _ARRAYS}
    about = {"names": np.asarray(lessons[0].names), "cold": np.asarray(cold), "features": np.asarray(features)}
    np.savez_compressed(file, allow_pickle=False, **about, **arrays)
    return RunLesson(run, workload, machine, _columns(lessons[0].names), data=file.getvalue())


def unpacked(kept: RunLesson) -> list[Lesson]:
    """The lessons of a run.

    Example:
        >>> import numpy as np
        >>> zeros = np.zeros(8)
        >>> lesson = Lesson(("bytes",), np.ones((8, 3, 1), np.float32), zeros, zeros + 1.0, zeros > 0)
        >>> [len(x) for x in unpacked(packed([lesson], "1f", "gemm", "zen"))]
        [8]
    """
    import numpy as np

    with np.load(BytesIO(kept.data), allow_pickle=False) as found:
        names = tuple(map(str, found["names"]))
        count = sum(name.startswith("cost") for name in found.files)
        return [Lesson(names, *(found[f"{name}{k}"] for name in _ARRAYS)) for k in range(count)]


def is_cold(kept: RunLesson) -> bool:
    """Whether each run of a candidate found the caches empty. Lessons that do not say so are of warm caches."""
    import numpy as np

    with np.load(BytesIO(kept.data), allow_pickle=False) as found:
        return "cold" in found.files and bool(found["cold"])


def features_of(kept: RunLesson) -> str:
    """The name of the extractor that made the features. Lessons that do not say so are of the built-in one."""
    import numpy as np

    with np.load(BytesIO(kept.data), allow_pickle=False) as found:
        return str(found["features"]) if "features" in found.files else PerStore.name


def _columns(names: Sequence[str]) -> str:
    return blake2b("\0".join(names).encode(), digest_size=8).hexdigest()


class Taught(NamedTuple):
    """What other programs teach of the draft, from how many candidates of how many programs."""

    correction: Correction
    candidates: int
    programs: int

    def __str__(self) -> str:
        programs = "another program" if self.programs == 1 else f"{self.programs} other programs"
        return f"the draft is corrected by what {self.candidates} candidates of {programs} taught"


def taught(
    kept: Sequence[RunLesson],
    workload: str,
    machine: str,
    before: str = "",
    *,
    cold: bool = False,
    features: str = PerStore.name,
    trees: int = TREES,
) -> Taught | None:
    """What other programs teach of the draft; None where there are no others, or XGBoost is not installed.

    Args:
        kept: what runs teach, the newest first.
        workload: the hash of the program that is searched for: what is known of it is known better from its records.
        machine: the key of the machine: times of different machines are not comparable.
        before: only runs that ended before this time, so that a search that is resumed learns what it began with
            (empty: all).
        cold: whether the search times with cold caches: only runs that did so, too, teach it.
        features: the name of the search's extractor: only runs with the same features teach it.
        trees: how many correct the draft.
    """
    if not is_installed():
        return None
    latest: dict[str, RunLesson] = {}
    for x in kept:
        if (
            x.machine == machine
            and x.workload != workload
            and not (before and x.created >= before)
            and is_cold(x) == cold
            and features_of(x) == features
        ):
            latest.setdefault(x.workload, x)
    tasks: list[list[Lesson]] = []
    for x in latest.values():
        # Of other features, those of another version of the extractor, nothing can be learned.
        if x.columns != next(iter(latest.values())).columns:
            continue
        tasks.append(unpacked(x))
        if sum(len(y) for task in tasks for y in task) >= MOST:
            break
    if not tasks:
        return None
    return Taught(correction_of(tasks, trees=trees), sum(len(y) for task in tasks for y in task), len(tasks))
