"""Single-location regression: what softmax attention buys, computed."""

from .activations import Erf as Erf, Linear as Linear, Softmax as Softmax, Softplus as Softplus
from .population import (
    PopulationRisk as PopulationRisk,
    attention_moments as attention_moments,
    bayes_risk as bayes_risk,
    overlap_risk as overlap_risk,
    population_risk as population_risk,
    risk_at as risk_at,
)
from .tasks import MaxSLR as MaxSLR, Sequences as Sequences, SpikedSLR as SpikedSLR
