"""No module imports, at any remove, a module that imports it."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]


def modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for base, top in ((ROOT / "mslang", ROOT), (ROOT / "lsp" / "mslang_lsp", ROOT / "lsp")):
        for path in base.rglob("*.py"):
            name = ".".join(path.relative_to(top).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def imported(node: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    """What a module imports when it runs, inside of functions too; not what only types need."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.Import(names=names):
                yield from (n.name for n in names if n.name in known)
            case ast.ImportFrom(module=str(module), names=names):
                for n in names:
                    inner = f"{module}.{n.name}"
                    if inner in known or module in known:
                        yield inner if inner in known else module
        yield from imported(child, known)


def graph() -> dict[str, set[str]]:
    known = modules()
    return {m: set(imported(ast.parse(p.read_text()), known)) - {m} for m, p in known.items()}


def circle(edges: Mapping[str, set[str]]) -> list[str] | None:
    """Modules of which each imports the next, and the last the first."""
    done: set[str] = set()

    def look(module: str, path: list[str]) -> list[str] | None:
        if module in path:
            return path[path.index(module) :]
        if module in done:
            return None
        for other in sorted(edges[module]):
            found = look(other, [*path, module])
            if found is not None:
                return found
        done.add(module)
        return None

    return next((found for m in sorted(edges) if (found := look(m, [])) is not None), None)


def test_modules_have_an_order() -> None:
    assert circle(graph()) is None


def test_imports_inside_of_functions_count() -> None:
    known = modules()
    text = "def f():\n    from mslang.ir.print import print_program\nif TYPE_CHECKING:\n    import mslang.caching\n"
    assert set(imported(ast.parse(text), known)) == {"mslang.ir.print"}


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) is None
