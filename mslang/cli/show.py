"""`mslang show`: the program or trace after a schedule or after each step, or the generated code."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING

from mslang.cli.candidates import candidate_arguments, choose
from mslang.cli.common import UsageError, emit
from mslang.cli.main import DONE
from mslang.diagnostics import TargetError, problem

if TYPE_CHECKING:
    from mslang.ir.program import Program
    from mslang.schedule.space import Candidate

STAGES = ("program", "trace", "tvmscript", "loops", "llvm", "asm", "cuda", "ptx")
"""What can be shown, besides the module after each pass of lowering."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The item and the form to show."""
    from mslang.lower.passes import FLATTEN, PASSES

    candidate_arguments(parser)
    parser.add_argument(
        "--stage",
        choices=(*STAGES, FLATTEN, *(p.name for p in PASSES)),
        default="program",
        help="what to show (default: program); the name of a pass of lowering: the kernel after it",
    )
    parser.add_argument("--steps", action="store_true", help="after each statement of the schedule")
    parser.add_argument("--diff", action="store_true", help="what the schedule (or each step) changed")


def run(args: argparse.Namespace) -> int:
    """Print the requested form."""
    from mslang.schedule.sketch import instantiate
    from mslang.target.detect import host

    if args.stage in ("cuda", "ptx"):
        raise TargetError(
            problem("MS404", f"the stage {args.stage} needs the CUDA back end", why="it is not part of this version")
        )
    if args.stage == "trace" and (args.steps or args.diff):
        raise UsageError("a trace has neither steps nor differences", "leave out --stage to see the programs")
    steps: list[tuple[str, Program]] = []
    chosen = choose(args, host(), lambda step: steps.append((step.site.text, step.after)))
    if not args.steps:
        before = _text(args, chosen.candidate, chosen.space.program) if args.diff else None
        _print(args, chosen.name, _text(args, chosen.candidate, chosen.candidate.program), before)
        return DONE
    values = chosen.candidate.decisions
    drawn = {d.address: values[d.address] for d in chosen.candidate.sketch.decisions}
    numeric = {a: v for a, v in drawn.items() if isinstance(v, int | tuple)}
    last = _text(args, chosen.candidate, chosen.space.program)
    for text, program in steps:
        shown = _text(args, chosen.candidate, instantiate(program, numeric))
        _print(args, text, shown, last if args.diff else None)
        last = shown
    return DONE


def _text(args: argparse.Namespace, candidate: Candidate, program: Program) -> str:
    from mslang.backend.llvm.compile import compile
    from mslang.interop import tvmscript
    from mslang.ir.print import print_program
    from mslang.kernel.print import print_module
    from mslang.lower.passes import lower, stages
    from mslang.target.detect import host

    target = host()
    match args.stage:
        case "program":
            return print_program(program)
        case "trace":
            return candidate.trace.as_ms()
        case "tvmscript":
            return tvmscript.print(program)
        case "loops":
            return print_module(lower(program, target))
        case "llvm":
            return compile(lower(program, target), target, allow_native=args.allow_native).llvm
        case "asm":
            return compile(lower(program, target), target, allow_native=args.allow_native).assembly
    return next(print_module(module) for name, module in stages(program, target) if name == args.stage)


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
