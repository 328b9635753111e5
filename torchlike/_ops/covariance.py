"""Covariance and correlation."""

import math

import jax.numpy as jnp
from jax import lax

from torchlike._decl.op import op
from torchlike._ops import _composed_sums
from torchlike._ops._axes import is_floating, type_name
from torchlike._ops.matmul import precision


def _cov_weights(fweights, aweights, n):
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None:
            continue
        if w.ndim > 1:
            raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {w.ndim} dimensions")
        if (w.shape[0] if w.ndim else 1) != n:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but "
                "got "
                f"{w.size} numel, expected {n}"
            )
    if fweights is not None and not jnp.issubdtype(fweights.dtype, jnp.integer):
        raise RuntimeError(
            f"cov(): expected fweights to have integral dtype but got fweights with {type_name(fweights)} dtype"
        )
    if aweights is not None and not jnp.issubdtype(aweights.dtype, jnp.floating):
        raise RuntimeError(
            f"cov(): expected aweights to have floating point dtype but got aweights with {type_name(aweights)} dtype"
        )


def _wrong_weights(self, correction, fweights, aweights):
    given = [w for w in (fweights, aweights) if w is not None]
    if not given:
        return None, None
    negative, nothing = ~jnp.all(given[0] >= 0), jnp.sum(math.prod(given)) == 0
    for w in given[1:]:
        negative = negative | ~jnp.all(w >= 0)

    def error():
        if negative:
            return RuntimeError("cov(): fweights and aweights cannot be negative")
        return RuntimeError("cov(): weights sum to zero, can't be normalized")

    return negative | nothing, error


@op(
    "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
    aten={"out": None, "calls": _composed_sums.cov},
    policy="self",
    node="SqueezeBackward",
    check=_wrong_weights,
    saved="~self",
    autocast="lower_precision_fp",
)
def cov(self, correction, fweights, aweights):
    """The covariance matrix of the variables in the rows, observed in the columns.

    ``correction`` is taken from the number of observations; ``fweights`` count observations,
    ``aweights`` weigh them.

    >>> import torchlike as torch
    >>> torch.cov(torch.tensor([[1., 2., 3.], [3., 2., 1.]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    return _cov(self, correction, fweights, aweights)


def _cov(self, correction, fweights, aweights):
    if self.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
        )
    if self.dtype == bool:
        raise RuntimeError("cov(): bool dtype is not supported for input; convert it with .float()")
    x = self if self.ndim == 2 else self.reshape(1, -1)
    x = x if is_floating(x) else x.astype(jnp.float32)
    n = x.shape[1]
    _cov_weights(fweights, aweights, n)
    w = None if fweights is None else fweights.reshape(-1)
    if aweights is not None:
        w = aweights.reshape(-1) if w is None else w * aweights.reshape(-1)
    total = n if w is None else jnp.sum(w, dtype=w.dtype)
    mean = jnp.sum(x if w is None else x * w, 1, keepdims=True) / total
    freedom = total - correction
    if aweights is not None and correction:
        freedom = total - correction * jnp.sum(w * aweights.reshape(-1)) / total
    off = x - mean
    weighted = off if w is None else off * w
    out = jnp.matmul(weighted, jnp.conj(off.T) if jnp.iscomplexobj(off) else off.T, precision=precision())
    out = out / jnp.maximum(freedom, 0).astype(jnp.real(out).dtype)
    return out.squeeze() if out.size == 1 else out


@op(
    "corrcoef(Tensor self) -> Tensor",
    aten={"out": None, "calls": _composed_sums.corrcoef},
    node="ClampBackward1",
    saved="~self",
    autocast="lower_precision_fp",
)
def corrcoef(self):
    """The matrix of correlation coefficients of the variables in the rows, observed in the columns.

    >>> import torchlike as torch
    >>> torch.corrcoef(torch.tensor([[1., 2., 3.], [3., 2., 1.]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if self.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
        )
    c = _cov(self, 1, None, None)
    if not c.ndim:
        return c / c
    scale = jnp.sqrt(jnp.real(jnp.diagonal(c)))
    r = c / scale[:, None] / scale[None, :]
    clip = lambda x: jnp.where(jnp.abs(x) <= 1, x, lax.stop_gradient(jnp.sign(x)))  # noqa: E731
    return lax.complex(clip(r.real), clip(r.imag)) if jnp.iscomplexobj(r) else clip(r).astype(r.dtype)
