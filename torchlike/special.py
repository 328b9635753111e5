"""``torch.special``: special functions."""

import torchlike._ops.bessel as bessel
import torchlike._ops.binary as binary
import torchlike._ops.polynomial as polynomial
import torchlike._ops.special as ops
from torchlike._core.dispatch.bind import FUNCTIONS, front
from torchlike._core.overrides.torch_function import publish as _publish
from torchlike.interop.alias import missing_names


def _named(name, *overloads):
    function = front(overloads, "function")
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    return function


entr = _named("entr", ops.entr)
erfcx = _named("erfcx", ops.erfcx)
i0e = _named("i0e", ops.i0e)
i1 = _named("i1", ops.i1)
i1e = _named("i1e", ops.i1e)
log_ndtr = _named("log_ndtr", ops.log_ndtr)
ndtr = _named("ndtr", ops.ndtr)
ndtri = _named("ndtri", ops.ndtri)
xlog1py = _named("xlog1py", binary.xlog1py, binary.xlog1py_self, binary.xlog1py_other)
zeta = _named("zeta", ops.zeta, ops.zeta_self, ops.zeta_other)

airy_ai = _named("airy_ai", bessel.OPERATORS["airy_ai"])
bessel_j0 = _named("bessel_j0", bessel.OPERATORS["bessel_j0"])
bessel_j1 = _named("bessel_j1", bessel.OPERATORS["bessel_j1"])
bessel_y0 = _named("bessel_y0", bessel.OPERATORS["bessel_y0"])
bessel_y1 = _named("bessel_y1", bessel.OPERATORS["bessel_y1"])
modified_bessel_i0 = _named("modified_bessel_i0", bessel.OPERATORS["modified_bessel_i0"])
modified_bessel_i1 = _named("modified_bessel_i1", bessel.OPERATORS["modified_bessel_i1"])
modified_bessel_k0 = _named("modified_bessel_k0", bessel.OPERATORS["modified_bessel_k0"])
modified_bessel_k1 = _named("modified_bessel_k1", bessel.OPERATORS["modified_bessel_k1"])
scaled_modified_bessel_k0 = _named("scaled_modified_bessel_k0", bessel.OPERATORS["scaled_modified_bessel_k0"])
scaled_modified_bessel_k1 = _named("scaled_modified_bessel_k1", bessel.OPERATORS["scaled_modified_bessel_k1"])
spherical_bessel_j0 = _named("spherical_bessel_j0", bessel.OPERATORS["spherical_bessel_j0"])

for _name, _overloads in polynomial.OVERLOADS.items():
    globals()[_name] = _named(_name, *_overloads)

# The others are functions of ``torch`` under these or older names.
digamma = psi = FUNCTIONS["digamma"]
erf, erfc, erfinv = FUNCTIONS["erf"], FUNCTIONS["erfc"], FUNCTIONS["erfinv"]
exp2, expm1, log1p = FUNCTIONS["exp2"], FUNCTIONS["expm1"], FUNCTIONS["log1p"]
expit = FUNCTIONS["sigmoid"]
gammainc, gammaincc, gammaln = FUNCTIONS["igamma"], FUNCTIONS["igammac"], FUNCTIONS["lgamma"]
i0, logit, polygamma = FUNCTIONS["i0"], FUNCTIONS["logit"], FUNCTIONS["polygamma"]
multigammaln = FUNCTIONS["mvlgamma"]
log_softmax, logsumexp, softmax = FUNCTIONS["log_softmax"], FUNCTIONS["logsumexp"], FUNCTIONS["softmax"]
round, sinc, xlogy = FUNCTIONS["round"], FUNCTIONS["sinc"], FUNCTIONS["xlogy"]
_functions = {name: f for name, f in globals().items() if name not in ("front", "missing_names")}
globals().update(_publish("torch.special", _functions))

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "digamma", "entr", "erf", "erfc",
    "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln", "i0", "i0e",
    "i1", "i1e", "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "modified_bessel_i0", "modified_bessel_i1",
    "modified_bessel_k0", "modified_bessel_k1", "multigammaln", "ndtr", "ndtri", "polygamma", "psi",
    "round", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "sinc", "softmax",
    "spherical_bessel_j0", "xlog1py", "xlogy", "zeta", *polynomial.OVERLOADS,
]  # fmt: skip

__getattr__ = missing_names(__name__)
