"""`mslang db`: the record store: what is in it, moved, merged, pruned, compared, counted."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from mslang.brevity import seconds_text
from mslang.cli.common import emit, natural, note, positive, table
from mslang.cli.db_compare import comparison_arguments, count, diff
from mslang.cli.db_selection import machine_key, warn_of_damage, workload_hashes
from mslang.cli.db_transfer import export, import_rows, merge_stores, prune, transfer_arguments
from mslang.cli.main import DONE, FINDINGS, add_extension
from mslang.runtime.timing import SLOW_CORE, Timing
from mslang.target.machine import this_machine
from mslang.tune.database import Database, keys_here
from mslang.tune.mirrored import opened_to_read
from mslang.tune.record import INCUMBENT, Record
from mslang.tune.transfer import line_of

VERBS = {
    "ls": "programs and runs",
    "show": "one record",
    "top": "the fastest records of one machine; the last of each candidate by each compiler",
    "export": "everything as JSON lines, or as a database of TVM's",
    "import": "what `export` wrote, or records of TVM's, whose times are marked",
    "merge": "what other stores hold, without duplicates",
    "prune": "delete records: those that all the conditions given hold of",
    "diff": "the best times of two stores",
    "stats": "counts by outcome and program, rates of runs",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs of the record store and their options."""
    verbs = parser.add_subparsers(dest="what", metavar="|".join(VERBS), required=True)
    made = {
        name: verbs.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        for name, about in VERBS.items()
    }
    made["show"].add_argument("id", type=natural, metavar="ID", help="a record's number")
    made["top"].add_argument("-n", "-k", dest="n", type=positive, default=10, metavar="N", help="how many (default 10)")
    made["top"].add_argument("--machine", metavar="NAME|KEY", help="records of another machine (default: this one)")
    for verb in (made["top"], made["export"]):
        verb.add_argument("--program", metavar="NAME|HASH", help="only records of this program")
    transfer_arguments(made)
    comparison_arguments(made)
    for verb in made.values():
        verb.add_argument(
            "--db",
            type=Path,
            default=Path(".mslang/records.db"),
            metavar="STORE",
            help="a file, or KIND:… of an allowed package (default: .mslang/records.db)",
        )
        verb.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="JSON lines on standard output"
        )
        add_extension(verb, argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Run the verb of the record store."""
    match args.what:
        case "import":
            return import_rows(args)
        case "merge":
            return merge_stores(args)
        case "prune":
            return prune(args)
    with opened_to_read(args.db) as database:
        warn_of_damage(database, args.json)
        match args.what:
            case "ls":
                return _list(database, args)
            case "show":
                return _show(database, args)
            case "top":
                return _top(database, args)
            case "diff":
                return diff(database, args)
            case "stats":
                return count(database, args)
            case _:
                return export(database, args)


def _top(database: Database, args: argparse.Namespace) -> int:
    known = database.machines()
    machine = None if args.machine is None else machine_key(known, args.machine)
    hashes = workload_hashes(database, args.program)
    records = [r for h in hashes for r in database.top(h, args.n, machine=machine)]
    records.sort(key=lambda r: r.cost or 0.0)
    if not records and known:
        note(_why_none(database, hashes, machine))
    return _print_records(records[: args.n], args.json)


def _why_none(database: Database, programs: Sequence[str | None], machine: str | None) -> str:
    """Why no record of a machine (None: this one) is shown, and what to do."""
    keys = keys_here(database.known_machines()) if machine is None else (machine,)
    there = (r for h in programs for key in keys for r in database.records(h, machine=key))
    if any(isinstance(r, Record) and r.cost is not None for r in there):
        return "each candidate with a time failed when it was last measured: `mslang db export` gives all records"
    known = database.machines()
    whose = "this machine" if this_machine().key in keys else known.get(keys[0]) or "that machine"
    others = ", ".join(sorted({name for key, name in known.items() if key not in keys}))
    return f"no record has a time of {whose}: `mslang db export` gives all, `mslang run` measures one" + (
        f"; `--machine` takes {others}" if others else ""
    )


def _list(database: Database, args: argparse.Namespace) -> int:
    rows = [(w.name, w.hash, count, best) for w, count, best in database.workloads()]
    if args.json:
        for name, hash, count, best in rows:
            emit({"kind": "workload", "name": name, "hash": hash, "records": count, "best_seconds": best})
        for r in database.runs():
            emit(line_of(r))
        return DONE
    print(
        table(
            ("program", "hash", "records", "best"),
            [(n, h[:12], c, seconds_text(b) if b is not None else "–") for n, h, c, b in rows],
        )
    )
    runs = database.runs()
    if runs:
        print()
        print(
            table(("run", "file", "space", "seed", "made"), [(r.id, r.file, r.space, r.seed, r.created) for r in runs])
        )
    return DONE


def _show(database: Database, args: argparse.Namespace) -> int:
    r = database.record(args.id)
    if args.json:
        emit(line_of(r))
        return DONE
    tried = "timed with the best" if r.trial == INCUMBENT else f"trial {r.trial}"
    print(f"record {r.id}: {r.program}, {tried} of run {r.run}, seed {r.seed}, mslang {r.version}, {r.created}")
    print(f"target {r.target}; machine {r.device} ({r.machine[:8] or 'key unknown'}); compiler {r.compiler}")
    timing = r.result.timing
    if timing is not None and timing.yardstick is not None:
        print(f"the processor did {timing.yardstick / 1e9:.4g} GFLOP/s on one core meanwhile")
    if timing is not None:
        bound = "at least " if timing.censored else ""
        print(
            f"{r.result.outcome.value}: {bound}{seconds_text(timing.median)} ± {seconds_text(timing.mad)} "
            f"({len(timing.samples)} × {timing.runs} calls)" + (f"; {conditions(timing)}" if conditions(timing) else "")
        )
        worth = _worth(database, r, timing)
        if worth:
            print(worth)
    else:
        print(f"{r.result.outcome.value}: {r.result.reason}")
    for v in r.result.verified:
        print(f"verified on {v.inputs}, largest error {v.max_error:g}")
    print(f"\n{r.schedule.rstrip()}")
    return DONE


def _worth(database: Database, record: Record, timing: Timing) -> str:
    """The rate of a record, and its share of the peak if this machine ran it; empty where it is not rated."""
    from mslang.report.rated import rated

    texts = {w.source: w.text for w in database.texts(record.workload)}
    text = texts.get(record.source) or next(iter(texts.values()), None)
    if text is None or timing.censored:
        return ""
    found = rated(text, record.target, record.machine, keys_here(database.known_machines()))
    return "" if found is None else found.scale.rate(timing)


def _print_records(records: Iterable[Record], as_json: bool) -> int:
    found = list(records)
    if as_json:
        for r in found:
            emit(line_of(r))
    else:
        head = ("record", "program", "time", "measured", "target", "compiler", "decisions")
        rows = [
            (r.id, r.program, seconds_text(r.seconds or 0.0), _measured(r), r.target, r.compiler, r.decisions)
            for r in found
        ]
        print(table(head, rows))
    return DONE if found else FINDINGS


def _measured(record: Record) -> str:
    timing = record.result.timing
    return "" if timing is None else conditions(timing)


def conditions(timing: Timing) -> str:
    """What is unusual about how a time was measured.

    >>> conditions(Timing((1e-3,), 1, core=0.75, cold=True, alone=0.6))
    'cold caches, core at 75 %, 60 % of a core'
    """
    said = ["cold caches"] if timing.cold else []
    if timing.core is not None and timing.core < SLOW_CORE:
        said.append(f"core at {100 * timing.core:.0f} %")
    if timing.shared_core and timing.alone is not None:
        said.append(f"{100 * timing.alone:.0f} % of a core")
    return ", ".join(said)
