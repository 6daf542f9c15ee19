r"""One-pass stochastic gradient descent: its limit for large D, and runs at finite D.

Every step takes one fresh sequence and moves both directions against the gradient of
:math:`\frac12 (y - f(X))^2`, times a rate :math:`\eta`. After :math:`n` steps in dimension D the
*learning time* is :math:`\tau = \eta n / D`, so that :math:`\tau / \eta` sequences per dimension
have been used.

An *overlap vector* holds seven scalar products divided by D, in the order of ``OVERLAPS``; the
last three are zero on the manifold where the population risk takes its simple form.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import ndtr
from tqdm import tqdm

from . import _checks
from .activations import Activation, as_activation
from .gaussian import sobol_normals
from .population import Task, _check_task
from .tasks import SpikedSLR

OVERLAPS = ("m_k", "q_k", "m_v", "q_v", "k_value_star", "v_key_star", "k_v")
#: Steps whose random numbers are drawn at a time, and numbers in a block of tokens.
_STEPS, _BLOCK = 64, 2**18


class Velocity(NamedTuple):
    r"""The velocity of the overlaps per learning time is ``drift`` + :math:`\eta` ``noise``.

    Attributes
    ----------
    drift : (7,) array
        Minus the gradient's part: the scalar products of the mean step with all directions.
    noise : (7,) array
        What the squares of single steps add to :math:`q_k`, :math:`q_v` and :math:`k \cdot v/D`.
    risk : float
        The population risk, label noise included.
    """

    drift: np.ndarray
    noise: np.ndarray
    risk: float


class SgdLimit:
    r"""One-pass stochastic gradient descent in the limit :math:`D \to \infty` at fixed rate.

    With :math:`e = y - \sigma \cdot z` and :math:`g = J^T z`, :math:`J_{j\ell} = \partial
    \sigma_j / \partial \chi_\ell`, a step adds :math:`\eta\, e \sum_\ell g_\ell x_\ell / \sqrt D`
    to k and :math:`\eta\, e \sum_\ell \sigma_\ell x_\ell / \sqrt D` to v. Hence

    .. math:: \dot m_k = \mathbb{E}\, e\, g \cdot \chi^*, \quad
              \dot q_k = 2\, \mathbb{E}\, e\, g \cdot \chi + \eta\, \mathbb{E}\, e^2 |g|^2, \quad
              \dot m_v = \mathbb{E}\, e\, \sigma \cdot z^*, \quad
              \dot q_v = 2\, \mathbb{E}\, e\, \sigma \cdot z + \eta\, \mathbb{E}\, e^2 |\sigma|^2

    and three more for the overlaps off the manifold. Given :math:`(\chi^*, \chi)` the value
    projections are averaged exactly; the average over 2L normals uses scrambled Sobol points that
    stay fixed, so that the velocity is a smooth function of the overlaps.

    Parameters
    ----------
    task : SpikedSLR or MaxSLR
    activation : str or Activation
        Its offset must be a number.
    noise : float
        Standard deviation :math:`\Delta \ge 0` of the label noise.
    samples, seed : int
        Points (a power of two, at least 2), and the seed of the scrambling.

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Source: this book, chapter "Optimisation".

    Examples
    --------
    >>> from slrbook import SpikedSLR
    >>> limit = SgdLimit(SpikedSLR(nu=2.0, length=3), "softmax", noise=0.3)
    >>> start = np.array([0, 1, 0, 1, 0, 0, 0])  # k and v know nothing
    >>> path = limit.solve(start, [0.0, 10.0, 40.0], rate=0.2)
    >>> [round(float(limit.velocity(overlaps).risk), 1) for overlaps in path]
    [1.6, 0.5, 0.5]
    """

    def __init__(self, task: Task, activation: str | Activation, *, noise: float = 0.0,
                 samples: int = 2**12, seed: int = 0) -> None:
        self.task = _check_task(task)
        self.activation = as_activation(activation)
        self.noise = _checks.real("noise", noise, low=0.0)
        self.activation(np.zeros(1))  # a free offset is refused here
        self._draws = {length: _relevant_first(task, int(length), samples, seed)
                       for length in task.length.values}

    def velocity(self, overlaps: np.ndarray) -> Velocity:
        """Return drift, noise and risk at an overlap vector.

        Parameters
        ----------
        overlaps : (7,) array

        Returns
        -------
        Velocity

        Raises
        ------
        ValueError
            If ``overlaps`` are not seven finite numbers, or those of no vectors.
        """
        return self._velocity(_check_overlaps(overlaps))

    def _velocity(self, overlaps: np.ndarray) -> Velocity:
        gram = _gram(overlaps)
        numbers = self.task.length.expect(lambda length: self._average(gram, *self._draws[length]))
        return Velocity(numbers[:7], numbers[7:14], float(numbers[14]) + self.noise**2)

    def solve(self, start: np.ndarray, times: np.ndarray, *, rate: float,
              tolerance: float = 1e-6) -> np.ndarray:
        r"""Integrate the overlaps.

        Parameters
        ----------
        start : (7,) array
            The overlaps at the first of the times.
        times : (T,) array
            Increasing learning times :math:`\tau = \eta n/D`.
        rate : float
            :math:`\eta \ge 0`. At 0 this is gradient flow on the population risk,
            :math:`\dot k = -\frac D2 \nabla_k R`, :math:`v` alike.
        tolerance : float
            Relative tolerance of the integrator.

        Returns
        -------
        (T, 7) array

        Raises
        ------
        ValueError
            If an argument is outside its domain.
        FloatingPointError
            If the overlaps grow beyond all bounds: the rate is too large.
        """
        rate = _checks.real("rate", rate, low=0.0)
        tolerance = _checks.real("tolerance", tolerance, low=0.0, strict=True)
        start, times = _check_overlaps(start), _check_times(times)

        def velocity(_, overlaps: np.ndarray) -> np.ndarray:
            if abs(overlaps).max() > 1e6:
                raise FloatingPointError(f"the overlaps diverge at rate {rate:g}: lower it")
            drift, noise, _ = self._velocity(overlaps)  # a trial step may leave the domain
            return drift + rate * noise

        path = solve_ivp(velocity, (times[0], times[-1]), start, t_eval=times, method="LSODA",
                         rtol=tolerance, atol=1e-2 * tolerance)
        if not path.success:
            raise FloatingPointError(f"the integration failed at rate {rate:g}: {path.message}")
        return np.array([_check_overlaps(overlaps) for overlaps in path.y.T])

    def safe_rate(self, overlaps: np.ndarray) -> float:
        r"""A quarter of the rate at which a step undoes the error of its own sequence on average.

        A step changes the error e of the sequence that it is taken on by the factor
        :math:`1 - \eta |\nabla f|^2`, where :math:`|\nabla f|^2 = |g|^2 + |\sigma|^2`. The rule is

        .. math:: \eta = \frac14\, \frac{\mathbb{E}\, e^2}{\mathbb{E}\, e^2 |\nabla f|^2} .

        Parameters
        ----------
        overlaps : (7,) array
            Where the averages are taken: usually the start.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If ``overlaps`` are not those of vectors.

        Examples
        --------
        >>> from slrbook import SpikedSLR
        >>> limit = SgdLimit(SpikedSLR(nu=2.0, length=3), "softmax", noise=0.3)
        >>> round(limit.safe_rate([0, 1, 0, 1, 0, 0, 0]), 2)
        0.37
        """
        _, noise, risk = self.velocity(overlaps)
        return float(0.25 * risk / (noise[1] + noise[3]))

    def _average(self, gram: np.ndarray, chi_star: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Drift, noise and noiseless risk over draws in which the first token is the relevant one.

        In the comments E is the average over the value projections, given the key projections.
        """
        m, q = gram[0, 1], gram[1, 1]
        chi = m * chi_star + math.sqrt(max(q - m * m, 0.0)) * others
        # regression of the value projections (z*, z) on the key projections (chi*, chi)
        slopes = gram[2:, :2] @ np.linalg.pinv(gram[:2, :2], rcond=1e-12, hermitian=True)
        (star_star, star_v), (_, v_v) = gram[2:, 2:] - slopes @ gram[:2, 2:]
        z_star = slopes[0, 0] * chi_star + slopes[0, 1] * chi  # their means
        z = slopes[1, 0] * chi_star + slopes[1, 1] * chi
        weights = self.activation(chi)

        def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return np.einsum("nl,nl->n", a, b)

        first = np.zeros(chi.shape[1])
        first[0] = 1.0
        error = z_star[:, 0] - dot(weights, z)  # E e
        with_z = star_v * first - v_v * weights  # Cov(e, z)
        with_star = star_star * first - star_v * weights  # Cov(e, z*)
        square = dot(weights, weights)
        squared_error = (error**2 + star_star + self.noise**2  # E e^2
                         - 2 * star_v * weights[:, 0] + v_v * square)
        e_z = with_z + error[:, None] * z  # E e z
        mean_slope = self.activation.vjp(chi, z)  # E g
        slope_cov = self.activation.vjp(chi, with_z)  # Cov(e, g)
        e_g = slope_cov + error[:, None] * mean_slope
        trace, norm = 0.0, 0.0
        for token, unit in enumerate(np.eye(chi.shape[1])):
            row = self.activation.vjp(chi, np.broadcast_to(unit, chi.shape))
            trace, norm = trace + row[:, token], norm + dot(row, row)

        key_noise = (squared_error * (dot(mean_slope, mean_slope) + v_v * norm)
                     + 4 * error * dot(mean_slope, slope_cov) + 2 * dot(slope_cov, slope_cov))
        cross_noise = squared_error * dot(weights, mean_slope) + 2 * error * dot(weights, slope_cov)
        zero = np.zeros_like(error)
        return np.mean([
            dot(e_g, chi_star),
            2 * dot(e_g, chi),
            dot(weights, with_star + error[:, None] * z_star),
            2 * dot(weights, e_z),
            dot(e_g, z_star) + dot(mean_slope, with_star) + error * star_v * trace,
            error * dot(weights, chi_star),
            (dot(e_g, z) + dot(mean_slope, with_z) + error * v_v * trace
             + error * dot(weights, chi)),
            zero, key_noise, zero, squared_error * square, zero, zero, cross_noise,
            squared_error - self.noise**2], axis=1)


def _gram(overlaps: np.ndarray) -> np.ndarray:
    """Return the Gram matrix of (k*, k, v*, v)/sqrt(D)."""
    m_k, q_k, m_v, q_v, k_value_star, v_key_star, k_v = overlaps
    return np.array([[1.0, m_k, 0.0, v_key_star],
                     [m_k, q_k, k_value_star, k_v],
                     [0.0, k_value_star, 1.0, m_v],
                     [v_key_star, k_v, m_v, q_v]])


def _check_overlaps(overlaps: np.ndarray) -> np.ndarray:
    overlaps = np.asarray(overlaps, dtype=float)
    if overlaps.shape != (7,) or not np.isfinite(overlaps).all():
        raise ValueError(f"overlaps must be seven finite numbers {OVERLAPS}; got {overlaps}")
    gram = _gram(overlaps)
    smallest = np.linalg.eigvalsh(gram)[0]
    if smallest < -1e-5 * np.trace(gram):  # the errors of an integration are less
        raise ValueError("overlaps must form a positive semi-definite Gram matrix; its smallest "
                         f"eigenvalue is {smallest:.3g} at {overlaps}")
    return overlaps


def _check_times(times: np.ndarray) -> np.ndarray:
    times = np.asarray(times, dtype=float)
    if times.ndim != 1 or len(times) < 2 or times[0] < 0 or not (np.diff(times) > 0).all():
        raise ValueError(f"times must be at least two increasing numbers >= 0; got {times}")
    return times


def _relevant_first(task: Task, length: int, samples: int,
                    seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws of chi*, with the relevant token moved to the front, and of other normals."""
    points = sobol_normals(samples // 2 or 1, 2 * length + 1, seed)
    chi_star, others = points[:, :length].copy(), points[:, length:-1]
    if isinstance(task, SpikedSLR):  # tokens are exchangeable
        chi_star[:, 0] += math.sqrt(task.nu)
    else:
        below = np.cumsum(task.location_posterior(chi_star), axis=1)[:, :-1]
        location = (below < ndtr(points[:, -1:])).sum(axis=1)
        rows = np.arange(len(points))
        chi_star[rows, 0], chi_star[rows, location] = (chi_star[rows, location],
                                                       chi_star[rows, 0].copy())
    # both signs of the others: then nothing pushes k away from k* where it has arrived there
    return np.concatenate([chi_star, chi_star]), np.concatenate([others, -others])


def run_sgd(task: Task, activation: str | Activation, *, dim: int, rate: float,
            times: np.ndarray, noise: float = 0.0, rng: np.random.Generator | int,
            start: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray:
    r"""Run one-pass stochastic gradient descent on vectors of dimension D.

    .. math:: k \leftarrow k - \eta \nabla_k \tfrac12 (y - f(X))^2, \qquad
              v \leftarrow v - \eta \nabla_v \tfrac12 (y - f(X))^2,

    each step with one fresh sequence.

    Parameters
    ----------
    task : SpikedSLR or MaxSLR
    activation : str or Activation
        Its offset must be a number.
    dim : int
        D, at least 2.
    rate : float
        :math:`\eta > 0`.
    times : (T,) array
        Increasing learning times :math:`\tau = \eta n / D` at which the overlaps are recorded.
    noise : float
        Standard deviation of the label noise.
    rng : numpy Generator or int
        Source of randomness: teacher, start, sequences.
    start : pair of (D,) arrays, optional
        Key and value direction. Default: standard normal vectors.

    Returns
    -------
    (T, 7) array

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    FloatingPointError
        If the directions grow beyond all bounds: the rate is too large.

    Examples
    --------
    >>> from slrbook import SpikedSLR
    >>> path = run_sgd(SpikedSLR(nu=2.0, length=3), "softmax", dim=200, rate=0.2,
    ...                times=[0.0, 20.0], noise=0.3, rng=0)
    >>> m_k, q_k, m_v, q_v = path[-1, :4]
    >>> bool(m_k / q_k**0.5 > 0.7), bool(m_v / q_v**0.5 > 0.9)
    (True, True)
    """
    task, activation = _check_task(task), as_activation(activation)
    dim, rng = _checks.integer("dim", dim, low=2), _checks.generator("rng", rng)
    rate = _checks.real("rate", rate, low=0.0, strict=True)
    records = _records(times, rate, dim)
    block = max(1, _BLOCK // (task.length.max * dim))
    data = task.sample(block, dim, noise=noise, rng=rng)
    stars = np.stack([data.key_star, data.value_star])
    if start is None:
        start = rng.standard_normal((2, dim))
    if [np.shape(vector) for vector in start] != [(dim,), (dim,)]:
        raise ValueError(f"start must be two vectors of length {dim}; got {start!r}")
    vectors = np.array(start, dtype=float)
    path = np.empty((len(records), 7))
    scale = 1 / math.sqrt(dim)
    for step in range(records[-1] + 1):
        for row in np.flatnonzero(records == step):
            path[row] = _overlaps_of(vectors, stars)
        row = step % block
        if row == 0 and step:
            if not abs(vectors).max() < 1e6:
                raise FloatingPointError(f"the directions diverge at rate {rate:g}: lower it")
            data = task.sample(block, dim, noise=noise, rng=rng, teacher=tuple(stars))
        tokens, mask = data.tokens[row], data.mask[row]
        chi, z = vectors @ tokens.T * scale
        weights = activation(chi, mask)
        error = data.label[row] - weights @ z
        vectors += rate * scale * error * np.stack([activation.vjp(chi, z, mask), weights]) @ tokens
    return path


def run_sgd_overlaps(task: Task, activation: str | Activation, *, dim: int, rate: float,
                     times: np.ndarray, runs: int, noise: float = 0.0,
                     rng: np.random.Generator | int, start: np.ndarray | None = None,
                     progress: bool = True) -> np.ndarray:
    r"""Run one-pass stochastic gradient descent many times, without its vectors.

    A token enters a step through its components along :math:`k^*, v^*, k, v`, and through the
    squares and the product of what its two updates add in the :math:`D - 4` other directions:
    a Wishart matrix of two rows. So the overlaps are a Markov chain whose law is exactly that of
    ``run_sgd`` from standard normal vectors, at a cost per step that does not depend on D.

    Parameters
    ----------
    task, activation, rate, times, noise, rng
        As for ``run_sgd``.
    dim : int
        D, at least 6.
    runs : int
        Number of independent runs, which share every array operation.
    start : (7,) array, optional
        Overlaps at the start. Default: those of standard normal vectors, anew in every run.
    progress : bool
        Show a progress bar when the work takes longer than 2 seconds.

    Returns
    -------
    (T, runs, 7) array

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    FloatingPointError
        If the directions grow beyond all bounds: the rate is too large.

    Examples
    --------
    >>> from slrbook import SpikedSLR
    >>> path = run_sgd_overlaps(SpikedSLR(nu=2.0, length=3), "softmax", dim=1000, rate=0.2,
    ...                         times=[0.0, 10.0], runs=20, noise=0.3, rng=0)
    >>> bool(path[0, :, 0].std() < 0.1), bool(path[-1, :, 0].min() > 0.3)
    (True, True)
    """
    task, activation = _check_task(task), as_activation(activation)
    dim, runs = _checks.integer("dim", dim, low=6), _checks.integer("runs", runs, low=1)
    rate, rng = _checks.real("rate", rate, low=0.0, strict=True), _checks.generator("rng", rng)
    noise = _checks.real("noise", noise, low=0.0)
    records = _records(times, rate, dim)
    # components of k/sqrt(D) and v/sqrt(D) in an orthonormal frame: k*, v*, and two more
    frame = np.zeros((runs, 2, 4))
    if start is None:
        frame[:, :, :2] = rng.standard_normal((runs, 2, 2)) / math.sqrt(dim)
        rest = rng.standard_normal((runs, 2)) / math.sqrt(dim)
        frame[:, 0, 2] = np.sqrt(rng.chisquare(dim - 2, runs) / dim)
        frame[:, 1, 2] = rest[:, 0]
        frame[:, 1, 3] = np.sqrt(rng.chisquare(dim - 3, runs) / dim)
    else:
        gram = _gram(_check_overlaps(start))
        frame[:, :, :2] = gram[1::2, ::2]
        rest = gram[1::2, 1::2] - frame[0, :, :2] @ frame[0, :, :2].T
        frame[:, :, 2:] = _triangle(*np.broadcast_to(rest.reshape(4, 1), (4, runs))[[0, 1, 3]])
    path = np.empty((len(records), runs, 7))
    gain = rate / dim
    size, longest = task.length.max, np.arange(task.length.max)
    full = len(task.length.values) == 1
    mask = None
    with tqdm(total=int(records[-1]), desc=f"D = {dim}", delay=2, leave=False,
              disable=not progress) as bar:
        for step in range(records[-1] + 1):
            for row in np.flatnonzero(records == step):
                path[row] = _overlaps_in(frame)
            turn = step % _STEPS
            if turn == 0:
                if not abs(frame).max() < 1e6:
                    raise FloatingPointError(f"the directions diverge at rate {rate:g}: lower it")
                tokens = rng.standard_normal((_STEPS, runs, size, 4))
                noises = noise * rng.standard_normal((_STEPS, runs))
                squares = rng.chisquare((dim - 4, dim - 5), (_STEPS, runs, 2))
                mixed = rng.standard_normal((_STEPS, runs))
                if isinstance(task, SpikedSLR):  # tokens are exchangeable
                    tokens[:, :, 0, 0] += math.sqrt(task.nu)
                bar.update(min(_STEPS, int(records[-1]) - step))
            token = tokens[turn]
            if not full:
                mask = longest < task.length.sample(runs, rng)[:, None]
            label = noises[turn] + _relevant_value(task, token, mask, rng)
            chi, z = np.moveaxis(frame @ token.transpose(0, 2, 1), 1, 0)
            weights = activation(chi, mask)
            error = label - np.einsum("rl,rl->r", weights, z)
            slopes = np.stack([activation.vjp(chi, z, mask), weights], axis=1)
            move = (gain * error)[:, None, None] * slopes
            frame += move @ token
            # the rest: what is outside of k*, v* so far, and the D - 4 new directions
            inner = np.einsum("ral,rbl->rab", move, move)
            factor = _triangle(inner[:, 0, 0], inner[:, 0, 1], inner[:, 1, 1])
            root, side = np.sqrt(squares[turn, :, 0]), mixed[turn]
            outer = factor @ np.stack([np.stack([root, np.zeros(runs)], axis=1),
                                       np.stack([side, np.sqrt(squares[turn, :, 1])], axis=1)],
                                      axis=1)
            tail = np.concatenate([frame[:, :, 2:], outer], axis=2)
            rest = tail @ tail.transpose(0, 2, 1)
            frame[:, :, 2:] = _triangle(rest[:, 0, 0], rest[:, 0, 1], rest[:, 1, 1])
    return path


def _triangle(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Lower Cholesky factors of the matrices [[a, b], [b, c]], shape (runs, 2, 2)."""
    top = np.sqrt(a)
    side = np.divide(b, top, out=np.zeros_like(top), where=top > 0)
    factor = np.zeros((*top.shape, 2, 2))
    factor[..., 0, 0], factor[..., 1, 0] = top, side
    factor[..., 1, 1] = np.sqrt(np.maximum(c - side**2, 0.0))
    return factor


def _relevant_value(task: Task, token: np.ndarray, mask: np.ndarray | None,
                    rng: np.random.Generator) -> np.ndarray:
    """The value projection z* of the relevant token."""
    if isinstance(task, SpikedSLR):
        return token[:, 0, 1]
    score = token[:, :, 0]
    if not math.isinf(task.nu):
        score = task.nu * score + rng.gumbel(size=score.shape)
    location = (score if mask is None else np.where(mask, score, -np.inf)).argmax(axis=1)
    return token[np.arange(len(token)), location, 1]


def _records(times: np.ndarray, rate: float, dim: int) -> np.ndarray:
    return np.rint(_check_times(times) * dim / rate).astype(int)


def _overlaps_of(vectors: np.ndarray, stars: np.ndarray) -> np.ndarray:
    (m_k, k_value_star), (v_key_star, m_v) = vectors @ stars.T / stars.shape[1]
    (q_k, k_v), (_, q_v) = vectors @ vectors.T / stars.shape[1]
    return np.array([m_k, q_k, m_v, q_v, k_value_star, v_key_star, k_v])


def _overlaps_in(frame: np.ndarray) -> np.ndarray:
    gram = frame @ frame.transpose(0, 2, 1)
    return np.stack([frame[:, 0, 0], gram[:, 0, 0], frame[:, 1, 1], gram[:, 1, 1],
                     frame[:, 0, 1], frame[:, 1, 0], gram[:, 0, 1]], axis=1)
