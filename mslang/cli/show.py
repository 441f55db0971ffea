"""`mslang show`: the program or trace after a schedule or after each step, or the generated code."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mslang.backend.backend import Options
from mslang.cli.call_sizes import at_argument, require_known_sizes
from mslang.cli.candidates import (
    Chosen,
    apply_argument,
    candidate_arguments,
    choose,
    compiler,
    pins_of,
    program_target_argument,
    space_to_show,
)
from mslang.cli.common import UsageError, emit, note, positive
from mslang.cli.main import DONE
from mslang.ir.buckets import restricted
from mslang.kernel.print import print_module
from mslang.lower.passes import FLATTEN, LOOPS, stages
from mslang.lower.symbolic import lower_symbolic
from mslang.suggestions import did_you_mean

if TYPE_CHECKING:
    from mslang.ir.origins import Origin
    from mslang.ir.program import Program
    from mslang.schedule.instruction import Value
    from mslang.schedule.sketch import Sketch
    from mslang.schedule.space import Illegal
    from mslang.target.description import Target

FORMS = ("program", "trace", "tvmscript", "loops", "summary")
"""What can be shown of any candidate; what it is compiled to is a stage of the back end."""


SKETCHES = 64
"""The sketches that `--space` shows at most, if nothing else is asked."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The item and the form to show."""

    candidate_arguments(parser)
    apply_argument(parser)
    at_argument(parser, "show what serves a call with this value of a size that is known only at the call")
    program_target_argument(parser)
    parser.add_argument(
        "--db", type=Path, metavar="FILE", help="the record store (default: .mslang/records.db next to the file)"
    )
    parser.add_argument(
        "--stage",
        metavar="NAME",
        default="program",
        help=f"{', '.join(FORMS)}, a pass of lowering, or of the back end (CPU: llvm, asm; GPU: cuda, ptx, sass, "
        "resources; default: program)",
    )
    parser.add_argument("--open", action="store_true", help="with --stage summary: decisions stay open, as expressions")
    parser.add_argument(
        "--space",
        action="store_true",
        help="what is searched: each sketch as a schedule; of a program, those of its automatic space",
    )
    parser.add_argument("--rules", metavar="SET", help="with --space, of a program: the rules of this set")
    parser.add_argument("--sketches", type=positive, metavar="N", help=f"with --space: at most N (default {SKETCHES})")
    parser.add_argument("--steps", action="store_true", help="after each statement of the schedule")
    parser.add_argument("--diff", action="store_true", help="what the schedule (or each step) changed")


def run(args: argparse.Namespace) -> int:
    """Print the requested form."""
    from mslang.schedule.sketch import instantiate
    from mslang.target.detect import host

    if args.space:
        return _show_space(args)
    if args.rules is not None:
        raise UsageError("--rules goes with --space", "it names the rules that make a program's automatic space")
    if args.sketches is not None:
        raise UsageError("--sketches goes with --space", "it limits how many sketches are shown")
    if args.db is not None and args.apply is None:
        raise UsageError("--db goes with --apply", "its records are schedules of a program")
    if args.stage == "trace" and (args.steps or args.diff):
        raise UsageError("a trace has neither steps nor differences", "leave out --stage to see the programs")
    if args.open and (args.stage != "summary" or args.steps or args.diff):
        raise UsageError("--open goes with --stage summary alone", "steps and differences are shown of a candidate")
    steps: list[tuple[str, Program]] = []
    chosen = choose(args, host(), lambda step: steps.append((step.site.text, step.after)))
    if args.steps and chosen.name in chosen.module.programs:
        raise UsageError("--steps goes with a schedule or space", f"`{chosen.name}` is a program")
    if args.at is not None:
        require_known_sizes(chosen.space.program, [args.at], dict(args.sizes))
        chosen = replace(chosen, candidate=chosen.at(args.at.sizes), own=chosen.own_at(args.at.sizes), cases=())
    if not args.steps:
        before = _text(args, chosen, chosen.space.program) if args.diff else None
        _print(args, chosen.name, _text(args, chosen, chosen.candidate.program), before)
        for case in chosen.cases:
            served = replace(chosen, candidate=chosen.serving(case), own=case.applied.backend, cases=())
            before = _text(args, chosen, restricted(chosen.space.program, case.bucket)) if args.diff else None
            title = f"{chosen.name}[{case.bucket.text}]"
            if not args.json:
                print(f"\n# {title}: {case.applied.headline}")
            _print(args, title, _text(args, served, served.candidate.program), before)
        return DONE
    values = chosen.candidate.decisions
    drawn = {d.address: values[d.address] for d in chosen.candidate.sketch.decisions}
    numeric = {a: v for a, v in drawn.items() if isinstance(v, int | tuple)}
    last = _text(args, chosen, chosen.space.program)
    for text, program in steps:
        shown = _text(args, chosen, instantiate(program, numeric))
        _print(args, text, shown, last if args.diff else None)
        last = shown
    return DONE


def _show_space(args: argparse.Namespace) -> int:
    """Print the sketches of a space, and why structures are refused."""
    from mslang.schedule.space import Illegal
    from mslang.target.detect import host

    _require_sketches_alone(args)
    name, space = space_to_show(args, host(), args.rules)
    pins = pins_of(args.pins)
    most = args.sketches or SKETCHES
    found = list(islice(space.structures(pins), most + 1))
    shown, more = found[:most], len(found) > most
    _require_structural(pins, shown, more)
    for number, each in enumerate(shown, 1):
        if isinstance(each, Illegal):
            taken = ", ".join(f"{a} = {v}" for a, v in each.structure)
            text = f"# refused ({taken}): {each.diagnostic.message}\n"
        else:
            text = each.as_ms(f"{name}_{number}")
        if args.json:
            legal = not isinstance(each, Illegal)
            emit({"kind": "sketch", "title": f"{name}_{number}", "text": text, "legal": legal})
        else:
            print(text)
    if more:
        note(f"there are more sketches; --sketches {2 * most} shows more of them")
    return DONE


def _require_sketches_alone(args: argparse.Namespace) -> None:
    """Refuse options that choose a candidate, or a form of one: sketches are shown as schedules."""
    given = {
        "--stage": args.stage != "program",
        "--steps": args.steps,
        "--diff": args.diff,
        "--open": args.open,
        "--at": args.at is not None,
        "--seed": args.seed is not None,
        "--strict": args.strict,
        "--apply": args.apply is not None,
        "--db": args.db is not None,
        "--backend": args.backend is not None,
    }
    wrong = [option for option, is_given in given.items() if is_given]
    if wrong:
        raise UsageError(f"{' and '.join(wrong)} cannot be used with --space", "it shows the sketches alone")


def _require_structural(pins: Mapping[str, Value], found: Sequence[Sketch | Illegal], more: bool) -> None:
    """Refuse pins that no sketch can have: of numbers, which sketches leave open, of other outcomes, or of nothing."""
    from mslang.schedule.decisions import shown
    from mslang.schedule.space import Illegal

    sketches = [s for s in found if not isinstance(s, Illegal)]
    refused = [s for s in found if isinstance(s, Illegal)]
    numbers = {d.address for s in sketches for d in s.decisions}
    outcomes = {(address, taken) for s in found for address, taken in s.structure}
    known = sorted({address for address, _ in outcomes})
    for address, value in pins.items():
        text = f"`{address} = {shown(value)}`"
        if address in numbers:
            message = f"--pin: `{address}` is a number, which sketches leave open"
            raise UsageError(message, f"leave out --space to see a candidate with {text}")
        if address not in known and not sketches:
            raise UsageError(f"--pin: no sketch has {text}: {refused[0].diagnostic.message}")
        if address not in known and not more:
            raise UsageError(f"--pin: no sketch has a decision `{address}`", did_you_mean(address, known))
        if address not in known:
            note(f"--pin: none of the sketches shown has a decision `{address}`")
        elif (address, value) not in outcomes:
            raise UsageError(f"--pin: no sketch has {text}")


def _text(args: argparse.Namespace, chosen: Chosen, program: Program) -> str:
    from mslang.interop import tvmscript
    from mslang.ir.print import print_program

    match args.stage:
        case "program":
            return print_program(program)
        case "trace":
            return chosen.candidate.trace.as_ms()
        case "tvmscript":
            return tvmscript.print(program)
    back_end, target = compiler(args, chosen)
    if chosen.own is not None and args.backend is None:
        back_end = chosen.own
    if args.stage == "summary":
        return _summary(chosen.candidate.sketch.program if args.open else program, target)
    passes = back_end.passes() if back_end.passes is not None else ()
    wanted = LOOPS[-1].name if args.stage == "loops" else args.stage
    if wanted in (FLATTEN, *(p.name for p in passes)) and back_end.passes is not None:
        prepared = back_end.prepared(program, target)
        steps = stages(prepared, target, passes, back_end.texts)
        return next(print_module(module) for name, module in steps if name == wanted)
    stage = next((s for s in back_end.stages if s.name == args.stage), None)
    if stage is None:
        known = ", ".join((*FORMS, FLATTEN, *(p.name for p in passes), *(s.name for s in back_end.stages)))
        raise UsageError(f"the back end {back_end.name} has no stage `{args.stage}`", f"the stages are {known}")
    written = _origins(chosen, back_end.scheduled(program, target)) if stage.lines else ()
    options = Options(allow_native=args.allow_native, text_only=True, lines=stage.lines, origins=written)
    return stage.text(back_end.built(program, target, options))


def _origins(chosen: Chosen, scheduled: Program) -> tuple[Origin, ...]:
    """The blocks of a scheduled program, with the lines where they are written."""
    from mslang.ide.places import block_lines
    from mslang.ir.origins import origins

    return origins(scheduled, block_lines(chosen.module, chosen.space.program.name))


def _summary(program: Program, target: Target) -> str:
    from mslang.lower.summary import print_summary, summarize

    return print_summary(summarize(lower_symbolic(program, target), target))


def _print(args: argparse.Namespace, title: str, text: str, before: str | None) -> None:
    if before is not None:
        lines = difflib.unified_diff(before.splitlines(), text.splitlines(), "before", "after", lineterm="", n=2)
        text = "\n".join(lines) or "(nothing changed)"
    if args.json:
        emit({"kind": "show", "stage": args.stage, "title": title, "text": text})
        return
    if args.steps:
        print(f"# {title}")
    print(text.rstrip("\n"))
    if args.steps:
        print()
