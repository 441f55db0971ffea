"""Cost models by name: the built-in ones, and those of installed packages that were allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, cast

from mslang.diagnostics import Diagnostic, MsError, Severity, problem
from mslang.extensions import Function, allowed, declared, load
from mslang.search.draft import Draft
from mslang.search.estimates import Models
from mslang.search.features.extractor import Extractor
from mslang.search.features.registry import extractor_of
from mslang.search.features.task import Correction, FeatureMaker
from mslang.search.models.begun import BegunMaker, names_file
from mslang.search.models.boosting import XGBoost, is_installed
from mslang.search.models.model import CostModel, DraftModel, RandomModel
from mslang.search.models.pairwise import Pairwise
from mslang.search.models.saved import loaded
from mslang.search.registry import strategy_of
from mslang.search.strategy import MODELS as USED
from mslang.search.strategy import Factory as StrategyFactory
from mslang.search.strategy import uses
from mslang.suggestions import did_you_mean

GROUP = "mslang.cost_models"
"""The entry points that name a user's own models."""

Factory = Callable[[Sequence[str], int], CostModel]
"""Makes the model of a task from the names of its features and a seed."""

MODELS: Mapping[str, Factory] = MappingProxyType(
    {
        "xgboost": lambda names, seed: XGBoost(seed),
        "pairwise": lambda names, seed: Pairwise(seed),
        "draft": lambda names, seed: DraftModel(),
        "random": lambda names, seed: RandomModel(seed),
    }
)
"""The built-in models."""

TREES = ("xgboost", "pairwise")
"""The built-in models that need XGBoost, and begin with what other programs teach."""


class Chosen(NamedTuple):
    """The factory of a model, and what the user should know of the choice."""

    make: Factory
    note: Diagnostic | None = None


class Default(NamedTuple):
    """What ranks the candidates of a search, and what the user should know of it, once."""

    models: Models
    note: Diagnostic | None = None


def default_models(
    model: Factory | str | None = None,
    extractor: Extractor | str | None = None,
    correction: Correction | None = None,
) -> Default:
    """Draft, features and cost model of a search.

    Args:
        model: what makes the cost model, or its name; see `model_named`.
        extractor: what makes the features, or its name; the built-in one if None.
        correction: what other programs teach of the draft.

    Raises:
        MsError: as `model_named` and `extractor_named`.

    Example:
        >>> problem = Problem(space, target, models=default_models().models)  # doctest: +SKIP
    """
    chosen, features = model_of(model), extractor_of(extractor)
    if isinstance(model, str) and names_file(model):
        return Default(Models(Draft, BegunMaker(FeatureMaker(features), Path(model)), chosen.make, taught=True))
    maker = FeatureMaker(features, correction)
    return Default(Models(Draft, maker, chosen.make, taught=correction is not None), chosen.note)


def note_of(strategy: StrategyFactory | str, model: Factory | str | None) -> Diagnostic | None:
    """What the user should know of the cost model, if the strategy asks one.

    Raises:
        MsError: as `model_named` and `strategy_named`.
    """
    note = model_of(model).note
    return note if uses(strategy_of(strategy), USED) else None


def model_of(given: Factory | str | None) -> Chosen:
    """The cost model that is given, or that of a name; see `model_named`.

    Example:
        >>> model_of(lambda names, seed: DraftModel()).note is None
        True
    """
    return model_named(given) if given is None or isinstance(given, str) else Chosen(given)


def model_named(name: str | None = None) -> Chosen:
    """The cost model of a name; without one XGBoost's, or the draft with a note where XGBoost is not installed.

    A file's name (`team.json`) is that of a saved model, which XGBoost's begins with.

    Raises:
        MsError: MS525, the model is unknown or needs XGBoost, which is not installed; MS526, the file cannot be used;
            MS271, MS272, MS212 or MS213, it is that of a package and cannot be loaded.

    Example:
        >>> model_named("draft").note is None
        True
    """
    if name is None:
        return Chosen(MODELS["xgboost"]) if is_installed() else Chosen(MODELS["draft"], _missing(Severity.INFORMATION))
    if name in TREES and not is_installed():
        raise MsError(_missing(Severity.ERROR, name))
    if names_file(name):
        if not is_installed():
            raise MsError(_missing(Severity.ERROR, name))
        loaded(Path(name))
        return Chosen(MODELS["xgboost"])
    if name in MODELS:
        return Chosen(MODELS[name])
    if name in declared(GROUP):
        return Chosen(cast(Factory, load(GROUP, name, allowed(), Function)))
    known = (*MODELS, *declared(GROUP))
    raise MsError(
        problem(
            "MS525",
            f"unknown cost model `{name}`",
            why=f"the cost models are {', '.join(known)}",
            help=did_you_mean(name, known),
        )
    )


def _missing(severity: Severity, name: str = "xgboost") -> Diagnostic:
    return Diagnostic(
        "MS525",
        "XGBoost is not installed: candidates are ranked by the analytical draft alone"
        if severity is Severity.INFORMATION
        else f"the cost model `{name}` needs XGBoost, which is not installed",
        severity=severity,
        help="pip install '.[learn]'",
    )
