"""`mslang build`: a library for C of a scheduled program, ahead of time."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.backend.backend import BackEnd, Library, LibraryPart
from mslang.backend.registry import compiling, serving
from mslang.brevity import seconds_text
from mslang.cli.candidates import Chosen, apply_argument, candidate_arguments, choose
from mslang.cli.common import UsageError, check_writable, emit, name_text, note, split_item, write_bytes
from mslang.cli.main import DONE
from mslang.diagnostics import MsError, TargetError, problem
from mslang.target.description import GENERIC, Target
from mslang.target.named import named_target

if TYPE_CHECKING:
    from mslang.schedule.space import Candidate

CONSIDERED = 50
"""Records, the fastest first, among which one of the schedule is looked for."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mslang build`."""
    candidate_arguments(parser)
    apply_argument(parser)
    parser.add_argument(
        "-o",
        "--output",
        dest="outputs",
        metavar="OUT",
        type=Path,
        action="append",
        required=True,
        help="a file to write; its suffix says what: .h, .o, .so, .s, .ll; on a GPU .h, .cu, .ptx, .cubin "
        "(several: -o k.o -o k.h)",
    )
    parser.add_argument(
        "--target",
        dest="targets",
        metavar="T",
        action="append",
        help="the machine to compile for (default: this one); of several, the program chooses when it runs",
    )
    parser.add_argument("--name", metavar="NAME", help="the C function (default: the program's name)")
    parser.add_argument("--record", type=int, metavar="ID", help="the decisions of one record of the store")
    parser.add_argument(
        "--db", type=Path, metavar="FILE", help="the record store (default: .mslang/records.db next to the file)"
    )


def run(args: argparse.Namespace) -> int:
    """Make every form that is asked for, then write them."""
    if args.name is not None and not (args.name.isascii() and args.name.isidentifier()):
        raise UsageError(f"--name: `{args.name}` is not a name of a C function")
    for path in args.outputs:
        _require_place(path)
    targets = _ordered([named_target(name) for name in args.targets or ["host"]])
    _require_one_back_end(targets)
    built = [_part(args, target) for target in targets]
    chosen = built[0][0]
    if args.targets:
        _require_targets(chosen, targets, [made[0].target for _, _, made in built])
    back_end = next((b for _, b, _ in built if b.library is None), built[0][1])
    parts = [part for _, _, made in built for part in made]
    if len(built) > 1 and not any(p.target == GENERIC for p in parts):
        parts.append(_fallback(args, back_end))
    if back_end.library is None:
        raise TargetError(
            problem(
                "MS454",
                f"the back end {back_end.name} makes no libraries",
                help="`mslang show --stage` prints the code that it makes",
            )
        )
    about = f"{name_text(split_item(args.item)[0].name)}:{chosen.name}"
    library = back_end.library(parts, args.name or chosen.candidate.program.name, about, args.allow_native)
    forms = {path: _form(library, path) for path in args.outputs}
    made = {path: form() for path, form in forms.items()}
    for path, data in made.items():
        write_bytes(path, data, executable=path.suffix == ".so")
        if args.json:
            emit({"kind": "built", "path": str(path), "bytes": len(data), "targets": [p.target.name for p in parts]})
    return DONE


def _ordered(targets: list[Target]) -> list[Target]:
    """Each target once, the one with the widest vectors and most features first: the first that runs is taken."""
    once = {t.name: t for t in targets}
    return sorted(once.values(), key=lambda t: (-t.vector_bits, -len(t.features)))


def _require_one_back_end(targets: list[Target]) -> None:
    """Refuse targets whose code cannot be in one library, such as a CPU and a GPU."""
    by_back_end = {serving(t).name: t.name for t in targets}
    if len(by_back_end) > 1:
        message = f"{' and '.join(f'`{name}`' for name in by_back_end.values())} cannot share a library"
        why = f"they are compiled by different back ends: {', '.join(by_back_end)}"
        raise TargetError(problem("MS452", message, why=why, help="build one for each"))


def _require_targets(chosen: Chosen, asked: list[Target], made: list[Target]) -> None:
    """Refuse targets that were asked for where the schedule is for another kind of machine."""
    for wanted, got in zip(asked, made, strict=True):
        if wanted != got:
            message = f"--target {wanted.name}: `{chosen.name}` is for {got.name}, another kind of target"
            raise UsageError(message, "choose a schedule for that target, or leave out --target")


def _part(args: argparse.Namespace, target: Target) -> tuple[Chosen, BackEnd[Any], list[LibraryPart]]:
    """The program for a target: with the decisions given, else those of the fastest record, else drawn ones; behind it
    what serves buckets of its dynamic sizes."""
    from mslang.ir.access_bounds import require_inside
    from mslang.ir.unwritten import require_written

    chosen = choose(args, target)
    back_end, machine = compiling(chosen.target, target, args.backend)
    if args.backend is None:
        # One part that nothing exports is enough to refuse a library.
        back_end = next(
            (b for b in (chosen.own, *(c.applied.backend for c in chosen.cases)) if b is not None), back_end
        )
    candidate = chosen.candidate
    if candidate.decisions and args.seed is None and args.record is None and not args.pins:
        candidate = _recorded(args, chosen, machine, back_end) or candidate
    parts = [LibraryPart(candidate.program, machine)]
    parts += [LibraryPart(case.applied.program, machine, case.bucket) for case in chosen.cases]
    for part in parts:
        require_inside(part.program)
        require_written(part.program)
    return chosen, back_end, parts


def _recorded(args: argparse.Namespace, chosen: Chosen, target: Target, back_end: BackEnd[Any]) -> Candidate | None:
    """The fastest candidate of the schedule that is on record for this machine, target and compiler; where there is
    none, the fastest by another compiler."""
    from mslang.ir.equal import structural_hash
    from mslang.tune.database import Database, machine_for

    compiler, machine = back_end.version(), machine_for(back_end).key
    file = args.db or split_item(args.item)[0].parent / ".mslang" / "records.db"
    if args.db is not None or file.exists():
        with Database(file, read_only=True) as database:
            top = partial(database.top, chosen.space.program, CONSIDERED, target=target.name, machine=machine)
            records = [*top(compiler=compiler), *(r for r in top() if r.compiler != compiler)]
        for record in records:
            try:
                candidate = chosen.space.replay(msgspec.json.decode(record.decisions))
            except MsError:
                # Of another schedule of the program.
                continue
            if structural_hash(candidate.program) == record.candidate:
                time = "" if record.seconds is None else f" ({seconds_text(record.seconds)})"
                other = "" if record.compiler == compiler else f", compiled by {record.compiler}"
                note(f"{chosen.name} for {target.name}: record {record.id}{time}{other}")
                return candidate
    note(f"{chosen.name} for {target.name}: no record (`mslang tune` makes them); open decisions are drawn from seed 0")
    return None


def _fallback(args: argparse.Namespace, back_end: BackEnd[Any]) -> LibraryPart:
    """Code for processors that are none of the targets: of the schedule, or of the program where it needs more."""
    chosen, _, (part, *_) = _part(args, GENERIC)
    try:
        back_end.lowered(part.program, GENERIC)
    except TargetError as error:
        note(f"the generic code is that of the program without its schedule: {error.diagnostic.message}")
        return LibraryPart(chosen.space.program, GENERIC)
    return part


def _form(library: Library, path: Path) -> Callable[[], bytes]:
    """What makes the bytes of a file."""
    found = library.forms.get(path.suffix)
    if found is None:
        suffixes = ", ".join(library.forms)
        what = f"unknown file suffix `{path.suffix}`" if path.suffix else "the name has no suffix"
        raise UsageError(f"-o {path}: {what}", f"the suffixes are {suffixes}")
    return found


def _require_place(path: Path) -> None:
    """Raise MS702 if a file cannot be written, before anything is compiled."""
    folder = path.parent
    reason = None
    if path.is_dir():
        reason = "it is a folder"
    elif not folder.is_dir():
        reason = f"there is no folder {folder}"
    elif not os.access(folder, os.W_OK):
        reason = f"the folder {folder} is write-protected"
    if reason is not None:
        raise MsError(problem("MS702", f"cannot write {path}", why=reason, help="choose another place"))
    check_writable(path)
