"""What ``python -m slrbook data`` computes, chapter by chapter."""

from . import finite

STUDIES = finite.STUDIES
