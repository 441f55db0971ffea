"""`mslang env`: the machine, the target inferred for it, and the state of back ends and optional parts."""

from __future__ import annotations

import argparse
import importlib.util
import platform
from importlib.metadata import PackageNotFoundError, version

from mslang import __version__
from mslang.cli.common import emit, table
from mslang.cli.main import DONE
from mslang.diagnostics import MsError

DOTS = ("avxvnni", "avx512vnni", "avx512bf16", "avx512fp16", "amx-int8", "amx-bf16")
"""Features that bring instructions for products of narrow types, by LLVM's names."""
PARTS = (
    ("code generation", "llvmlite", "", "CPU kernels"),
    ("GPU", "pycuda", "cuda", "running CUDA kernels"),
    ("language server", "pygls", "lsp", "`mslang lsp`"),
    ("peers", "torch", "bench", "comparisons in benchmarks/"),
)
"""Each part's name, the module it needs, the extra that installs it, and its purpose."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Whether to measure."""
    parser.add_argument("--measure", action="store_true", help="measure this machine's peak and memory bandwidth again")


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    from mslang.target.detect import host

    target = host()
    machine = {
        "mslang": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": target.cpu,
        "cores": target.cores,
        "vector bits": target.vector_bits,
        "dot products": " ".join(f for f in DOTS if target.has(f)) or "none",
        "l1 KiB": target.l1 // 1024,
        "l2 KiB": target.l2 // 1024,
        "l3 KiB": target.l3 // 1024,
        "triple": target.triple,
    }
    if args.measure:
        from mslang.target.limits import measured_limits

        limits = measured_limits(target, refresh=True)
        machine |= {
            "peak GFLOP/s, one core": round(limits.peak_core / 1e9, 1),
            "peak GFLOP/s, all cores": round(limits.peak / 1e9, 1),
            "copy GB/s": round(limits.bandwidth / 1e9, 1),
        }
    parts = [(name, module, extra, use, _version(module)) for name, module, extra, use in PARTS]
    added = _added()
    back_ends = _back_ends()
    if args.json:
        emit(
            {
                "kind": "environment",
                **machine,
                "features": target.features,
                "back_ends": [{"name": n, "serves": k, "state": s} for n, k, s in back_ends],
                "parts": {module: found for _, module, _, _, found in parts},
                "added": [{"name": n, "kind": k, "package": p, "state": s} for n, k, p, s in added],
            }
        )
        return DONE
    print(table(("machine", ""), machine.items()))
    print()
    print(
        table(
            ("part", "state", "for"),
            [
                (
                    name,
                    f"{module} {found}" if found else f"absent: pip install '.[{extra}]'" if extra else "absent",
                    use,
                )
                for name, module, extra, use, found in parts
            ],
        )
    )
    print()
    print(table(("back end", "serves", "state"), back_ends))
    if added:
        print()
        print(table(("added by packages", "is a", "package", "state"), added))
    return DONE


def _back_ends() -> list[tuple[str, str, str]]:
    """Each back end's name, the kinds of targets that it serves, and whether it runs here."""
    from mslang.backend.registry import back_end, back_end_names, unavailable_here

    found: list[tuple[str, str, str]] = []
    for name in back_end_names():
        try:
            kinds, reason = back_end(name).kinds, unavailable_here(name)
        except MsError as error:
            found.append((name, "", f"{error.diagnostic.message}: {error.diagnostic.why}"))
            continue
        found.append((name, ", ".join(kinds) or "any, if named", reason or "available"))
    return found


def _added() -> list[tuple[str, str, str, str]]:
    """Additions of installed packages: name, kind, package, and whether it could be loaded."""
    from mslang.extensions import ON_REQUEST, REDUCERS, allowed, declared_points, loaded, package_of
    from mslang.ir.reducers import Reducer
    from mslang.transform.registries import REGISTRY

    kinds = (("primitive", REGISTRY.installed()), ("reducer", loaded(REDUCERS, Reducer, allowed())))
    asked = [
        (e.name, kind, e.package, "loaded" if e.problem is None else f"{e.problem.message}: {e.problem.why}")
        for kind, found in kinds
        for e in found
    ]
    waiting = [
        (p.name, group.removeprefix("mslang.").removesuffix("s").replace("_", " "), package_of(p))
        for group in ON_REQUEST
        for p in declared_points(group)
        if package_of(p) not in allowed()
    ]
    return [*asked, *((*w, f"not loaded; --extension {w[2]} allows it") for w in waiting)]


def _version(module: str) -> str | None:
    if importlib.util.find_spec(module) is None:
        return None
    for name in (module, f"{module}-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of unknown version"
