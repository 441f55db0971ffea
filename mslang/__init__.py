"""mslang: a language, a tuner and an editor for making tensor programs fast.

`import mslang as ms` is quick: each name below is imported when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mslang import interop as interop
    from mslang.api.applying import apply as apply
    from mslang.api.kernels import build as build
    from mslang.api.kernels import empty as empty
    from mslang.api.kernels import profile_kernel as profile_kernel
    from mslang.api.source import Source as Source
    from mslang.api.source import load as load
    from mslang.api.source import parse as parse
    from mslang.api.source import program as program
    from mslang.api.source import schedule as schedule
    from mslang.api.threads import keep_awake as keep_awake
    from mslang.api.tuning import tune as tune
    from mslang.api.tuning import tune_all as tune_all
    from mslang.apply.library import LibraryCall as LibraryCall
    from mslang.apply.passes import Applied as Applied
    from mslang.apply.passes import Missed as Missed
    from mslang.apply.passes import Served as Served
    from mslang.backend.backend import BackEnd as BackEnd
    from mslang.backend.backend import Options as Options
    from mslang.backend.backend import Stage as Stage
    from mslang.diagnostics import Diagnostic as Diagnostic
    from mslang.diagnostics import MsError as MsError
    from mslang.extensions import allowing as allowing
    from mslang.ir import te as te
    from mslang.ir.print import print_program as print_program
    from mslang.profiling import profile as profile
    from mslang.schedule.handles import Handle as Handle
    from mslang.schedule.rules.automatic import automatic_space as automatic_space
    from mslang.schedule.rules.custom import rule as rule
    from mslang.schedule.rules.rule import Rule as Rule
    from mslang.schedule.rules.sets import postprocessors_for as postprocessors_for
    from mslang.schedule.rules.sets import rules_for as rules_for
    from mslang.schedule.schedule import Schedule as Schedule
    from mslang.schedule.trace import Trace as Trace
    from mslang.sema.program import parse_program as parse_program
    from mslang.target.detect import host as host
    from mslang.transform.outcome import BlockRef as BlockRef
    from mslang.transform.outcome import BufferRef as BufferRef
    from mslang.transform.outcome import LoopRef as LoopRef
    from mslang.transform.outcome import Outcome as Outcome
    from mslang.transform.outcome import refuse as refuse
    from mslang.transform.outcome import then as then
    from mslang.transform.primitive import Primitive as Primitive
    from mslang.transform.primitive import primitive as primitive
    from mslang.transform.registries import REGISTRY as REGISTRY
    from mslang.transform.registries import Registry as Registry
    from mslang.tune.database import Database as Database

_WHERE = {
    "apply": "mslang.api.applying",
    **dict.fromkeys(("build", "empty", "profile_kernel"), "mslang.api.kernels"),
    **dict.fromkeys(("Source", "load", "parse", "program", "schedule"), "mslang.api.source"),
    "keep_awake": "mslang.api.threads",
    **dict.fromkeys(("tune", "tune_all"), "mslang.api.tuning"),
    **dict.fromkeys(("BackEnd", "Options", "Stage"), "mslang.backend.backend"),
    **dict.fromkeys(("Diagnostic", "MsError"), "mslang.diagnostics"),
    **dict.fromkeys(("BlockRef", "BufferRef", "LoopRef", "Outcome", "refuse", "then"), "mslang.transform.outcome"),
    **dict.fromkeys(("Primitive", "primitive"), "mslang.transform.primitive"),
    **dict.fromkeys(("REGISTRY", "Registry"), "mslang.transform.registries"),
    "LibraryCall": "mslang.apply.library",
    "allowing": "mslang.extensions",
    "Handle": "mslang.schedule.handles",
    "automatic_space": "mslang.schedule.rules.automatic",
    "rule": "mslang.schedule.rules.custom",
    "Rule": "mslang.schedule.rules.rule",
    **dict.fromkeys(("postprocessors_for", "rules_for"), "mslang.schedule.rules.sets"),
    "Schedule": "mslang.schedule.schedule",
    "Trace": "mslang.schedule.trace",
    "Database": "mslang.tune.database",
    **dict.fromkeys(("Applied", "Missed", "Served"), "mslang.apply.passes"),
    "host": "mslang.target.detect",
    "profile": "mslang.profiling",
    "parse_program": "mslang.sema.program",
    "print_program": "mslang.ir.print",
}

_MODULES = {"te": "mslang.ir.te", "interop": "mslang.interop"}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'mslang' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted((*globals(), *_WHERE, *_MODULES))


class _Called(ModuleType):
    """A package that is called as the function of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self.__name__.rpartition(".")[2]
        return getattr(import_module(_WHERE[function]), function)(*args, **kwargs)


class _Root(ModuleType):
    """This package. Importing `mslang.tune` puts that package where the function `ms.tune` was; so it is called too."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _WHERE and isinstance(value, ModuleType):
            value.__class__ = _Called
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Root
