"""Models in files: XGBoost's JSON with the names of the columns, a schema version and a checksum."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.search.models.boosting import XGBoost
from mslang.search.models.transfer import PackSum

SCHEMA = 1


class SavedModelError(MsError):
    """A saved model cannot be used (MS526)."""


class Saved(NamedTuple):
    """A trained model, and the columns that it was trained on."""

    model: XGBoost | PackSum
    names: tuple[str, ...]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    mslang_cost_model: int
    kind: Literal["task", "stores"]
    names: tuple[str, ...]
    offset: float
    checksum: str
    booster: str


def save(model: XGBoost | PackSum, path: Path, names: Sequence[str]) -> None:
    """Write a trained model to a file.

    Args:
        model: the model.
        path: the file.
        names: the columns of the features that it was trained on: `TaskFeatures.names` or `store_names`.

    Raises:
        MsError: MS526, the model has learned nothing yet.
        OSError: the file cannot be written.
    """
    if model.booster is None:
        raise MsError(problem("MS526", "a cost model that has learned nothing cannot be saved"))
    text = model.booster.save_raw(raw_format="json").decode()
    kind: Literal["task", "stores"] = "task" if isinstance(model, XGBoost) else "stores"
    offset = model.offset if isinstance(model, XGBoost) else 0.0
    path.write_bytes(msgspec.json.encode(_File(SCHEMA, kind, tuple(names), offset, _checksum(kind, text), text)))


def load(path: Path, names: Sequence[str] | None = None) -> XGBoost | PackSum:
    """Read a model that `save` has written.

    Args:
        path: the file.
        names: the columns of the features that it is wanted for (None: any).

    Raises:
        MsError: MS526, the file cannot be read, is damaged, of another version, or for other features.
    """
    model, trained = loaded(path)
    if names is not None and trained != tuple(names):
        raise refused(path, f"it was trained on other features: {len(trained)} columns, not {len(names)}")
    return model


def loaded(path: Path) -> Saved:
    """A model that `save` has written, with its columns.

    Raises:
        MsError: MS526, the file cannot be read, is damaged, or of another version.
    """
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as e:
        raise refused(path, e.strerror or str(e)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise refused(path, f"it is not a cost model: {e}") from None
    if file.mslang_cost_model != SCHEMA:
        raise refused(path, f"its version is {file.mslang_cost_model}; this mslang reads {SCHEMA}")
    if file.checksum != _checksum(file.kind, file.booster):
        raise refused(path, "its checksum does not match what it holds")
    model: XGBoost | PackSum = XGBoost() if file.kind == "task" else PackSum()
    model.booster = _booster(file.booster)
    if isinstance(model, XGBoost):
        model.offset = file.offset
    return Saved(model, file.names)


def _booster(text: str) -> Any:
    import xgboost

    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(text.encode()))
    return booster


def _checksum(kind: str, text: str) -> str:
    return blake2b(f"{kind}\n{text}".encode(), digest_size=16).hexdigest()


def refused(path: Path, why: str) -> SavedModelError:
    """The error of a file that cannot be used."""
    return SavedModelError(
        problem(
            "MS526",
            f"the cost model {path.name} cannot be used",
            why=why,
            help="name another file, or tune without it: a new model is learned",
        )
    )
