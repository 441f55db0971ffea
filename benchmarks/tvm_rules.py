"""The sketches that TVM's tests expect of its schedule rules, and whether ours are among them.

python benchmarks/tvm_rules.py TVM_CHECKOUT [--only NAME] [--verbose]

The tests of MetaSchedule's rules state the programs that a rule, or all of a target's, must make of a program; some
state that it must stay as it is. This reads them out of TVM's sources (nothing of TVM is run), makes the space of our
rules for the same program, and compares structure: which blocks there are, what each reads and writes in which memory,
which blocks share a loop, which loops are bound to which axis, and which run copies ahead in how many stages. Sizes,
unit loops, and the marks that TVM's postprocessors take away again do not count. Programs that TVM's tests make with
its expression language are written out in `tvm_suite/rules.py`.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from common import table
from tvm_suite.rules import PROGRAMS, RULES, machine_of, rules_of

from mslang.diagnostics import MsError
from mslang.interop.tvmscript.read import parse
from mslang.ir.annotations import COPY, STAGES
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.program import Block, For, Program, Stmt
from mslang.ir.visit import bodies
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.space import Candidate

FOLDERS = ("tests/python/s_tir/meta_schedule", "tests/python/meta_schedule", "tests/python/unittest")
HEADER = "from tvm.script import tirx as T\n"
MOST = 100
"""Structures of a space that are looked at."""
KINDS = ("all", "some", "none", "not read")
"""The outcomes of a case: how many of the expected sketches are ours."""

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
    for stem in RULES:
        path = folder / f"test_meta_schedule_{stem}.py"
        for case in cases(path) if path.is_file() else ():
            if args.only not in f"{stem}:{case.name}":
                continue
            outcome = judged(case, stem, args.verbose)
            rows.append([stem.removeprefix("schedule_rule_"), case.name.removeprefix("test_"), outcome])
    print(table(["tests", "case", "expected sketches among ours"], rows))
    print()
    print(summary([(stem, outcome.partition(":")[0]) for stem, _, outcome in rows]))


def summary(outcomes: Sequence[tuple[str, str]]) -> str:
    """The cases of each file by their outcome, and of all."""
    counts = Counter(outcomes)
    lines = [
        [stem, str(sum(n for (x, _), n in counts.items() if x == stem)), *(str(counts[stem, k] or "") for k in KINDS)]
        for stem in dict.fromkeys(stem for stem, _ in outcomes)
    ]
    total = Counter(kind for _, kind in outcomes)
    lines.append(["all", str(total.total()), *(str(total[k] or "") for k in KINDS)])
    share = f"{100 * total['all'] / max(1, total.total()):.0f} %"
    last = f"All expected sketches are ours in {total['all']} of {total.total()} cases ({share})."
    return f"{table(['tests', 'cases', *KINDS], lines)}\n\n{last}"


class Case:
    """One test: its name, the program it begins with and those it expects, as Python text.

    `before` is None where the program is not in the file; `expected` is empty where none is stated, and None where the
    program must stay as it is.
    """

    def __init__(self, name: str, before: str | None, expected: Sequence[str] | None) -> None:
        self.name, self.before, self.expected = name, before, expected


Definition = ast.FunctionDef | ast.ClassDef


def cases(path: Path) -> Iterator[Case]:
    """The tests of a file, one case for each space that a test compares with programs."""
    tree = ast.parse(path.read_text())
    top = {s.name: s for s in tree.body if isinstance(s, Definition)}
    for test in top.values():
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
            found = list(_cases_of(test, top))
            yield from found or [Case(test.name, None, ())]


def _cases_of(test: ast.FunctionDef, top: Mapping[str, Definition]) -> Iterator[Case]:
    known = {**top, **{s.name: s for s in ast.walk(test) if isinstance(s, Definition)}}
    given = _parameters(test)

    def text(x: ast.expr) -> str | None:
        match x:
            case ast.Name(id=name) if name in known and known[name] != test:
                return text_of(known[name], given)
            case ast.Call(func=ast.Name(id=name), keywords=keywords) if isinstance(known.get(name), ast.FunctionDef):
                return returned(known[name], {k.arg or "": k.value for k in keywords})
        return None

    before: str | None = None
    for s in ast.walk(test):
        match s:
            case ast.Assign(targets=[ast.Name(id="mod")], value=value):
                before = text(value)
            case ast.keyword(arg="mod", value=value):
                before = text(value) or before
            case ast.keyword(arg="expected_mods", value=ast.List(elts=elts)):
                found = [t for t in map(text, elts) if t is not None]
                assert len(found) == len(elts), f"{test.name} expects {ast.unparse(s.value)}"
                yield Case(test.name, before, found)
            case ast.keyword(arg="expected_mods", value=ast.Constant(value=None)):
                yield Case(test.name, before, None)
            case ast.keyword(arg="rhs", value=value) if (after := text(value)) is not None:
                yield Case(test.name, before, [after])
            case ast.Call(func=ast.Name("assert_structural_equal"), args=[_, x]) if (after := text(x)) is not None:
                yield Case(test.name, before or after, [after])
            case ast.Call(func=ast.Attribute(attr="assert_structural_equal"), args=[ast.Name(id="mod"), _]):
                yield Case(test.name, before, None)
            case ast.Assert(test=ast.UnaryOp(op=ast.Not(), operand=ast.Attribute(attr="insts"))):
                yield Case(test.name, before, None)


def _parameters(test: ast.FunctionDef) -> dict[str, ast.expr]:
    """What a test is run with: the first of the values that it is parametrized by, and the defaults. A name is as good
    as its value: an intrinsic's stands in marks only."""
    names = [a.arg for a in test.args.args]
    defaults = dict(zip(reversed(names), reversed(test.args.defaults), strict=False))
    found = {k: ast.Constant(v.id) if isinstance(v, ast.Name) else v for k, v in defaults.items()}
    for d in test.decorator_list:
        match d:
            case ast.Call(args=[ast.Constant(value=str(name)), ast.List(elts=[first, *_])]):
                found[name] = first
    return found


def returned(maker: Definition, given: Mapping[str, ast.expr]) -> str | None:
    """The program that a function returns for some arguments."""
    done = _Given(given).visit(ast.parse(ast.unparse(maker)).body[0])
    return next((text_of(s, {}) for s in done.body if isinstance(s, ast.FunctionDef)), None)


def text_of(node: Definition, given: Mapping[str, ast.expr]) -> str:
    """The text of a definition with its decorators, with the values of some names."""
    return ast.unparse(_Given(given).visit(ast.parse(ast.unparse(node)).body[0]))


class _Given(ast.NodeTransformer):
    """Puts in the values of names, and takes the branches that they decide.

    Of texts with unknown parts the rest is left: tests over several scopes put the scope's name in, and any is expected
    alike.
    """

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return ast.Constant("".join(x.value for x in node.values if isinstance(x, ast.Constant)))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.BinOp(left=ast.Constant(value=int(a)), op=ast.Sub(), right=ast.Constant(value=int(b))):
                return ast.Constant(a - b)
        return node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        match node.test:
            case ast.Compare(left=ast.Constant(value=a), ops=[ast.Eq()], comparators=[ast.Constant(value=b)]):
                return node.body if a == b else node.orelse
        return node


def judged(case: Case, stem: str, verbose: bool) -> str:
    """How many of the expected sketches are among ours."""
    if case.expected == ():
        return "not read: it states no programs"
    try:
        (before,) = parse(HEADER + case.before) if case.before else (PROGRAMS[stem, case.name],)
        machine = machine_of(stem, case.name)
        on_cpu = machine.kind == "cpu"
        after = [before] if case.expected is None else [p for text in case.expected for p in parse(HEADER + text)]
        expected = [skeleton(p, on_cpu) for p in after]
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
                pipeline = _pipeline(dict(s.annotations))
                if pipeline is not None:
                    return [(*pipeline, *inner)]
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


def _pipeline(annotations: Mapping[str, object]) -> Skeleton | None:
    """How many stages a pipelined loop has, and whether its copies are asynchronous."""
    match annotations.get(STAGES), annotations.get("software_pipeline_stage"):
        case int(stages), _:
            return ("pipeline", stages, annotations.get(COPY) == "cp_async")
        case _, tuple(numbers):  # TVM numbers the iterations by which a statement lags behind.
            return ("pipeline", max(numbers) + 1, "software_pipeline_async_stages" in annotations)
    return None


def skeleton(program: Program, on_cpu: bool) -> Skeleton:
    """What rules decide of a program: blocks, the memory they read and write, loops shared and bound."""
    view = _View(program, on_cpu)
    return tuple(x for s in program.body for x in view.stmt(s))


if __name__ == "__main__":
    main()
