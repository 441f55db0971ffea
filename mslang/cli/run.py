"""`mslang run`: compiles a candidate, verifies it against the reference, and times it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mslang.backend.registry import require_runnable
from mslang.brevity import seconds_text
from mslang.cli.call_sizes import at_argument, require_all_sizes
from mslang.cli.candidates import (
    Chosen,
    apply_argument,
    candidate_arguments,
    choose,
    compiler,
    program_target_argument,
)
from mslang.cli.common import UsageError, emit, note
from mslang.cli.main import DONE, FINDINGS
from mslang.cli.time_limits import seconds_alone
from mslang.ir.buckets import at_sizes

if TYPE_CHECKING:
    from mslang.backend.backend import BackEnd
    from mslang.target.description import Target
    from mslang.tune.instances import Instance


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mslang run`."""
    candidate_arguments(parser)
    apply_argument(parser)
    program_target_argument(parser)
    at_argument(parser, "call it with this value of a size that is known only at the call; repeatable", repeatable=True)
    parser.add_argument("--record", type=int, metavar="ID", help="replay one record of the store, failed ones too")
    parser.add_argument(
        "--db", type=Path, metavar="FILE", help="the record store (default: .mslang/records.db next to the file)"
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="show where its time goes: seconds, operations and bytes of its loops, compared with the machine's peak",
    )
    parser.add_argument(
        "--part",
        dest="parts",
        action="append",
        default=[],
        metavar="NAME",
        help="with --profile: time this loop, or the loop of this block, too",
    )


def run(args: argparse.Namespace) -> int:
    """Compile, verify and time in worker processes, so that a crash is reported as an outcome."""
    from mslang.target.detect import host

    if args.parts and not args.profile:
        raise UsageError("--part goes with --profile", "it names a loop or block that is timed")
    if args.db is not None and args.apply is None and args.record is None:
        raise UsageError("--db goes with --apply or --record", "its records are schedules of a program")
    chosen = choose(args, host())
    usual, target = compiler(args, chosen)
    require_runnable(usual, target)
    require_all_sizes(chosen.space.program, args.at, dict(args.sizes))
    if args.at and args.profile:
        raise UsageError("--profile goes with sizes that are known", "fix them with --set, and leave out --at")

    def used(at: Instance | None) -> BackEnd[Any]:
        own = chosen.own if at is None else chosen.own_at(at.sizes)
        return usual if own is None or args.backend is not None else own

    found = [_run(args, chosen, used(each), target, each) for each in args.at or [None]]
    if not all(found):
        return FINDINGS
    if args.profile:
        _profile(args, chosen, used(None), target)
    return DONE


def _run(args: argparse.Namespace, chosen: Chosen, back_end: BackEnd[Any], target: Target, at: Instance | None) -> bool:
    """Measure a candidate, at a value of each dynamic size, and print what came of it: whether it could be measured."""
    from mslang.ir.equal import structural_hash
    from mslang.runtime.timing import Limits
    from mslang.tune.job import BuildJob, MeasureJob, PrepareJob
    from mslang.tune.record import Outcome
    from mslang.tune.scale import scale_of
    from mslang.tune.scratch import scratch_folder
    from mslang.tune.workers import Workers

    plain, sizes = chosen.space.program, {} if at is None else at.sizes
    candidate = chosen.at(sizes) if sizes else chosen.candidate
    program, native = candidate.program, args.allow_native
    scale = scale_of(at_sizes(plain, sizes) if sizes else plain, target)
    with scratch_folder() as folder, Workers(1) as workers:
        instances = () if at is None else (at,)
        prepared = workers.prepare(PrepareJob(plain, target, folder, seed=0, allow_native=native, instances=instances))
        built = workers.built(workers.build(BuildJob(program, target, native, back_end)))
        limits = Limits(repeats=15, max_repeats=60, min_repeat=0.01, max_total=3.0, spread=0.005)
        job = MeasureJob(program, built, folder, limits, dense=True)
        result = built.result or workers.measure(job, seconds_alone(limits, prepared))
    hash = structural_hash(program)
    timing = result.timing
    if args.json:
        emit(
            {
                "kind": "run",
                "name": chosen.name,
                "program": hash,
                "outcome": result.outcome.value,
                "reason": result.reason,
                "seconds": timing.median if timing else None,
                "mad": timing.mad if timing else None,
                "samples": timing.samples if timing else [],
                "decisions": candidate.decisions,
                "verified": [{"inputs": v.inputs, "max_error": v.max_error} for v in result.verified],
                **({"sizes": sizes} if sizes else {}),
            }
        )
    elif result.outcome is not Outcome.MEASURED or timing is None:
        note(f"{chosen.name}: {result.outcome.value}: {result.reason}")
    else:
        if sizes:
            print("size      " + ", ".join(f"{name} = {n}" for name, n in sizes.items()))
        time = f"{seconds_text(timing.median)} ± {seconds_text(timing.mad)}"
        print(f"time      {time}  {scale.rate(timing)}".rstrip())
        print(
            f"range     {seconds_text(timing.min)} to {seconds_text(max(timing.samples))} "
            f"in {len(timing.samples)} × {timing.runs} calls"
        )
        print("verified  " + ", ".join(f"{v.inputs} (largest error {v.max_error:.2g})" for v in result.verified))
        print(f"program   {hash[:16]}")
    return result.outcome is Outcome.MEASURED


def _profile(args: argparse.Namespace, chosen: Chosen, back_end: BackEnd[Any], target: Target) -> None:
    """Print where the time of a verified candidate goes."""
    from msgspec import to_builtins

    from mslang.cli.views.profile import show
    from mslang.ide.places import block_lines
    from mslang.perf.profile import profile_kernel

    plain, program = chosen.space.program, back_end.scheduled(chosen.candidate.program, target)
    found = profile_kernel(
        program,
        plain,
        target,
        names=args.parts,
        backend=back_end,
        allow_native=args.allow_native,
        lines=block_lines(chosen.module, plain.name),
    )
    if args.json:
        emit({"kind": "profile", **to_builtins(found)})
    else:
        show(found)
