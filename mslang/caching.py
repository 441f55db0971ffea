"""Results remembered within a budget: the least recently used ones go first.

`functools.lru_cache` bounds how many results are kept, which says nothing where one result can be a thousand times as
large as another: every edit of a long item makes one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class CacheInfo(NamedTuple):
    """How a cache has done; `maxsize` and `currsize` are weights."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class Cached(Generic[P, T]):
    """A function whose results are remembered. See `cached`."""

    def __init__(
        self, function: Callable[P, T], budget: int, weight: Callable[..., int], key: Callable[..., Hashable] | None
    ) -> None:
        self.__wrapped__, self.__doc__, self.__module__ = function, function.__doc__, function.__module__
        self._budget, self._weight, self._key = budget, weight, key
        self._kept: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._total = self._hits = self._misses = 0

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result, from memory if it is there."""
        key = self._key(*args, **kwargs) if self._key else (args, tuple(kwargs.items())) if kwargs else args
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._hits += 1
                self._kept.move_to_end(key)
                return found[0]
            self._misses += 1
        result = self.__wrapped__(*args, **kwargs)
        weight = self._weight(result, *args, **kwargs)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = result, weight
                self._total += weight
            # The newest stays, however heavy it is: it is what will be asked for again.
            while self._total > self._budget and len(self._kept) > 1:
                self._total -= self._kept.popitem(last=False)[1][1]
        return result

    def cache_clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._total = self._hits = self._misses = 0

    def cache_info(self) -> CacheInfo:
        """How the cache has done."""
        return CacheInfo(self._hits, self._misses, self._budget, self._total)


def cached(
    budget: int, weight: Callable[..., int], key: Callable[..., Hashable] | None = None
) -> Callable[[Callable[P, T]], Cached[P, T]]:
    """Remember the results of a function of hashable arguments, as long as their weights fit the budget.

    Args:
        budget: the sum of the weights that are kept.
        weight: called with the result and the arguments; any unit that grows with the memory they take.
        key: gives what is kept in place of the arguments, if that is less (None: the arguments).

    Returns:
        A decorator. The function has `cache_clear` and `cache_info`, as with `functools.lru_cache`.

    Example:
        >>> @cached(budget=1000, weight=lambda result, text: len(text))
        ... def words(text: str) -> list[str]:
        ...     return text.split()
        >>> words("a b"), words.cache_info().currsize
        (['a', 'b'], 3)
    """
    return lambda function: Cached(function, budget, weight, key)
