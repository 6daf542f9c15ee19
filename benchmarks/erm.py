"""Training at finite N and D: seconds and memory, and ours against ready-made optimisers.

    python benchmarks/erm.py          D = 1000, the optimisers side by side
    python benchmarks/erm.py large    N D = 10^8: N = 20,000, L = 3, D = 5,000 in float32

The comparison minimises the same objective from the same start with the same tokens until the
relative gradient norm of ``fit_erm`` is at most 1e-6 (or they give up):

- ``fit_erm``: products with the tokens block by block, closed-form gradient, line search on the
  projections;
- scipy's L-BFGS-B on the same value and gradient;
- torch.optim.LBFGS (strong Wolfe) on the objective as one writes it in torch, with autograd.
"""

import math
import resource
import sys
import time

from scipy.optimize import minimize
import numpy as np
import torch

from slrbook.activations import Softmax
from slrbook.erm import _Problem, fit_erm
from slrbook.tasks import SpikedSLR

TASK = SpikedSLR(nu=2.0, length=3)
TOLERANCE = 1e-6


class Reached(Exception):
    """The tolerance is reached."""


class Count:
    """Evaluations so far and the smallest gradient norm among them."""

    def __init__(self):
        self.calls, self.best = 0, math.inf

    def add(self, norm):
        self.calls, self.best = self.calls + 1, min(self.best, norm)
        if norm <= TOLERANCE:
            raise Reached

    def __str__(self):
        return f"{self.calls} evaluations, gradient norm {self.best:.1e}"


def run_scipy(data):
    problem = _Problem(data, Softmax(), (1.0, 1.0), torch.device("cpu"))
    count = Count()

    def value_and_gradient(flat):
        point = problem.start(flat.reshape(2, -1), wide=False)
        count.add(problem.gradient_norm(point))
        return point.objective, point.gradient.ravel()

    try:
        minimize(value_and_gradient, problem.stars.ravel(), jac=True, method="L-BFGS-B",
                 options={"maxcor": 20, "ftol": 0.0, "gtol": 0.0, "maxiter": 2000})
    except Reached:
        pass
    return count


def run_torch(data):
    tokens = torch.from_numpy(data.tokens)
    label = torch.from_numpy(data.label).to(tokens)
    dim = tokens.shape[-1]
    stars = np.stack([data.key_star, data.value_star])
    parameters = torch.from_numpy(stars).to(tokens).requires_grad_()
    null = 0.5 * float(data.label @ data.label)
    count = Count()

    def closure():
        optimiser.zero_grad()
        chi, z = (tokens @ parameters.T / math.sqrt(dim)).unbind(-1)
        residual = (torch.softmax(chi, dim=-1) * z).sum(-1) - label
        objective = 0.5 * (residual**2).sum() + 0.5 * (parameters**2).sum()
        objective.backward()
        count.add(float(parameters.grad.norm()) * math.sqrt(dim) / null)
        return objective

    optimiser = torch.optim.LBFGS([parameters], max_iter=2000, history_size=20,
                                  tolerance_grad=0.0, tolerance_change=0.0, max_eval=4000,
                                  line_search_fn="strong_wolfe")
    try:
        optimiser.step(closure)
    except Reached:
        pass
    return count


def timed(function, *arguments, **options):
    start = time.perf_counter()
    result = function(*arguments, **options)
    return result, time.perf_counter() - start


def compare():
    for dtype in (np.float64, np.float32):
        data = TASK.sample(8_000, 1_000, noise=0.3, rng=0, dtype=dtype)
        fit_erm(data, "softmax", ridge=1.0, max_iterations=2)  # start the threads
        fit, ours = timed(fit_erm, data, "softmax", ridge=1.0)
        print(f"{np.dtype(dtype).name}: D = 1000, N = 8000, L = 3")
        print(f"  fit_erm        {ours:6.2f} s: {fit.message}")
        for name, run in (("scipy L-BFGS-B", run_scipy), ("torch LBFGS", run_torch)):
            count, seconds = timed(run, data)
            print(f"  {name:14s} {seconds:6.2f} s, {seconds / ours:.1f} times as long: {count}")
        for activation in ("linear", "softmax"):
            fit, seconds = timed(fit_erm, data, activation, ridge=1.0, start="random", rng=0)
            print(f"  fit_erm, {activation}, random start: {seconds:.2f} s, {fit.message}")


def large():
    data, seconds = timed(TASK.sample, 20_000, 5_000, noise=0.3, rng=0, dtype=np.float32)
    print(f"{data.tokens.nbytes / 1e9:.2f} GB of tokens drawn in {seconds:.0f} s")
    for activation in ("softmax", "linear"):
        fit, seconds = timed(fit_erm, data, activation, ridge=1.0, progress=False)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        print(f"{activation}: {seconds:.1f} s, peak memory {peak:.2f} GiB, {fit.message}, "
              f"F = {fit.free_energy:.5f}")


if __name__ == "__main__":
    large() if sys.argv[1:] == ["large"] else compare()
