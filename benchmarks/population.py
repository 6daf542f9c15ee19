"""Population risk: deterministic integration against vectorised Monte Carlo at equal accuracy.

Prints ratios inside one run. Monte Carlo draws the scores of a sequence, not its tokens, which is
the cheapest it can be; its time to a standard error of 1e-4 is the measured time per sequence
times the number of sequences that the measured variance calls for.
"""

import time

import numpy as np
from scipy.special import softmax

from slrbook import SpikedSLR, bayes_risk, population_risk
from slrbook.population import _bayes_moments

ACCURACY = 1e-4


def monte_carlo(task: SpikedSLR, rng: np.random.Generator) -> tuple[float, float]:
    """Seconds to reach the accuracy, and the estimate of the sequences drawn."""
    length = task.length.max
    batch = max(1, 2**21 // length)
    losses, start = [], time.perf_counter()
    while time.perf_counter() - start < 3.0:
        chi = rng.standard_normal((batch, length))
        chi[:, 0] += np.sqrt(task.nu)
        losses.append(1 - np.square(softmax(task.key_scale * chi, axis=1)).sum(axis=1))
    seconds = time.perf_counter() - start
    losses = np.concatenate(losses)
    needed = losses.var() / ACCURACY**2
    return seconds / losses.size * needed, losses.mean()


def ours(call) -> float:
    """Best of several calls, in seconds."""
    times = []
    for _ in range(15):
        _bayes_moments.cache_clear()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"{'task':>22} {'risk':>10} {'Monte Carlo':>12} {'ms a value':>11} {'ratio':>10}")
    for nu, length in ((5.0, 2), (20.0, 1000), (20.0, 10**6)):
        task = SpikedSLR(nu, length)
        seconds = ours(lambda: bayes_risk(task))
        slow, estimate = monte_carlo(task, rng)
        print(f"{f'nu={nu:g} L={length}':>22} {bayes_risk(task):10.6f} {estimate:12.4f} "
              f"{1e3 * seconds:11.2f} {slow / seconds:10.0f}")
    print("minimised over the key scale (and the offset), ms a value:")
    for name in ("linear", "erf", "softplus"):
        print(f"{name:>22} {1e3 * ours(lambda: population_risk(task, name)):10.1f}")


if __name__ == "__main__":
    main()
