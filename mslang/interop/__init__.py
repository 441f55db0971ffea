"""Import and export of other formats. Each has a module of its own, imported on first use."""

from importlib import import_module
from types import ModuleType

_FORMATS = ("tvm", "tvmscript")


def __getattr__(name: str) -> ModuleType:
    if name in _FORMATS:
        return import_module(f"mslang.interop.{name}")
    raise AttributeError(f"module 'mslang.interop' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted((*globals(), *_FORMATS))
