"""What ``python -m slrbook data`` computes, chapter by chapter."""

from . import finite, optimisation

STUDIES = finite.STUDIES + optimisation.STUDIES
