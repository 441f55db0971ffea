"""Imports point down the layers of ARCHITECTURE.md, and nothing heavy is on the start-up path."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "mslang"

LAYERS = (
    "api",
    "cli",
    "report",
    "perf",
    "ide",
    "interop",
    "apply",
    "tune",
    "search",
    "backend",
    "lower",
    "schedule",
    "transform",
    "ops",
    "sema",
    "runtime",
    "target",
    "kernel",
    "ir",
    "workers",
    "syntax",
)
"""Top to bottom; a module may import its own layer and those below."""

BOTTOM = {
    "attribution",
    "brevity",
    "caching",
    "diagnostics",
    "extensions",
    "notebook",
    "profiling",
    "rendering",
    "resources",
    "suggestions",
    "",
}
"""Modules directly in `mslang` that every layer may use."""

FRONT = {"__init__", "__main__"}
"""Modules directly in `mslang` that stand above all layers."""


def layer_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                found |= {n.name for n in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {f"{module}.{n.name}" for n in names} | {module}
    return {m for m in found if m.split(".")[0] in ("mslang", "mslang_lsp")}


def sources() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if "_data" not in p.parts)


def test_every_folder_is_a_layer() -> None:
    folders = {p.parent.relative_to(PACKAGE).parts[0] for p in sources() if p.parent != PACKAGE}
    assert folders <= set(LAYERS)


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    if len(relative.parts) == 1:
        return
    own = LAYERS.index(relative.parts[0])
    for module in imports(path):
        assert not module.startswith("mslang_lsp"), f"{relative} imports the server"
        layer = layer_of(module)
        if layer in BOTTOM or layer == "__version__":
            continue
        assert layer in LAYERS, f"{relative} imports {module}, which is above all layers"
        assert LAYERS.index(layer) >= own, f"{relative} imports {module}: upward"


def loaded(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


HEAVY = {"numpy", "lark", "llvmlite", "xgboost", "pygls", "lsprotocol", "rich", "hypothesis", "sqlite3"}


@pytest.mark.parametrize(
    "statement",
    [
        "import mslang",
        "from mslang.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\nimport io",
    ],
)
def test_start_up_loads_nothing_heavy(statement: str) -> None:
    assert not loaded(statement) & HEAVY


def test_only_the_server_knows_the_protocol() -> None:
    for path in sources():
        text = path.read_text()
        assert "import pygls" not in text and "from pygls" not in text, path


def test_what_primitives_share_stands_below_them() -> None:
    below = {"analysis": ("rewriting", "primitives"), "rewriting": ("primitives",)}
    for folder, above in below.items():
        for path in sorted((PACKAGE / "transform" / folder).glob("*.py")):
            upward = [m for m in imports(path) if m.startswith(tuple(f"mslang.transform.{a}." for a in above))]
            assert not upward, f"{path.name} of {folder} imports {upward}"


def test_only_the_registry_and_compositions_import_primitives() -> None:
    folders, modules = {"transform", "schedule"}, {PACKAGE / "lower" / "gpu" / "fetch.py"}
    for path in sources():
        if path.relative_to(PACKAGE).parts[0] not in folders and path not in modules:
            assert not any(m.startswith("mslang.transform.primitives") for m in imports(path)), path


NOT_OPERATORS = {"attrgetter", "index", "is_"}
"""What modules use of Python's `operator` beside the operators themselves."""


def test_operators_have_one_table() -> None:
    for path in sources():
        imported = imports_of_operator(path.read_text())
        assert imported <= NOT_OPERATORS or path == PACKAGE / "ir" / "arith" / "operations.py", (path, imported)


def imports_of_operator(text: str) -> set[str]:
    tree = ast.parse(text)
    whole = any(n.name == "operator" for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names)
    used: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="operator", names=names):
                used |= {n.name for n in names}
            case ast.Attribute(value=ast.Name(id="operator"), attr=name) if whole:
                used.add(name)
    return used


def test_imports_of_operators_are_found() -> None:
    assert imports_of_operator("import operator\nSMALL = {'+': operator.add}") == {"add"}
    assert imports_of_operator("from operator import mul") == {"mul"}


KINDS = {"cpu", "cuda"}
"""Kinds of targets."""


def _asks_for_a_kind(node: ast.AST) -> bool:
    """Is it `x.kind == "cpu"` or `"cpu" in …kinds`, or a table or match by kind of target?"""
    match node:
        case ast.Compare(left=left, comparators=others):
            return any(isinstance(x, ast.Constant) and x.value in KINDS for x in (left, *others))
        case ast.MatchValue(value=ast.Constant(value=value)):
            return value in KINDS
        case ast.Dict(keys=keys):
            return any(isinstance(k, ast.Constant) and k.value in KINDS for k in keys)
    return False


def _imports_of(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                found += [n.name for n in names]
            case ast.ImportFrom(module=str(module)):
                found.append(module)
    return found


ABOUT_TARGETS = {"sema/targets.py", "sema/native.py", "target/description.py", "schedule/rules/sets.py"}
"""Where targets are described and the language's words for them are, and the table of the rules for each kind."""


def test_only_the_registry_of_back_ends_asks_what_kind_a_target_is() -> None:
    asking = {
        str(p.relative_to(PACKAGE))
        for p in sources()
        if p.relative_to(PACKAGE).parts[0] != "backend"
        and any(_asks_for_a_kind(n) for n in ast.walk(ast.parse(p.read_text())))
    }
    assert asking <= ABOUT_TARGETS


def _asks_for_a_field(node: ast.AST) -> bool:
    """Is it `"max_threads" in …`?"""
    match node:
        case ast.Compare(left=ast.Constant(value="max_threads"), ops=[ast.In() | ast.NotIn()]):
            return True
    return False


def test_only_the_description_of_a_target_decides_whether_it_has_threads() -> None:
    """All others ask `Target.has_threads`."""
    asking = {
        str(p.relative_to(PACKAGE))
        for p in sources()
        if any(_asks_for_a_field(n) for n in ast.walk(ast.parse(p.read_text())))
    }
    assert asking == {"target/description.py"}


def test_back_ends_are_reached_through_the_registry() -> None:
    own = (
        "mslang.backend.backend",
        "mslang.backend.registry",
        "mslang.backend.dispatch",
        "mslang.backend.reference.interpret",
    )
    for path in sources():
        if path.relative_to(PACKAGE).parts[0] == "backend":
            continue
        reached = [m for m in _imports_of(path) if m.startswith("mslang.backend") and m not in own]
        assert not reached, f"{path.relative_to(PACKAGE)} imports {reached}"
