"""Values that caches identify by a key instead of their contents."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Keyed(Generic[T]):
    """A value that is equal to every other one with its key, and hashed by the key alone.

    It is what a cached function takes whose result depends on no more than the key says.
    """

    __slots__ = ("_hash", "key", "value")

    def __init__(self, key: Hashable, value: T) -> None:
        self.key = key
        self.value = value
        self._hash = hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and self._hash == other._hash and self.key == other.key
