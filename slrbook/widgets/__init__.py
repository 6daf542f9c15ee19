"""Interactive figures: each is a Python class and an ES module of the same name."""

from .attention import Attention as Attention
from .finite import LearningCurves as LearningCurves
from .population import RiskCurves as RiskCurves, Temperature as Temperature
from .posterior import Posterior as Posterior
from .proximal import Proximal as Proximal
