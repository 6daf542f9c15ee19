r"""Empirical risk minimisation at finite N and D: training, and the risk of what was trained.

Every token enters the objective through its two projections :math:`\chi` and :math:`z` only. So
an evaluation is two products with the tokens, which torch does block by block on CPU or CUDA, and
some arithmetic on arrays of shape (n, L), which numpy does with the activation's own ``vjp``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
import math
from typing import NamedTuple
import warnings

import numpy as np
import torch
from tqdm import tqdm

from . import _checks
from .activations import Activation, as_activation
from .tasks import MaxSLR, Sequences, SpikedSLR

#: Numbers in a block of tokens. On a CPU a block stays in the cache between its two products.
_BLOCK = {"cpu": 2**19, "cuda": 2**26}
#: Steps that L-BFGS remembers.
_MEMORY = 20
#: Entries in a history at most, besides the last.
_HISTORY = 256
#: Numbers that ``generalization_error`` draws at a time.
_DRAWS = 2**20
_MAX_ITERATIONS = {"lbfgs": 1000, "gd": 10_000, "sgd": 100}


class Overlaps(NamedTuple):
    r"""Scalar products of the trained and the hidden directions, divided by D.

    The first four are the order parameters of the theory. The last three are zero on the
    manifold where the theory lives, and of order :math:`1/\sqrt D` in a simulation.
    """

    m_k: float
    q_k: float
    m_v: float
    q_v: float
    k_value_star: float
    v_key_star: float
    k_v: float


class Record(NamedTuple):
    """The state of the training at one iteration."""

    iteration: int
    objective: float
    gradient_norm: float
    overlaps: Overlaps


@dataclass(frozen=True, eq=False)
class Fit:
    r"""A trained attention layer.

    Attributes
    ----------
    activation : Activation
        The activation it was trained with.
    key, value : (D,) arrays
        The trained directions.
    key_star, value_star : (D,) arrays
        The hidden directions of the teacher.
    objective : float
        The training objective E (loss summed over the sequences, and both ridge terms).
    train_loss : float
        The loss part per sequence, :math:`\frac{1}{2N} \sum_\mu (y_\mu - f(X_\mu))^2`.
    gradient_norm : float
        :math:`|\nabla E| \sqrt D / E_0`, where :math:`E_0 = \frac12 \sum_\mu y_\mu^2` is the
        objective of the null predictor. It does not depend on the units of the labels.
    overlaps : Overlaps
        ``m_k``, ``q_k``, ``m_v``, ``q_v``, ``k_value_star``, ``v_key_star``, ``k_v``.
    converged : bool
        Whether ``gradient_norm`` is at most the tolerance that was asked for.
    iterations : int
        Steps taken (``"sgd"``: passes over the data).
    history : tuple of Record
        Iteration, objective, gradient norm and overlaps along the way, at most 257 entries.
    message : str
        Why the training stopped, and what to change if it did not converge.
    """

    activation: Activation
    key: np.ndarray
    value: np.ndarray
    key_star: np.ndarray
    value_star: np.ndarray
    objective: float
    train_loss: float
    gradient_norm: float
    overlaps: Overlaps
    converged: bool
    iterations: int
    history: tuple[Record, ...]
    message: str

    @property
    def free_energy(self) -> float:
        """The objective divided by D, which the replica free energy predicts."""
        return self.objective / self.key.size


class _Point(NamedTuple):
    """The objective at one pair of directions, and what a line search from there needs."""

    parameters: np.ndarray  # (2, D): key, value
    projections: np.ndarray  # (2, n, L): chi, z
    loss: float
    objective: float
    gradient: np.ndarray  # (2, D)


class _Problem:
    """The training objective."""

    def __init__(self, sequences: Sequences, activation: Activation,
                 ridge: tuple[float, float], device: torch.device) -> None:
        self.activation = activation
        self.ridge = np.array(ridge)
        self.mask = None if sequences.mask.all() else sequences.mask
        self.label = np.asarray(sequences.label, dtype=float)
        with warnings.catch_warnings():  # read-only tokens, a memory map say, are welcome
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            self.tokens = torch.from_numpy(sequences.tokens).to(device)
        self.n, self.length, self.dim = self.tokens.shape
        self.block = max(1, _BLOCK[device.type] // (self.length * self.dim))
        self.null = 0.5 * self.label @ self.label
        self.stars = np.stack([sequences.key_star, sequences.value_star])

    def local(self, projections: np.ndarray, part=slice(None)) -> tuple[float, np.ndarray]:
        """The loss of some sequences, and its derivative in their projections."""
        chi, z = projections
        mask = None if self.mask is None else self.mask[part]
        weights = self.activation(chi, mask)
        error = (weights * z).sum(axis=-1) - self.label[part]
        scaled = error[:, None] * z
        slopes = np.stack([self.activation.vjp(chi, scaled, mask), error[:, None] * weights])
        return 0.5 * error @ error, slopes

    def partial(self, move: np.ndarray, part, before: np.ndarray | float = 0.0,
                wide: bool = False) -> tuple[np.ndarray, float, np.ndarray]:
        """Projections after a move, loss and gradient of the loss, for some sequences."""
        tokens = self.tokens[part].reshape(-1, self.dim)
        if wide:
            tokens = tokens.double()
        directions = torch.from_numpy(move / math.sqrt(self.dim)).to(tokens)
        # two vectors one by one: on a CPU the product with a (D, 2) matrix is several times slower
        projections = torch.stack([tokens.mv(direction) for direction in directions])
        projections = before + projections.cpu().numpy().reshape(2, -1, self.length)
        loss, slopes = self.local(projections, part)
        slopes = torch.from_numpy(slopes.reshape(2, -1)).to(tokens)
        gradient = torch.stack([tokens.T.mv(slope) for slope in slopes])
        return projections, loss, gradient.cpu().numpy().astype(float) / math.sqrt(self.dim)

    def start(self, parameters: np.ndarray, *, wide: bool = True) -> _Point:
        """The objective and its gradient at given directions; ``wide`` multiplies in float64."""
        nowhere = _Point(np.zeros((2, self.dim)), np.zeros((2, self.n, self.length)), 0, 0, None)
        return self.advance(nowhere, parameters, wide=wide)

    def advance(self, point: _Point, move: np.ndarray, *, wide: bool = False) -> _Point:
        """The objective and its gradient after a move, in one pass over the tokens.

        Only the move is multiplied with the tokens, so float32 rounds what is added to the
        projections and not the sum: the objective stays smooth down to small moves.
        """
        parameters = point.parameters + move
        projections = np.empty_like(point.projections)
        loss, gradient = 0.0, self.ridge[:, None] * parameters
        for start in range(0, self.n, self.block):
            part = slice(start, start + self.block)
            projections[:, part], part_loss, part_gradient = self.partial(
                move, part, point.projections[:, part], wide)
            loss += part_loss
            gradient += part_gradient
        penalty = 0.5 * self.ridge @ (parameters**2).sum(axis=1)
        return _Point(parameters, projections, loss, loss + penalty, gradient)

    def gradient_norm(self, point: _Point) -> float:
        """The norm of the gradient in units of the null predictor's objective."""
        return float(np.linalg.norm(point.gradient) * math.sqrt(self.dim) / self.null)

    def finite(self, point: _Point) -> bool:
        """Whether neither the objective nor its gradient overflowed."""
        return math.isfinite(point.objective) and math.isfinite(self.gradient_norm(point))

    def overlaps(self, parameters: np.ndarray) -> Overlaps:
        """The scalar products of all four directions, divided by D."""
        (m_k, k_value_star), (v_key_star, m_v) = parameters @ self.stars.T / self.dim
        (q_k, k_v), (_, q_v) = parameters @ parameters.T / self.dim
        overlaps = (m_k, q_k, m_v, q_v, k_value_star, v_key_star, k_v)
        return Overlaps(*(float(overlap) for overlap in overlaps))

    def safe_steps(self, point: _Point, batch: int) -> np.ndarray:
        r"""One over the curvature in the key and in the value, as a batch estimates it.

        With :math:`s_k` the mean of :math:`|\nabla_k f|^2`, the Gauss-Newton matrix of a batch
        in the key has the largest eigenvalue :math:`(N/b) s_k (1 + \sqrt{b/D})^2` where the
        gradients are isotropic (Marchenko and Pastur); the value alike.
        """
        chi, z = point.projections
        slopes = self.activation.vjp(chi, z, self.mask)
        weights = self.activation(chi, self.mask)
        squares = np.array([(slopes**2).sum(), (weights**2).sum()])
        spread = (1 + math.sqrt(batch / self.dim)) ** 2
        curvatures = self.ridge + squares / batch * spread
        return 1 / np.maximum(curvatures, 1e-6 * curvatures.max())  # v = 0 leaves k without any

    def step_length(self, point: _Point, trial: _Point, decrease: float) -> float | None:
        """A length that satisfies the weak Wolfe conditions on the line from point to trial.

        The projections are linear along the line, so no product with the tokens is needed.
        ``None`` if rounding hides the descent.
        """
        turn = trial.projections - point.projections
        move = trial.parameters - point.parameters
        tilt = self.ridge @ (move * point.parameters).sum(axis=1)
        bend = self.ridge @ (move**2).sum(axis=1)

        def along(t: float) -> tuple[float, float]:
            loss, slopes = self.local(point.projections + t * turn)
            change = loss - point.loss + t * tilt + t * t * bend / 2
            return change, (slopes * turn).sum() + tilt + t * bend

        slope_0 = along(0.0)[1]
        if not slope_0 < 0:
            return None
        rounding = 1e-10 * point.objective  # below it the slopes tell more than the values
        low, high, t = 0.0, math.inf, 1.0
        for _ in range(60):
            change, slope = along(t)
            falls = change <= decrease * t * slope_0 or (
                change <= rounding and slope <= (2 * decrease - 1) * slope_0)
            if not falls:
                high = t
            elif slope < 0.9 * slope_0:
                low = t
            else:
                return t
            t = (low + high) / 2 if high < math.inf else 2 * t
        return None


class _Trace:
    """The history of a training: when it is full, every other record goes."""

    def __init__(self, problem: _Problem) -> None:
        self.problem, self.records, self.every = problem, [], 1

    def add(self, iteration: int, point: _Point, *, last: bool = False) -> None:
        """Record the point if its turn has come, or if it is the last."""
        if last and self.records[-1].iteration == iteration:
            return
        if not last and iteration % self.every:
            return
        self.records.append(Record(iteration, float(point.objective),
                                   self.problem.gradient_norm(point),
                                   self.problem.overlaps(point.parameters)))
        if len(self.records) > _HISTORY and not last:
            self.records = self.records[::2]
            self.every *= 2


def _quasi_newton(gradient: np.ndarray, pairs: deque, scale: np.ndarray) -> np.ndarray:
    """The L-BFGS direction (two-loop recursion), from a first guess of the inverse Hessian."""
    direction = -gradient
    weights = []
    for move, turn, product in reversed(pairs):
        weights.append((move * direction).sum() / product)
        direction = direction - weights[-1] * turn
    if pairs:
        _, turn, product = pairs[-1]
        scale = product / (scale * turn**2).sum() * scale
    direction = scale * direction
    for (move, turn, product), weight in zip(pairs, reversed(weights)):
        direction += (weight - (turn * direction).sum() / product) * move
    return direction


def _descend(problem: _Problem, point: _Point, *, memory: int, learning_rate: float | None,
             tolerance: float) -> Generator[_Point, None, str]:
    """Yield the points of L-BFGS, or of gradient descent where the memory is 0."""
    decrease = 1e-4 if memory else 0.5
    scale = learning_rate or problem.safe_steps(point, problem.n).min()
    pairs = deque(maxlen=memory)
    while True:
        if memory:
            scale = problem.safe_steps(point, problem.n)[:, None]
        direction = _quasi_newton(point.gradient, pairs, scale)
        trial = problem.advance(point, direction)
        if learning_rate is None:
            length = problem.step_length(point, trial, decrease)
            if length is None:
                return ("the slope is lost in rounding: raise tolerance, or give float64 tokens "
                        "if these are float32")
            if length != 1:
                trial = problem.advance(point, length * direction)
            if not memory:
                scale *= length
        if not problem.finite(trial):
            return "the objective overflowed: lower learning_rate"
        move, turn = trial.parameters - point.parameters, trial.gradient - point.gradient
        curvature = (move * turn).sum()
        if curvature > 0:
            pairs.append((move, turn, curvature))
        point = trial
        if problem.gradient_norm(point) <= tolerance:  # look again without the moves' rounding
            point = problem.start(point.parameters)
        yield point


def _shuffle(problem: _Problem, point: _Point, *, batch: int, learning_rate: float | None,
             rng: np.random.Generator) -> Generator[_Point, None, str]:
    """Yield the points of stochastic gradient descent after each pass over the data."""
    step = problem.safe_steps(point, batch).min() if learning_rate is None else learning_rate
    parameters = point.parameters
    updates = 0
    while True:
        order = rng.permutation(problem.n)
        for start in range(0, problem.n - batch + 1, batch):
            _, _, gradient = problem.partial(parameters, order[start:start + batch])
            gradient *= problem.n / batch
            gradient += problem.ridge[:, None] * parameters
            rate = step / (1 + step * problem.ridge.min() * updates)
            parameters = parameters - rate * gradient
            updates += 1
        point = problem.start(parameters, wide=False)
        if not problem.finite(point):
            return "the objective overflowed: lower learning_rate"
        yield point


def fit_erm(sequences: Sequences, activation: str | Activation, *,
            ridge: float | tuple[float, float],
            start: str | tuple[np.ndarray, np.ndarray] = "informed", optimizer: str = "lbfgs",
            rng: np.random.Generator | int | None = None, device: str = "auto",
            tolerance: float = 1e-6, max_iterations: int | None = None,
            learning_rate: float | None = None, batch: int | None = None,
            progress: bool = True) -> Fit:
    r"""Train the attention layer on a sample by empirical risk minimisation.

    .. math:: E(k, v) = \sum_{\mu=1}^{N} \frac12 \Big(y_\mu - \sum_\ell
              \sigma(\chi_\mu)_\ell z_{\mu\ell}\Big)^2
              + \frac{r_k}{2} |k|^2 + \frac{r_v}{2} |v|^2,
              \qquad \chi = \frac{X k}{\sqrt D}, \quad z = \frac{X v}{\sqrt D}.

    All three optimisers stop where :math:`|\nabla E| \sqrt D / E_0 \le` ``tolerance``, with
    :math:`E_0 = \frac12 \sum_\mu y_\mu^2`. The objective is not convex in general: a minimum
    that is found may depend on the start.

    - ``"lbfgs"``: limited-memory BFGS with weak Wolfe steps, preconditioned by the curvatures in
      k and in v (so that very different ridges do no harm). The projections are linear along a
      line, so the line search needs no product with the tokens, and an iteration is nearly
      always one pass over them.
    - ``"gd"``: gradient descent. With a ``learning_rate`` :math:`\eta`, steps
      :math:`-\eta \nabla E`. Without, each step starts from the length of the last and is
      halved until E falls by :math:`\eta |\nabla E|^2 / 2`, and doubled while the slope along it
      stays above nine tenths of what it was.
    - ``"sgd"``: stochastic gradient descent. Batches are drawn without replacement, the data in
      a new order at each pass; a rest smaller than a batch is left out of the pass. The gradient
      estimate is :math:`(N/b)` times the loss gradient of the batch, plus the ridge. Update t
      has the rate :math:`\eta / (1 + \eta\, t \min(r_k, r_v))`. Without a ``learning_rate``,
      :math:`1/\eta = \max_{a \in \{k, v\}} [r_a + (N/b)\, s_a (1 + \sqrt{b/D})^2]`, the curvature
      of a batch, with :math:`s_a` the mean of :math:`|\nabla_a f|^2` at the start.

    Parameters
    ----------
    sequences : Sequences
        The sample, from ``task.sample``. Float32 tokens halve the memory and the time; everything
        else, sums over sequences included, is float64. Tokens are read in place on a CPU, and
        copied once to a GPU.
    activation : str or Activation
        The activation; an offset must be a number.
    ridge : float or pair of float
        :math:`r_k = r_v \ge 0`, or the pair :math:`(r_k, r_v)`.
    start : "informed", "random" or pair of (D,) arrays
        Where to start: the teacher's :math:`(k^*, v^*)`, standard normal vectors, or a given
        ``(key, value)``.
    optimizer : "lbfgs", "gd" or "sgd"
        The algorithm.
    rng : numpy Generator or int
        Source of randomness: needed for ``start="random"`` and for ``"sgd"``.
    device : "auto", "cpu" or "cuda"
        Where the products with the tokens are done; ``"auto"`` takes a GPU if there is one.
    tolerance : float
        Largest relative gradient norm of a converged fit. About 1e-9 can be reached with float64
        tokens, and 1e-6 with float32.
    max_iterations : int, optional
        Steps at most (``"sgd"``: passes over the data). Default: 1000 (``"lbfgs"``),
        10,000 (``"gd"``), 100 (``"sgd"``).
    learning_rate : float, optional
        The rate :math:`\eta > 0` of ``"gd"`` and ``"sgd"``.
    batch : int, optional
        Sequences in a batch of ``"sgd"``. Default: 64, or all if there are fewer.
    progress : bool
        Show a progress bar when the work takes longer than 2 seconds.

    Returns
    -------
    Fit

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Notes
    -----
    A training that ends before it reaches the tolerance is returned with ``converged=False`` and
    a ``message`` that says why; after an overflow, the last finite directions are returned.

    Source: paper, section 4; theory notes, sections 2 and 4.

    Examples
    --------
    >>> from slrbook.tasks import SpikedSLR
    >>> data = SpikedSLR(nu=2.0, length=3).sample(1600, 200, noise=0.3, rng=0)
    >>> fit = fit_erm(data, "softmax", ridge=1.0)
    >>> fit.converged, fit.overlaps.m_v > 0.8
    (True, True)
    >>> again = fit_erm(data, "softmax", ridge=1.0, start="random", rng=1)
    >>> bool(abs(again.objective / fit.objective - 1) < 1e-9)
    True
    """
    activation = as_activation(activation)
    _check_sequences(sequences)
    ridge = _pair_of_ridges(ridge)
    _checks.choice("optimizer", optimizer, ("lbfgs", "gd", "sgd"))
    tolerance = _checks.real("tolerance", tolerance, low=0.0)
    if max_iterations is None:
        max_iterations = _MAX_ITERATIONS[optimizer]
    max_iterations = _checks.integer("max_iterations", max_iterations, low=0)
    if learning_rate is not None:
        learning_rate = _checks.real("learning_rate", learning_rate, low=0.0, strict=True)
        if optimizer == "lbfgs":
            raise ValueError(f"learning_rate must be None for 'lbfgs'; got {learning_rate!r}")
    if batch is not None and optimizer != "sgd":
        raise ValueError(f"batch must be None for {optimizer!r}; got {batch!r}")
    n = len(sequences.label)
    batch = min(64, n) if batch is None else _checks.integer("batch", batch, low=1)
    if batch > n:
        raise ValueError(f"batch must be at most the number of sequences, {n}; got {batch}")
    if optimizer == "sgd" or isinstance(start, str) and start == "random":
        rng = _checks.generator("rng", rng)
    parameters = _start(start, sequences, rng)
    problem = _Problem(sequences, activation, ridge, _device(device))

    with np.errstate(over="ignore", invalid="ignore"):  # an overflow ends the training below
        point = first = problem.start(parameters)
        if not problem.finite(point):
            raise ValueError("the objective at the start must be finite: sequences.tokens holds "
                             f"NaN or inf, or start is too large; got {point.objective!r}")
        if optimizer == "sgd":
            points = _shuffle(problem, point, batch=batch, learning_rate=learning_rate, rng=rng)
        else:
            points = _descend(problem, point, memory=_MEMORY if optimizer == "lbfgs" else 0,
                              learning_rate=learning_rate, tolerance=tolerance)
        trace = _Trace(problem)
        trace.add(0, point)
        iterations, reason = 0, "raise max_iterations"
        with tqdm(total=max_iterations, desc=optimizer, delay=2, leave=False,
                  disable=not progress) as bar:
            while problem.gradient_norm(point) > tolerance and iterations < max_iterations:
                try:
                    point = next(points)
                except StopIteration as stop:
                    reason = stop.value
                    break
                iterations += 1
                trace.add(iterations, point)
                bar.set_postfix(gradient=f"{problem.gradient_norm(point):.1e}", refresh=False)
                bar.update()
    trace.add(iterations, point, last=True)
    norm = problem.gradient_norm(point)
    converged = norm <= tolerance
    if point.objective > first.objective:
        reason = f"the objective rose from {first.objective:.3g}: lower learning_rate"
    message = (f"{'converged' if converged else 'not converged'}: relative gradient norm "
               f"{norm:.1e} after {iterations} iterations, tolerance {tolerance:.1e}")
    return Fit(activation, point.parameters[0], point.parameters[1], sequences.key_star,
               sequences.value_star, float(point.objective), float(point.loss / n), norm,
               problem.overlaps(point.parameters), converged, iterations, tuple(trace.records),
               message if converged else f"{message}; {reason}")


def generalization_error(fit: Fit, task: SpikedSLR | MaxSLR, *, n: int,
                         rng: np.random.Generator | int, noise: float) -> tuple[float, float]:
    r"""Risk of a trained layer on ``n`` fresh sequences of its teacher.

    .. math:: \mathcal{E} = E \big(y - f(X)\big)^2, \qquad
              f(X) = \sum_\ell \sigma(\chi)_\ell z_\ell .

    A token enters through its products with four directions only: :math:`k^*, v^*, k, v`. The law
    of the tokens is invariant under rotations that fix them, so the sequences are drawn in the
    space that the four span. This is exact, and its cost does not depend on D.

    Parameters
    ----------
    fit : Fit
        What ``fit_erm`` returned.
    task : SpikedSLR or MaxSLR
        The task; its length may differ from that of the training sample.
    n : int
        Number of fresh sequences, at least 2.
    rng : numpy Generator or int
        Source of randomness.
    noise : float
        Standard deviation of the label noise, which is part of the risk.

    Returns
    -------
    risk, standard_error : float
        The mean of the squared error, and the standard error of this mean.

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Source: theory notes, sections 2 and 4.

    Examples
    --------
    >>> from slrbook.tasks import SpikedSLR
    >>> task = SpikedSLR(nu=2.0, length=3)
    >>> fit = fit_erm(task.sample(1600, 200, noise=0.3, rng=0), "softmax", ridge=1.0)
    >>> risk, error = generalization_error(fit, task, n=100_000, rng=1, noise=0.3)
    >>> 0.5 < risk < 0.7, error < 0.01
    (True, True)
    """
    n = _checks.integer("n", n, low=2)
    rng = _checks.generator("rng", rng)
    directions = np.stack([fit.key_star, fit.value_star, fit.key, fit.value], axis=1)
    _, directions = np.linalg.qr(directions)  # in an orthonormal basis of what they span
    dim = len(directions)
    directions = directions.T * math.sqrt(dim / fit.key.size)
    errors = np.empty(n)
    rows = max(1, _DRAWS // (task.length.max * dim))
    for start in range(0, n, rows):
        part = errors[start:start + rows]
        fresh = task.sample(len(part), dim, noise=noise, rng=rng, teacher=tuple(directions[:2]))
        chi, z = (fresh.tokens @ direction / math.sqrt(dim) for direction in directions[2:])
        part[:] = fresh.label - (fit.activation(chi, fresh.mask) * z).sum(axis=-1)
    squares = errors**2
    return float(squares.mean()), float(squares.std(ddof=1) / math.sqrt(n))


def _check_sequences(sequences: Sequences) -> None:
    if not isinstance(sequences, Sequences):
        kind = type(sequences).__name__
        raise ValueError(f"sequences must be Sequences, from task.sample; got {kind}")
    tokens, mask, label = sequences.tokens, sequences.mask, sequences.label
    if tokens.ndim != 3 or tokens.dtype not in (np.float32, np.float64):
        raise ValueError("sequences.tokens must be a float32 or float64 array of shape (n, L, D); "
                         f"got {tokens.dtype} of shape {tokens.shape}")
    n, length, dim = tokens.shape
    for name, shape in (("mask", (n, length)), ("label", (n,)), ("key_star", (dim,)),
                        ("value_star", (dim,))):
        got = getattr(sequences, name).shape
        if got != shape:
            raise ValueError(f"sequences.{name} must have shape {shape}; got {got}")
    if mask.dtype != bool or not mask.any(axis=1).all():
        raise ValueError("sequences.mask must be bool and leave a token in every sequence")
    if not np.isfinite(label).all() or not label.any():
        raise ValueError("sequences.label must be finite and not zero everywhere; "
                         f"got values from {label.min()} to {label.max()}")


def _pair_of_ridges(ridge) -> tuple[float, float]:
    pair = (ridge, ridge) if np.ndim(ridge) == 0 else tuple(ridge)
    if len(pair) != 2:
        raise ValueError(f"ridge must be a number or a pair (r_k, r_v); got {ridge!r}")
    return tuple(_checks.real("ridge", number, low=0.0) for number in pair)


def _start(start, sequences: Sequences, rng) -> np.ndarray:
    if isinstance(start, str):
        if _checks.choice("start", start, ("informed", "random")) == "random":
            return rng.standard_normal((2, sequences.key_star.size))
        return np.stack([sequences.key_star, sequences.value_star])
    dim = sequences.key_star.size
    pair = isinstance(start, (tuple, list, np.ndarray)) and len(start) == 2
    if not pair or any(np.shape(direction) != (dim,) for direction in start):
        raise ValueError("start must be 'informed', 'random' or a pair (key, value) of arrays of "
                         f"shape ({dim},); got {start!r}")
    start = np.array(start, dtype=float)
    if not np.isfinite(start).all():
        raise ValueError("start must hold finite numbers; got NaN or inf")
    return start


def _device(device: str) -> torch.device:
    _checks.choice("device", device, ("auto", "cpu", "cuda"))
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be 'auto' or 'cpu' on a machine without CUDA; got 'cuda'")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)
