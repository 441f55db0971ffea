"""Which processor model to tune for, by features: a virtual machine may show a model that it is not."""

from __future__ import annotations

from collections.abc import Collection

_AMD = "sse4a"
"""A feature that AMD's processors have, and no others."""

_MODELS_AMD = (
    ("znver5", {"avx512vp2intersect", "avxvnni"}),
    ("znver4", {"avx512bf16"}),
    ("znver3", {"vaes"}),
    ("znver2", {"clwb", "avx2"}),
    ("znver1", {"clzero", "avx2"}),
)
_MODELS = (
    ("graniterapids", {"amx-fp16"}),
    ("sapphirerapids", {"amx-tile"}),
    ("sapphirerapids", {"avx512fp16"}),
    ("cooperlake", {"avx512bf16"}),
    ("icelake-server", {"avx512vbmi2"}),
    ("cascadelake", {"avx512vnni"}),
    ("skylake-avx512", {"avx512bw"}),
    ("alderlake", {"avxvnni"}),
    ("haswell", {"avx2", "fma"}),
)
"""LLVM's models, newest first, each with what the ones below do not have."""


def model_of(features: Collection[str], detected: str) -> str:
    """The newest of LLVM's x86 models whose distinguishing features are there; `detected` where none is.

    Models decide instruction scheduling and tuning alone: what code may use are the features.

    >>> model_of(("sse2", "avx2", "fma", "avx512bw", "avx512vnni", "avx512vbmi2", "amx-tile"), "rocketlake")
    'sapphirerapids'
    >>> model_of(("neon",), "neoverse-v1")
    'neoverse-v1'
    """
    models = _MODELS_AMD if _AMD in features else _MODELS
    return next((name for name, needed in models if needed.issubset(features)), detected)
