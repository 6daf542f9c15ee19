"""One point of the finite-sample theory: seconds, and ours against the obvious way.

    python benchmarks/state_evolution.py

The obvious way minimises the proximal objective draw by draw with scipy inside the integral. Both
sides take the same draws at the same overlaps, so the accuracy is equal: the sums are compared.
"""

import time

import numpy as np
from scipy.optimize import minimize

from slrbook.activations import Softmax
from slrbook.bayes_limit import solve_bayes
from slrbook.proximal import encode, proximal_points
from slrbook.state_evolution import ErmEquations, Overlap, erm_fixed_points, solve_erm
from slrbook.tasks import MaxSLR, SpikedSLR

TASK = SpikedSLR(nu=2.0, length=3)
POINT = dict(alpha=8.0, ridge=1.0, noise=0.3)
KEY, VALUE = Overlap(0.637, 0.592, 0.471), Overlap(0.923, 0.934, 0.247)


def timed(function, *arguments, **options):
    start = time.perf_counter()
    result = function(*arguments, **options)
    return result, time.perf_counter() - start


def projections(samples):
    """Scores, value projections and labels at the solution."""
    equations = ErmEquations(TASK, "softmax", samples=samples, seed=0, **POINT)
    (part,) = equations._draws
    scale = equations._scales(KEY, VALUE)
    w = scale.s_v * part.b_v
    w[:, 0] = scale.slope_v * part.y + scale.s_0 * part.b_v[:, 0]
    return KEY.m * part.t + scale.s_k * part.b, w, part.y


def one_by_one(omega, w, label):
    """scipy's BFGS with the exact gradient, from omega, for each draw."""
    activation, values = Softmax(), np.empty(len(label))
    for i, y in enumerate(label):
        def value_and_slope(chi):
            sigma = activation(chi)
            d = 1 + VALUE.V * sigma @ sigma
            t = (y - sigma @ w[i]) / d
            pull = activation.vjp(chi, t * w[i] + t**2 * VALUE.V * sigma)
            move = chi - omega[i]
            return move @ move / (2 * KEY.V) + t * t * d / 2, move / KEY.V - pull
        values[i] = minimize(value_and_slope, omega[i], jac=True, method="BFGS",
                             options={"gtol": 1e-7}).fun
    return values


def vectorised(omega, w, label, steps=40):
    """Gauss-Newton steps with rank-one inverses in numpy, all draws at once, until all are done."""
    activation, chi = Softmax(), omega.copy()
    for _ in range(steps):
        sigma = activation(chi)
        d = 1 + VALUE.V * (sigma**2).sum(axis=1, keepdims=True)
        t = (label[:, None] - (sigma * w).sum(axis=1, keepdims=True)) / d
        slope = -activation.vjp(chi, w + t * VALUE.V * sigma) / np.sqrt(d)
        gradient = (chi - omega) / KEY.V + t * np.sqrt(d) * slope
        inner = (slope * gradient).sum(axis=1, keepdims=True)
        step = -KEY.V * (gradient - slope * inner
                         / (1 / KEY.V + (slope**2).sum(axis=1, keepdims=True)))
        chi += step
        if np.abs(step).max() < 1e-9:
            break
    return ((chi - omega) ** 2).sum(axis=1) / (2 * KEY.V) + (t**2 * d)[:, 0] / 2


def proximal_step():
    samples = 2**15
    omega, w, label = projections(samples)
    kernel = encode(Softmax())

    def ours(search=True):
        return proximal_points(kernel, omega, w, label, KEY.V, VALUE.V, np.zeros_like(omega),
                               search, 0.0)

    _, first = timed(ours)
    value, seconds = min((timed(ours) for _ in range(5)), key=lambda pair: pair[1])
    print(f"proximal step, {samples} draws: {1e3 * seconds:.1f} ms (first call {first:.1f} s)")
    few = samples // 16
    brute, slow = timed(one_by_one, omega[:few], w[:few], label[:few])
    slow *= samples / few
    print(f"  scipy draw by draw: {slow:.1f} s, {slow / seconds:.0f} times as long; "
          f"largest difference {np.abs(value[:few] - brute).max():.0e}")
    (array, numpy_seconds) = min((timed(vectorised, omega, w, label) for _ in range(3)),
                                 key=lambda pair: pair[1])
    _, local = min((timed(ours, False) for _ in range(5)), key=lambda pair: pair[1])
    print(f"  numpy, all draws at once: {1e3 * numpy_seconds:.0f} ms, {numpy_seconds / local:.1f} "
          f"times as long as one start of ours; largest difference {np.abs(value - array).max():.0e}")


def points():
    _, first = timed(solve_erm, TASK, "softmax", samples=2**10, **POINT)
    print(f"solve_erm, first call: {first:.1f} s")
    for task, activation, alpha, ridge in [
            (TASK, "softmax", 8.0, 1.0), (TASK, "linear", 8.0, 1.0),
            (MaxSLR(float("inf"), 3), "softmax", 8.0, 1.0), (TASK, "softmax", 2.0, 0.1),
            (SpikedSLR(2.0, 10), "softmax", 8.0, 1.0)]:
        limit, seconds = timed(solve_erm, task, activation, alpha=alpha, ridge=ridge, noise=0.3,
                               strict=False)
        print(f"  {type(task).__name__} L={task.length.max} {activation}, alpha {alpha:g}, ridge "
              f"{ridge:g}: {seconds:.2f} s, {seconds / 4:.2f} s a scrambling, risk "
              f"{limit.risk:.4f}({limit.standard_error:.4f}), {limit.message}")
    found, seconds = timed(erm_fixed_points, TASK, "softmax", samples=2**13, **POINT)
    print(f"erm_fixed_points: {seconds:.1f} s, {len(found)} found")
    for task in (TASK, MaxSLR(float("inf"), 3), MaxSLR(3.0, 3)):
        timed(solve_bayes, task, alpha=8.0, noise=0.3, samples=2**8)
        limit, seconds = timed(solve_bayes, task, alpha=8.0, noise=0.3)
        print(f"solve_bayes {type(task).__name__} nu={task.nu:g}: {seconds:.2f} s, risk "
              f"{limit.risk:.4f}({limit.standard_error:.4f})")


if __name__ == "__main__":
    proximal_step()
    points()
