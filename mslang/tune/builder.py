"""Builders: what compiles candidates, here or elsewhere; a user's own by protocol and entry point."""

from __future__ import annotations

import pickle
from typing import Protocol, runtime_checkable

import msgspec

from mslang.extensions import allowed, load
from mslang.tune.job import BuildJob, Built, compiled

BUILDERS = "mslang.builders"
"""The group of entry points that name builders."""


@runtime_checkable
class Builder(Protocol):
    """Compiles candidates in the worker processes of a search.

    It is sent to them with each candidate, so it can be pickled. What it raises is the outcome of the candidate. Its
    `name` belongs to the records, as times of differently compiled code are not compared.

    Example:
        >>> class Careful:
        ...     name = "careful"
        ...
        ...     def build(self, job: BuildJob) -> Built:
        ...         return StandardBuilder().build(msgspec.structs.replace(job, allow_native=False))
        >>> isinstance(Careful(), Builder)
        True

    Source: `Builder` of TVM's MetaSchedule.
    """

    name: str

    def build(self, job: BuildJob) -> Built:
        """The executable of a candidate, or a `Built` with the result that says why there is none."""


class StandardBuilder(msgspec.Struct, frozen=True):
    """Lowers and compiles with the back end of the job."""

    name: str = ""

    def build(self, job: BuildJob) -> Built:
        """The executable; a compile error is a result."""
        return compiled(job)


def builder_named(name: str) -> Builder:
    """The builder that an allowed package declares under a name; the standard one for the empty name.

    Raises:
        MsError: MS271, MS272, MS212 or MS213: there is none, or it cannot be loaded.
    """
    found = load(BUILDERS, name, allowed(), Builder) if name else StandardBuilder()
    assert isinstance(found, Builder)
    return found


class BuildWith(msgspec.Struct, frozen=True):
    """What a worker process does with a builder: bytes to bytes."""

    builder: Builder

    def build(self, job: bytes) -> bytes:
        """A pickled `Built`."""
        return pickle.dumps(self.builder.build(pickle.loads(job)))
