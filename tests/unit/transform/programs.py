"""Programs to transform, and a terse text of loops and blocks to compare."""

from collections.abc import Callable, Sequence

import pytest

from mslang.diagnostics import ScheduleError
from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Symbol, Unary, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.operators import Value, expression
from mslang.ir.program import Block, For, If, Program, Stmt
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef


def matmul(m: int = 64, n: int = 48, k: int = 32) -> Program:
    b = ProgramBuilder("matmul")
    a, w, c = b.input("A", (m, k)), b.input("B", (k, n)), b.output("C", (m, n))
    with b.block("mm", spatial("x", m), spatial("y", n), reduce("z", k)) as (x, y, z):
        c[x, y] += a[x, z] * w[z, y]
    return renamed_loops(b.finish(), {"x": "i", "y": "j", "z": "k"})


def copy(n: int = 100) -> Program:
    b = ProgramBuilder("copy")
    a, c = b.input("A", (n,)), b.output("B", (n,))
    with b.block("b", spatial("x", n)) as (x,):
        c[x] = a[x] + 1.0
    return renamed_loops(b.finish(), {"x": "i"})


def chain() -> Program:
    """T = A + 1; B = T * 2, in nests of their own."""
    b = ProgramBuilder("chain")
    a, c, t = b.input("A", (8, 16)), b.output("B", (8, 16)), b.alloc("T", (8, 16))
    with b.block("first", spatial("x", 8), spatial("y", 16)) as (x, y):
        t[x, y] = a[x, y] + 1.0
    with b.block("second", spatial("x", 8), spatial("y", 16)) as (x, y):
        c[x, y] = t[x, y] * 2.0
    return b.finish()


def renamed_loops(program: Program, names: dict[str, str]) -> Program:
    from mslang.transform.rename import rename

    return rename(program, {LoopRef(old): new for old, new in names.items()}).program


# ------------------------------------------------------------------ text
def outline(program: Program) -> str:
    """Loops, blocks, bindings and predicates, one a line."""
    lines: list[str] = []

    def visit(body: tuple[Stmt, ...], depth: int) -> None:
        for s in body:
            match s:
                case For():
                    start = "0" if s.start == Const(0) else text(s.start)
                    kind = "" if s.kind == "serial" else f" @ {s.kind}"
                    notes = "".join(f" {k}={text(v) if isinstance(v, Expr) else v}" for k, v in s.annotations)
                    lines.append("  " * depth + f"{s.var} in {start}+{text(s.extent)}{kind}{notes}")
                    visit(s.body, depth + 1)
                case Block():
                    axes = ", ".join(f"{a.name} = {text(a.binding)}" for a in s.axes)
                    where = "" if s.predicate == Const(True, "bool") else f" where {text(s.predicate)}"
                    lines.append("  " * depth + f"{s.name}[{axes}]{where}")
                case If():
                    lines.append("  " * depth + f"if {text(s.condition)}")
                    visit(s.then, depth + 1)
                case _:
                    lines.append("  " * depth + type(s).__name__)

    visit(program.body, 0)
    return "\n".join(lines)


def text(e: Expr) -> str:
    match e:
        case Const(value=v):
            return str(v)
        case Var(name=n):
            return n
        case Symbol():
            return e.text
        case Binary(op=op, left=a, right=b):
            return f"{_inner(a)} {op} {_inner(b)}"
        case Unary(op=op, operand=x):
            return f"{op} {_inner(x)}"
        case Load(buffer=b, indices=xs) | Call(name=b, args=xs):
            return f"{b}({', '.join(map(text, xs))})"
        case Select() | Cast():
            return "…"
    raise TypeError(e)


def _inner(e: Expr) -> str:
    return f"({text(e)})" if isinstance(e, Binary) else text(e)


# ------------------------------------------------------------------ handles and refusals
def loop(name: str) -> LoopRef:
    return LoopRef(name)


def loops(names: str) -> list[LoopRef]:
    return [LoopRef(n) for n in names.split()]


def block(name: str) -> BlockRef:
    return BlockRef(name)


def buffer(name: str) -> BufferRef:
    return BufferRef(name)


def sizes(*factors: int | Expr | None) -> list[Expr | None]:
    return [Const(f) if isinstance(f, int) else f for f in factors]


def index_map(params: str, f: Callable[..., Sequence[Value | int | tuple[Value | int, Value | int]]]) -> IndexMap:
    """`index_map("ij", lambda i, j: (j, (i, i + 4)))`: a pair is a range."""

    def result(x: object) -> Expr:
        return Binary("..", *map(expression, x)) if isinstance(x, tuple) else expression(x)

    return IndexMap(tuple(params), tuple(result(x) for x in f(*(Value(Var(p)) for p in params))))


def refuses(code: str, act: Callable[[], object], *words: str) -> None:
    """What is done is refused, with this code and these words somewhere."""
    with refused(code, *words):
        act()


def refused(code: str, *words: str) -> "Refused":
    return Refused(code, words)


class Refused:
    """`with refused("MS306", "cover"): …`: the refusal has this code and says these words somewhere."""

    def __init__(self, code: str, words: tuple[str, ...]) -> None:
        self.code, self.words = code, words

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        if error is None:
            pytest.fail(f"not refused ({self.code})")
        if not isinstance(error, ScheduleError):
            return False
        d = error.diagnostic
        said = " ".join(x for x in (d.message, d.why, d.help) if x)
        assert d.code == self.code, said
        for word in self.words:
            assert word in said, said
        return True
