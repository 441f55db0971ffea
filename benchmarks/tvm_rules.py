"""The sketches that TVM's tests expect of its schedule rules, and whether ours are among them.

python benchmarks/tvm_rules.py TVM_CHECKOUT [--only NAME] [--verbose]

The tests of MetaSchedule's rules state the programs that a rule, or all of a target's, must make of a program. This
reads them out of TVM's sources (nothing of TVM is run), makes the space of our rules for the same program, and compares
structure: which blocks there are, what each reads and writes in which memory, which blocks share a loop, and which
loops are bound to which axis. Sizes, unit loops, and the marks that TVM's postprocessors take away again do not count.
Programs that TVM's tests make with its expression language are written out in `tvm_suite/rules.py`.
"""

from __future__ import annotations

import argparse
import ast
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from common import table
from tvm_suite.rules import PROGRAMS, RULES, machine_of, rules_of

from mslang.diagnostics import MsError
from mslang.interop.tvmscript.read import parse
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.program import Block, For, Program, Stmt
from mslang.ir.visit import bodies
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.space import Candidate

FOLDERS = ("tests/python/s_tir/meta_schedule", "tests/python/meta_schedule", "tests/python/unittest")
HEADER = "from tvm.script import tirx as T\n"
MOST = 100
"""Structures of a space that are looked at."""

Skeleton = tuple[object, ...]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    folder = next((args.checkout / f for f in FOLDERS if (args.checkout / f).is_dir()), None)
    if folder is None:
        print(f"skipped: there are no tests of MetaSchedule in {args.checkout}")
        return
    rows: list[list[str]] = []
    outcomes: Counter[str] = Counter()
    for stem in RULES:
        path = folder / f"test_meta_schedule_{stem}.py"
        for case in cases(path) if path.is_file() else ():
            if args.only not in f"{stem}:{case.name}":
                continue
            outcome = judged(case, stem, args.verbose)
            outcomes[outcome.partition(":")[0]] += 1
            rows.append([stem.removeprefix("schedule_rule_"), case.name.removeprefix("test_"), outcome])
    print(table(["rule", "case", "expected sketches among ours"], rows))
    judged_cases = sum(n for kind, n in outcomes.items() if kind != "not read")
    print(f"{outcomes['all']} of {judged_cases} cases with all sketches, {outcomes['some']} with some; ", end="")
    print(f"{outcomes['not read']} cannot be read")


class Case:
    """One test: its name, the program it begins with and those it expects, as Python text; `made` names the former
    where it is not in the file."""

    def __init__(self, name: str, made: str, before: str | None, expected: Sequence[str]) -> None:
        self.name, self.made, self.before, self.expected = name, made, before, expected


def cases(path: Path) -> Iterator[Case]:
    """The tests of a file that expect sketches."""
    text = path.read_text()
    tree = ast.parse(text)
    top = {s.name: text_of(text, s) for s in tree.body if isinstance(s, ast.FunctionDef | ast.ClassDef)}
    for test in tree.body:
        if not isinstance(test, ast.FunctionDef) or not test.name.startswith("test_"):
            continue
        known = top | {s.name: text_of(text, s) for s in test.body if isinstance(s, ast.FunctionDef | ast.ClassDef)}
        made = ""
        for s in ast.walk(test):
            match s:
                case ast.Assign(targets=[ast.Name(id="mod")], value=value):
                    made = ast.unparse(value)
                case ast.Call(keywords=keywords):
                    named = {k.arg: k.value for k in keywords}
                    wanted = named.get("expected_mods") or named.get("rhs")
                    names = wanted.elts if isinstance(wanted, ast.List) else [wanted] if wanted is not None else []
                    found = [known[x.id] for x in names if isinstance(x, ast.Name) and x.id in known]
                    if found:
                        yield Case(test.name, made, known.get(made), found)


def text_of(text: str, node: ast.FunctionDef | ast.ClassDef) -> str:
    """The text of a definition with its decorators."""
    first = min(d.lineno for d in (*node.decorator_list, node))
    found = textwrap.dedent("\n".join(text.splitlines()[first - 1 : node.end_lineno]))
    # tests over several scopes put the scope's name in; any of them is expected alike
    return re.sub(r'f"([^"]*)\{[^"]*\}([^"]*)"', r'"\1\2"', found).replace("scope=shared_scope", 'scope="shared"')


def judged(case: Case, stem: str, verbose: bool) -> str:
    """How many of the expected sketches are among ours."""
    try:
        (before,) = parse(HEADER + case.before) if case.before else (PROGRAMS[stem, case.name],)
        machine = machine_of(stem, case.name)
        on_cpu = machine.kind == "cpu"
        expected = [skeleton(p, on_cpu) for text in case.expected for p in parse(HEADER + text)]
    except (MsError, KeyError) as error:
        return f"not read: {str(error).splitlines()[0][:90]}"
    space = automatic_space(before, machine, rules_of(stem, case.name), postprocessors=())
    sketches = list(islice(space.sketches(), MOST))
    if len(sketches) == MOST:  # The first ones differ little from one another.
        drawn = (space.attempt(seed) for seed in range(MOST))
        sketches += [d.sketch for d in drawn if isinstance(d, Candidate)]
    ours = {skeleton(s.program, on_cpu) for s in sketches}
    found = sum(x in ours for x in expected)
    if verbose and found < len(expected):
        print(f"--- {case.name}: expected", *(x for x in expected if x not in ours), "ours", *ours, sep="\n    ")
    kind = "all" if found == len(expected) else "some" if found else "none"
    return f"{kind}: {found} of {len(expected)} (ours: {len(ours)})"


class _View:
    """What of a program counts: memory by kind, and which blocks only begin what another one goes on with."""

    def __init__(self, program: Program, on_cpu: bool) -> None:
        alike = {"shared.dyn": "shared"} | ({"local": "global"} if on_cpu else {})
        self.scopes = {name: alike.get(b.scope, b.scope) for name, b in all_buffers(program).items()}
        blocks = blocks_of(program.body)
        writers = Counter(r.buffer for b in blocks for r in b.writes)
        self.begins = {b.name for b in blocks if not b.reads and any(writers[r.buffer] > 1 for r in b.writes)}

    def stmt(self, s: Stmt) -> list[object]:
        match s:
            case For(body=body, kind=kind):
                inner = [x for t in body for x in self.stmt(t)]
                copies = len(inner) == 1 and isinstance(inner[0], tuple) and inner[0][0] == "copy"
                if "Idx" in kind or kind.startswith("vthread"):
                    return inner if copies else [(kind, *inner)]
                # a loop around one thing is only a size; around several it says that they share it
                return inner if len(inner) <= 1 else [("loop", *inner)]
            case Block():
                return [] if s.name in self.begins else [self.block(s)]
        return [x for body in bodies(s) for t in body for x in self.stmt(t)]

    def block(self, b: Block) -> Skeleton:
        outputs = {r.buffer for r in b.writes}
        inputs = dict.fromkeys(r.buffer for r in b.reads if r.buffer not in outputs)
        written, read = (tuple(sorted(self.scopes.get(x, "view") for x in xs)) for xs in (outputs, inputs))
        if blocks_of(b.body):
            return ("tile", written, read)
        if any(a.kind == "reduce" for a in b.axes):
            return ("reduction", written, read)
        return ("copy" if "shared" in (*written, *read) else "block", written, read)


def skeleton(program: Program, on_cpu: bool) -> Skeleton:
    """What rules decide of a program: blocks, the memory they read and write, loops shared and bound."""
    view = _View(program, on_cpu)
    return tuple(x for s in program.body for x in view.stmt(s))


if __name__ == "__main__":
    main()
