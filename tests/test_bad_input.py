"""Bad input is refused with a message that names the argument, its value and what is allowed."""

import math

import numpy as np
import pytest

from slrbook import (Erf, MaxSLR, Sigmoid, Softplus, SpikedSLR, attention_moments, bayes_risk,
                     elementwise_risk, overlap_risk, population_risk, risk_at)
from slrbook.gaussian import sobol_normals
from slrbook.lengths import as_lengths

NAN, INF = math.nan, math.inf
TASK = SpikedSLR(1.0, 2)
OVERLAPS = dict(m_k=1.0, q_k=1.0, m_v=1.0, q_v=1.0)

CASES = [
    (lambda: SpikedSLR(-1.0, 2), "nu must be a number >= 0, finite; got -1.0"),
    (lambda: SpikedSLR(INF, 2), "nu must be a number >= 0, finite; got inf"),
    (lambda: SpikedSLR(NAN, 2), "nu must be a number >= 0, finite; got nan"),
    (lambda: SpikedSLR("2", 2), "nu must be a number >= 0, finite; got '2'"),
    (lambda: SpikedSLR(True, 2), "nu must be a number >= 0, finite; got True"),
    (lambda: MaxSLR(-0.5, 2), "nu must be a number >= 0 (inf is allowed); got -0.5"),
    (lambda: MaxSLR(NAN, 2), "nu must be a number >= 0 (inf is allowed); got nan"),
    (lambda: MaxSLR(1.0, 0), "length must be an integer between 1 and 10**12; got 0"),
    (lambda: MaxSLR(1.0, 2.0), "length must be an integer between 1 and 10**12; got 2.0"),
    (lambda: MaxSLR(1.0, None), "length must be an integer between 1 and 10**12; got None"),
    (lambda: MaxSLR(1.0, True), "length must be an integer between 1 and 10**12; got True"),
    (lambda: as_lengths(10**13), "length must be an integer between 1 and 10**12; got 10000000000000"),
    (lambda: as_lengths({}), "length must be an integer or {L: probability} with an entry; got {}"),
    (lambda: as_lengths({1: 0.5, 2: 0.4}), "the probabilities of length must sum to 1; they sum to 0.9"),
    (lambda: as_lengths({1: 1.5, 2: -0.5}),
     "the probability of length 2 must be a number >= 0, finite; got -0.5"),
    (lambda: as_lengths({1: NAN}), "the probability of length 1 must be a number >= 0, finite; got nan"),
    (lambda: as_lengths({0: 0.5, 2: 0.5}), "length must be an integer between 1 and 10**12; got 0"),
    (lambda: as_lengths({"2": 1.0}), "length must be an integer between 1 and 10**12; got '2'"),
    (lambda: TASK.sample(0, 5, rng=0), "n must be an integer >= 1; got 0"),
    (lambda: TASK.sample(5.0, 5, rng=0), "n must be an integer >= 1; got 5.0"),
    (lambda: TASK.sample(5, 1, rng=0), "dim must be an integer >= 2; got 1"),
    (lambda: TASK.sample(5, 5, rng=0, noise=-1), "noise must be a number >= 0, finite; got -1"),
    (lambda: TASK.sample(5, 5, rng=None),
     "rng must be a numpy Generator or a seed (an integer >= 0); got None"),
    (lambda: TASK.sample(5, 5, rng=0, dtype=np.float16),
     "dtype must be one of dtype('float64'), dtype('float32'); got dtype('float16')"),
    (lambda: TASK.sample(5, 5, rng=0, teacher=(np.ones(5), np.ones(4))),
     "teacher's value_star must have shape (5,); got (4,)"),
    (lambda: TASK.sample(5, 5, rng=0, teacher=(np.zeros(5), np.ones(5))),
     "teacher's key_star must have squared norm D=5"),
    (lambda: TASK.location_posterior([NAN, 1.0]), "chi must hold finite numbers; got NaN or inf"),
    (lambda: TASK.location_posterior([[1.0, 2.0]], [[False, False]]),
     "mask must leave a token in every sequence; got an empty one"),
    (lambda: Erf(NAN), "offset must be a real number, finite; got nan"),
    (lambda: Softplus(INF), "offset must be a real number, finite; got inf"),
    (lambda: Softplus("low"), "offset must be a real number, finite; got 'low'"),
    (lambda: Softplus(power=0.0), "power must be a number > 0, finite; got 0.0"),
    (lambda: Softplus(power=INF), "power must be a number > 0, finite; got inf"),
    (lambda: Softplus(normalised="no"), "normalised must be one of True, False; got 'no'"),
    (lambda: Sigmoid(NAN), "offset must be a real number, finite; got nan"),
    (lambda: Sigmoid(normalised=None), "normalised must be one of True, False; got None"),
    (lambda: population_risk(TASK, "relu"),
     "one of 'softmax', 'linear', 'erf', 'softplus', 'exponential', 'sigmoid'; got 'relu'"),
    (lambda: population_risk(TASK, None),
     "one of 'softmax', 'linear', 'erf', 'softplus', 'exponential', 'sigmoid'; got None"),
    (lambda: population_risk("spiked", "softmax"), "task must be a SpikedSLR or a MaxSLR; got 'spiked'"),
    (lambda: population_risk(TASK, "softmax", noise=NAN), "noise must be a number >= 0, finite; got nan"),
    (lambda: bayes_risk(TASK, noise=-0.1), "noise must be a number >= 0, finite; got -0.1"),
    (lambda: bayes_risk(None), "task must be a SpikedSLR or a MaxSLR; got None"),
    (lambda: risk_at(TASK, "softmax", INF), "key_scale must be a real number, finite; got inf"),
    (lambda: risk_at(TASK, "erf", 1.0), "offset of erf must be a number here; got None (free)"),
    (lambda: risk_at(TASK, Softplus(None), 1.0), "offset of softplus must be a number here; got None (free)"),
    (lambda: risk_at(TASK, "sigmoid", 1.0), "offset of sigmoid must be a number here; got None (free)"),
    (lambda: risk_at(TASK, Erf(-300.0), 1.0),
     "key_scale must leave weights that do not all underflow; got 1.0 for Erf(offset=-300.0)"),
    (lambda: population_risk(TASK, Softplus(None, normalised=False)),
     "offset of softplus must be a number here; got None (free)"),
    (lambda: attention_moments(TASK, "exponential", 30.0),
     "small enough that E sum sigma^2 of exponential is finite; got m=30.0, q=900.0"),
    (lambda: elementwise_risk(None), "task must be a SpikedSLR or a MaxSLR; got None"),
    (lambda: elementwise_risk(TASK, noise=-1.0), "noise must be a number >= 0, finite; got -1.0"),
    (lambda: attention_moments(TASK, "softmax", NAN), "m must be a real number, finite; got nan"),
    (lambda: attention_moments(TASK, "softmax", 2.0, 3.0), "q must be at least m**2 = 4.0; got 3.0"),
    (lambda: attention_moments(TASK, "softmax", 0.0, -1.0), "q must be a number >= 0, finite; got -1.0"),
    (lambda: overlap_risk(TASK, "softmax", **OVERLAPS, k_v=2.0),
     "the overlaps must form a positive semi-definite Gram matrix; its smallest eigenvalue is"),
    (lambda: overlap_risk(TASK, "softmax", **OVERLAPS, scrambles=1), "scrambles must be an integer >= 2; got 1"),
    (lambda: overlap_risk(TASK, "softmax", **OVERLAPS, samples=1000), "n must be a power of two; got 1000"),
    (lambda: overlap_risk(TASK, "softmax", **OVERLAPS, v_key_star=NAN),
     "v_key_star must be a real number, finite; got nan"),
    (lambda: sobol_normals(8, 0, 1), "dim must be an integer >= 1; got 0"),
]


@pytest.mark.parametrize("index", range(len(CASES)))
def test_refused(index):
    call, message = CASES[index]
    with pytest.raises(ValueError) as refusal:
        call()
    assert message in str(refusal.value)


def test_there_are_enough_cases():
    assert len(CASES) >= 30
