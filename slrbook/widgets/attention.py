"""The weights that attention gives to the tokens of one sequence."""

from __future__ import annotations

from collections.abc import Sequence

import traitlets

from ..activations import Erf, Linear, Softmax, Softplus
from ._figure import Figure, bundle

_ACTIVATIONS = {"softmax": Softmax(), "linear": Linear(), "erf": Erf(0.0), "softplus": Softplus()}


class Attention(Figure):
    r"""Bars of the weights :math:`\sigma(a\,\chi)` of one sequence, with a slider for ``a``.

    Parameters
    ----------
    scores : sequence of L floats
        The key scores :math:`\chi` of the tokens at scale one; rounded to six decimals, so that
        the stored page and a running kernel show the same numbers.
    relevant : int
        The index of the token that carries the answer, from 0.
    scale : float
        The key scale ``a`` that the slider starts from, between 0 and 6.
    activation : str
        The activation shown first: "softmax", "linear", "erf" or "softplus".

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> Attention([0.0, 2.0], relevant=1, scale=1.5, activation="linear").weights()
    [1.0, 4.0]
    """

    _module = "attention.js"
    _esm = bundle("attention.js")

    scores = traitlets.List(traitlets.Float()).tag(sync=True)
    relevant = traitlets.Int().tag(sync=True)
    scale = traitlets.Float().tag(sync=True)
    activation = traitlets.Unicode().tag(sync=True)

    def __init__(self, scores: Sequence[float], relevant: int, *, scale: float = 1.0,
                 activation: str = "softmax") -> None:
        if not 0 <= relevant < len(scores):
            raise ValueError(f"relevant must be an index of the {len(scores)} scores, got {relevant}")
        if not 0 <= scale <= 6:
            raise ValueError(f"scale must lie between 0 and 6, got {scale}")
        if activation not in _ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(_ACTIVATIONS)}; got {activation!r}")
        super().__init__(scores=[round(float(score), 6) for score in scores],
                         relevant=int(relevant), scale=float(scale), activation=activation)

    def weights(self) -> list[float]:
        """Return the weights that are drawn at the present scale and activation."""
        scaled = [self.scale * score for score in self.scores]
        return _ACTIVATIONS[self.activation](scaled).tolist()

    def fallback(self) -> str:
        """Return a table of the scores and the weights."""
        rows = "".join(
            f"<tr><th scope=\"row\">{number}{' (needle)' if number == self.relevant + 1 else ''}</th>"
            f"<td>{score:.2f}</td><td>{weight:.3f}</td></tr>"
            for number, (score, weight) in enumerate(zip(self.scores, self.weights()), start=1))
        return (f"<table><caption>Attention weights ({self.activation}, key scale {self.scale:.1f})"
                "</caption><tr><th scope=\"col\">token</th><th scope=\"col\">score</th>"
                f"<th scope=\"col\">weight</th></tr>{rows}</table>")
