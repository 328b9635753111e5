"""Padding."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import result_layouts
from torchlike._decl.op import op
from torchlike._ops import _composed_sums
from torchlike._ops._axes import refuse
from torchlike._ops.shape import cast


def _check_length(pad, ndim):
    if len(pad) > 2 * ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {ndim}"
        )


def _pairs(pad, ndim):
    """(low, high) for each dimension; PyTorch lists them from the last dimension on."""
    pairs = [(0, 0)] * ndim
    for i in range(len(pad) // 2):
        pairs[ndim - 1 - i] = (pad[2 * i], pad[2 * i + 1])
    return pairs


@op(
    "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
    variants="function",
    held="value",
    saved="pad",
    layout=result_layouts.padded,
)
def constant_pad_nd(self, pad, value):
    """``input`` with ``value`` around it: ``pad`` lists (before, after) from the last dimension on; "
    "negative cuts."""
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    _check_length(pad, self.ndim)
    pairs = _pairs(pad, self.ndim)
    for dim, (n, (low, high)) in enumerate(zip(self.shape, pairs, strict=True)):
        if n + low + high < 0 or n + min(low, 0) + min(high, 0) < 0:
            raise RuntimeError(
                f"The input size {n}, plus negative padding {low} and {high} resulted in a negative "
                "output size, which is "
                f"invalid. Check dimension {dim} of your input. (narrow(): length must be non-negative.)"
            )
    if jnp.iscomplexobj(value) and not jnp.iscomplexobj(self):
        raise RuntimeError(
            f"constant_pad_nd: value cannot be converted to type {self.dtype.name} without overflow: it is complex"
        )
    return lax.pad(self, cast(jnp.asarray(value), self.dtype), [(low, high, 0) for low, high in pairs])


_SUPPORTED = (
    "Supported combinations for non-constant padding:\n"
    "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
    "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
    "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
)


def _places(name, n, low, high):
    """For each place of the padded dimension, the index it is read from."""
    if name == "replicate":
        return np.clip(np.arange(-low, n + high), 0, n - 1)
    if name == "circular":
        start, kept = max(-low, 0), n + min(low, 0) + min(high, 0)  # what negative sizes leave goes round
        return start + np.arange(-max(low, 0), kept + max(high, 0)) % kept
    i = np.abs(np.arange(-low, n + high))
    return (n - 1) - np.abs((n - 1) - i)


def _check(name, dim, n, low, high, shape):
    if name == "reflect" and (low >= n or high >= n):
        raise RuntimeError(
            "Padding size should be less than the corresponding input dimension, but got: padding "
            f"({low}, {high}) at dimension {dim} of input {list(shape)}"
        )
    if name == "circular" and (low > n or high > n):
        raise RuntimeError("Padding value causes wrapping around more than once.")
    if not n or n + low + high < 1 or (name == "circular" and n + min(low, 0) + min(high, 0) < 1):
        raise RuntimeError(
            f"pad(mode={name!r}): the output would be empty at dimension {dim}: size {n} with padding ({low}, {high})"
        )


def _padded(name, x, pad):
    count = len(pad) // 2
    _check_length(pad, x.ndim)
    if len(pad) not in (2, 4, 6) or x.ndim not in (count + 1, count + 2):
        raise NotImplementedError(f"Padding size {len(pad)} is not supported for {x.ndim}D input tensor.\n{_SUPPORTED}")
    pairs = _pairs(pad, x.ndim)
    if name != "circular" and 0 in x.shape[x.ndim - count - 1 :]:
        raise RuntimeError(
            f"Expected {count + 1}D or {count + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(x.shape)}"
        )
    for dim in range(x.ndim - count, x.ndim):
        low, high = pairs[dim]
        _check(name, dim, x.shape[dim], low, high, x.shape)
        if low or high:
            x = jnp.take(x, _places(name, x.shape[dim], low, high), axis=dim, mode="clip")
    return x


def _mode(name, title, dims):
    if name == "circular":
        schema, node = "_pad_circular(Tensor self, SymInt[] pad) -> Tensor", "PadCircularBackward"
    else:
        schema = f"{title}_pad{dims}d(Tensor self, SymInt[{2 * dims}] padding) -> Tensor"
        node = f"{title.capitalize()}Pad{dims}DBackward"
    if name == "circular":

        def kernel(self, pad):
            return _padded(name, self, pad)

    else:

        def kernel(self, padding):
            refuse(f"{title}_pad{dims}d", self, "b")
            return _padded(name, self, padding)

    private = {"own": False, "out": None, "calls": _composed_sums.pad_circular} if name == "circular" else None
    casts = {"cpu": "fp32"} if name != "circular" and (title, dims) != ("reflection", 3) else None
    layout = None if name == "circular" else result_layouts.suggested
    saved = "" if name == "circular" else "padding self!"
    back = None
    if name != "circular":
        arguments = f"Tensor grad_output, Tensor self, SymInt[{2 * dims}] padding"
        back = f"{title}_pad{dims}d_backward({arguments}) -> Tensor"
    settings = {"saved": saved, "autocast": casts, "layout": layout, "aten": private, "backward": back}
    return op(schema, variants="", node=node, **settings)(kernel)


REFLECT = {d: _mode("reflect", "reflection", d) for d in (1, 2, 3)}
REPLICATE = {d: _mode("replicate", "replication", d) for d in (1, 2, 3)}
circular = _mode("circular", "circular", 0)
