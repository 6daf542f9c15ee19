"""Single-location regression: what softmax attention buys, computed."""

from .activations import Erf as Erf, Linear as Linear, Softmax as Softmax, Softplus as Softplus
from .tasks import MaxSLR as MaxSLR, Sequences as Sequences, SpikedSLR as SpikedSLR
