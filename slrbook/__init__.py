"""Single-location regression: what softmax attention buys, computed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .activations import (
    Erf as Erf,
    Exponential as Exponential,
    Linear as Linear,
    Sigmoid as Sigmoid,
    Softmax as Softmax,
    Softplus as Softplus,
)
from .population import (
    PopulationRisk as PopulationRisk,
    attention_moments as attention_moments,
    bayes_risk as bayes_risk,
    elementwise_risk as elementwise_risk,
    overlap_risk as overlap_risk,
    population_risk as population_risk,
    risk_at as risk_at,
)
from .tasks import MaxSLR as MaxSLR, Sequences as Sequences, SpikedSLR as SpikedSLR

if TYPE_CHECKING:
    from .bayes_limit import BayesLimit as BayesLimit, solve_bayes as solve_bayes
    from .erm import Fit as Fit, fit_erm as fit_erm, generalization_error as generalization_error
    from .fixed_point import ConvergenceError as ConvergenceError
    from .state_evolution import (
        ErmLimit as ErmLimit,
        Overlap as Overlap,
        solve_erm as solve_erm,
        sweep as sweep,
    )

# torch and numba take seconds to import, and most of the package does without
_ON_DEMAND = {
    "BayesLimit": "bayes_limit", "solve_bayes": "bayes_limit",
    "Fit": "erm", "fit_erm": "erm", "generalization_error": "erm",
    "ConvergenceError": "fixed_point",
    "ErmLimit": "state_evolution", "Overlap": "state_evolution", "solve_erm": "state_evolution",
    "sweep": "state_evolution",
}


def __getattr__(name: str) -> object:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'slrbook' has no attribute {name!r}")
    return getattr(import_module(f".{_ON_DEMAND[name]}", __name__), name)
