"""PyTorch's and JAX's conventions for derivatives, side by side.

``report`` differentiates a function at a point as both libraries do; ``to_jax`` and ``from_jax`` convert
gradients; ``kinks`` lists the operators whose derivative at a singular point differs; ``derivation`` goes to both
gradients step by step; ``descent_fields`` shows what each gradient of a complex loss does to gradient descent. Every
table can be printed, and given to Markdown, LaTeX, CSV and pandas.

>>> from torchlike import conventions
>>> report = conventions.report(lambda z: (z * z.conj()).real, 1 + 2j)
>>> complex(report.pytorch), complex(report.jax)
((2+4j), (2-4j))
"""

from torchlike.conventions._convert import from_jax as from_jax
from torchlike.conventions._convert import to_jax as to_jax
from torchlike.conventions._derivation import Derivation as Derivation
from torchlike.conventions._derivation import derivation as derivation
from torchlike.conventions._descent import DescentFields as DescentFields
from torchlike.conventions._descent import descent_fields as descent_fields
from torchlike.conventions._kink_table import Kink as Kink
from torchlike.conventions._kink_table import Kinks as Kinks
from torchlike.conventions._kinks import kinks as kinks
from torchlike.conventions._report import Report as Report
from torchlike.conventions._report import Reports as Reports
from torchlike.conventions._report import report as report

__all__ = [
    "Derivation", "DescentFields", "Kink", "Kinks", "Report", "Reports", "derivation", "descent_fields", "from_jax",
    "kinks", "report", "to_jax",
]  # fmt: skip
