"""`db`: the best record of a program.

A record serves a program of the same workload (names do not count), for the same target, measured on this machine:
times of other machines say nothing here. Of several the fastest of this compiler comes first, then those of other
compilers; one whose trace no longer applies is passed over. A record of another machine serves only if that machine is
named. Where the default schedule is the alternative, a record of an automatic space serves only if the default was
timed there too, and was not faster: tuning times it along with the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import msgspec

from mslang.apply.anchor import anchored
from mslang.apply.passes import Missed, Pass, Served
from mslang.apply.replaying import candidate_of
from mslang.backend.backend import BackEnd
from mslang.brevity import seconds_text
from mslang.diagnostics import Diagnostic, MsError
from mslang.ir.equal import structural_hash, workload_hash
from mslang.ir.program import Program
from mslang.schedule.interpret import World
from mslang.schedule.space import Candidate
from mslang.sema.module import Module
from mslang.sema.program import parse_program
from mslang.target.description import Target
from mslang.tune.record import TRIED, Outcome, Record
from mslang.tune.recording import lower_bound
from mslang.tune.stores import Store, text_of

CONSIDERED = 20
"""Records of this compiler, and of all, the fastest first, among which one that still applies is looked for."""


class FromRecords(msgspec.Struct, frozen=True):
    """The pass `db`.

    Args:
        store: where the records are.
        machine: the key of the machine that counts, and its compiler.
        compiler: what compiles here; records of it come first.
        module: where names of traces are looked up.
        anchors: the back end that completes the schedule where the record of a program that differs around its main
            computation serves; None: such records do not serve.
        alternative: the pass that serves a program otherwise, which a record must be faster than (None: any serves).
    """

    store: Store
    machine: str
    compiler: str = ""
    module: Module | None = None
    anchors: BackEnd[object] | None = None
    alternative: Pass | None = None
    name: str = "db"

    def serve(self, program: Program, target: Target) -> Served | Missed:
        """The fastest record that applies."""
        world = World(machine=target)
        refused = partial(self._not_faster, otherwise=cache(partial(self._otherwise, target)))
        failures: list[str] = []
        for record in self._considered(program, target):
            try:
                candidate = candidate_of(record, text_of(self.store, record), program, world, self.module)
            except MsError as error:
                failures.append(f"record {record.id}: {_failure(record, error)}")
                continue
            worse = refused(record)
            if worse is not None:
                failures.append(f"record {record.id} {worse}")
                continue
            return Served(candidate.program, self._how(record, program), candidate.trace)
        why = "; ".join(failures[:3]) if failures else self._absent(program, target)
        if self.anchors is None or self.anchors.finish is None:
            return Missed(why)
        match anchored(self.store, program, target, self.machine, self.anchors, self.module, refused):
            case (Record() as record, Candidate() as candidate, str() as how):
                return Served(candidate.program, f"{self._how(record, program)}; {how}", candidate.trace)
            case str() as no_anchor:
                why += f"; {no_anchor}"
        return Missed(why)

    def _considered(self, program: Program, target: Target) -> list[Record]:
        """The fastest records of this compiler, then those of others."""
        top = partial(self.store.top, program, CONSIDERED, target=target.name, machine=self.machine)
        return [*top(compiler=self.compiler), *(r for r in top() if r.compiler != self.compiler)]

    def _otherwise(self, target: Target, text: str) -> str | None:
        """The hash of what the alternative makes of a program, given as text; None if nothing."""
        other = None if self.alternative is None else self.alternative.serve(parse_program(text), target)
        return structural_hash(other.program) if isinstance(other, Served) else None

    def _not_faster(self, record: Record, otherwise: Callable[[str], str | None]) -> str | None:
        """Why a record is not known to be faster than the alternative, whose hash `otherwise` gives; None if it is, or
        is the alternative itself."""
        text = text_of(self.store, record)
        # A space that a person wrote was chosen by a person.
        if self.alternative is None or text is None or record.sources.space:
            return None
        hash, name = otherwise(text.text), self.alternative.name
        if hash in (None, record.candidate):
            return None
        cost = self._compared(record, hash)
        if cost is None:
            return f"was never timed together with the {name} schedule: tune again, or leave out `{name}`"
        return None if (record.cost or 0.0) <= cost else f"is slower than the {name} schedule"

    def _compared(self, record: Record, other: str) -> float | None:
        """What the candidate of a hash cost when it was timed together with a record: by its last record of that run.

        A run that took its time over from an earlier one has no such record: then the last of that compiler counts.
        Infinite where it failed; None where it was not tried.
        """
        same = record.target, record.machine, record.compiler
        found = (r for r in self.store.records(record.workload) if isinstance(r, Record) and r.candidate == other)
        tried = (r for r in found if r.result.outcome in TRIED and r.conditions in (None, record.conditions))
        there = [r for r in tried if (r.target, r.machine, r.compiler) == same]
        last = ([r for r in there if r.run == record.run] or there)[-1:]
        return next(map(_least_cost, last), None)

    def _how(self, record: Record, program: Program) -> str:
        time = "" if record.seconds is None else f", {seconds_text(record.seconds)} on {record.device}"
        other = (
            "" if record.compiler in ("", self.compiler) or not self.compiler else f", compiled by {record.compiler}"
        )
        renamed = "" if record.program == program.name else f" of `{record.program}`"
        return f"record {record.id}{renamed}{time}{other}"

    def _absent(self, program: Program, target: Target) -> str:
        """Why there is no record: what there is instead."""
        there = [r for r in self.store.records(workload_hash(program)) if not isinstance(r, Diagnostic)]
        if not there:
            return "no record of this program"
        timed = [r for r in there if r.cost is not None]
        if not timed:
            return f"none of its {len(there)} records has a time"
        if any(r.machine == self.machine and r.target == target.name for r in timed):
            return f"each candidate with a time for the target {target.name} failed when it was last measured"
        machines = sorted({r.device for r in timed if r.machine != self.machine})
        targets = sorted({r.target for r in timed if r.machine == self.machine})
        if targets:
            return f"no record for the target {target.name}; there are some for {', '.join(targets)}"
        return f"no record of this machine; there are some of {', '.join(machines)} (`--machine`)"


def _least_cost(record: Record) -> float:
    """The least that a candidate costs; infinite where it failed."""
    cost = lower_bound(record) if record.result.outcome is Outcome.CUT_OFF else record.cost
    return math.inf if cost is None else cost


def _failure(record: Record, error: MsError) -> str:
    """What went wrong, with the step of the trace that did not apply."""
    d = error.diagnostic
    if d.span is None or d.path:
        return f"{d.message} ({d.why})" if d.why else d.message
    start = record.trace.rfind("\n", 0, d.span.start) + 1
    line = record.trace[start:].partition("\n")[0].strip()
    return f"the step `{line}` fails: {d.message}"
