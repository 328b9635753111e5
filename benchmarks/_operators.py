"""The 60 operators that are measured: how often programs use them, and how each is written in PyTorch and in JAX.

``USES`` was made by running 73 public PyTorch programs, counting in how many of them each public name was called, and
taking the 60 most used names that compute tensors from tensors, spellings of one operator (function, method, module,
Python operator) as one, by the largest of their counts. What only makes a tensor, asks one, or draws is left out.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

USES = {
    "add": 66, "getitem": 62, "mul": 60, "div": 54, "to": 53, "cat": 50, "linear": 48, "view": 44, "sub": 42,
    "mean": 39, "sum": 39, "add_": 37, "setitem": 34, "transpose": 34, "unsqueeze": 34, "eq": 33, "neg": 33,
    "stack": 28, "gt": 27, "conv2d": 27, "contiguous": 26, "expand": 26, "embedding": 25, "pow": 24, "relu": 24,
    "pad": 24, "exp": 23, "rsub": 22, "clone": 22, "matmul": 22, "permute": 22, "rdiv": 21, "mul_": 21, "log": 21,
    "max": 20, "where": 20, "clamp": 19, "squeeze": 18, "layer_norm": 18, "copy_": 17, "cos": 17, "abs": 16,
    "flatten": 16, "einsum": 16, "batch_norm": 15, "softmax": 15, "sin": 14, "sqrt": 14, "repeat": 13, "sigmoid":
    13, "masked_fill": 12, "tanh": 12, "leaky_relu": 12, "argmax": 11, "gelu": 11, "log_softmax": 11, "normalize":
    11, "gather": 10, "cross_entropy": 10, "max_pool2d": 9,
}  # fmt: skip


class Operator(NamedTuple):
    """One operator.

    Attributes:
        ours: ``ours(lib, *tensors)`` in PyTorch's words. by_hand: the same in JAX's, ``by_hand(*arrays)``.
        small, large: the shapes of its arguments; one of integers is ``(shape, upper bound)``.
        grads: how many of the arguments, from the first, require grad in the backward; 0: it has none.
    """

    ours: Any
    by_hand: Any
    small: tuple
    large: tuple
    grads: int = 1


SQUARE, WIDE = (4, 4), (1024, 1024)
ONE, TWO = ((SQUARE,), (WIDE,)), ((SQUARE, SQUARE), (WIDE, WIDE))


def _one(ours, by_hand, grads=1):
    return Operator(ours, by_hand, *ONE, grads)


def _two(ours, by_hand, grads=2):
    return Operator(ours, by_hand, *TWO, grads)


def _changed(name):
    """An operator that changes a copy of its first argument."""

    def ours(lib, a, b):
        return getattr(a * 1.0, name)(b)

    return ours


def _set(lib, a, b):
    a = a * 1.0
    a[1:3] = b
    return a


def _layer_norm(x, w, b):
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * lax.rsqrt(jnp.mean(jnp.square(centred), -1, keepdims=True) + 1e-5) * w + b


def _batch_norm(x, w, b):
    centred = x - jnp.mean(x, (0, 2, 3), keepdims=True)
    scale = lax.rsqrt(jnp.mean(jnp.square(centred), (0, 2, 3), keepdims=True) + 1e-5)
    return centred * scale * w[:, None, None] + b[:, None, None]


def _conv2d(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "VALID", precision="highest")


def _max_pool2d(x):
    n, c, h, w = x.shape
    return jnp.max(x.reshape(n, c, h // 2, 2, w // 2, 2), (3, 5))


def _normalize(x):
    return x / jnp.maximum(jnp.sqrt(jnp.sum(jnp.square(x), 1, keepdims=True)), 1e-12)


def _cross_entropy(x, y):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1))


def _product(a, b):
    return jnp.matmul(a, b, precision="highest")


POINTWISE = {
    "add": _two(lambda lib, a, b: a + b, lambda a, b: a + b),
    "mul": _two(lambda lib, a, b: a * b, lambda a, b: a * b),
    "div": _two(lambda lib, a, b: a / b, lambda a, b: a / b),
    "sub": _two(lambda lib, a, b: a - b, lambda a, b: a - b),
    "rsub": _one(lambda lib, a: 1.0 - a, lambda a: 1.0 - a),
    "rdiv": _one(lambda lib, a: 1.0 / a, lambda a: 1.0 / a),
    "add_": _two(_changed("add_"), lambda a, b: a * 1.0 + b),
    "mul_": _two(_changed("mul_"), lambda a, b: a * 1.0 * b),
    "neg": _one(lambda lib, a: -a, lambda a: -a),
    "pow": _one(lambda lib, a: a**2, lambda a: a**2),
    "exp": _one(lambda lib, a: a.exp(), jnp.exp),
    "log": _one(lambda lib, a: a.log(), jnp.log),
    "cos": _one(lambda lib, a: a.cos(), jnp.cos),
    "sin": _one(lambda lib, a: a.sin(), jnp.sin),
    "sqrt": _one(lambda lib, a: a.sqrt(), jnp.sqrt),
    "abs": _one(lambda lib, a: a.abs(), jnp.abs),
    "clamp": _one(lambda lib, a: a.clamp(0.3, 0.7), lambda a: jnp.clip(a, 0.3, 0.7)),
    "relu": _one(lambda lib, a: lib.relu(a), jax.nn.relu),
    "leaky_relu": _one(lambda lib, a: lib.nn.functional.leaky_relu(a, 0.1), lambda a: jax.nn.leaky_relu(a, 0.1)),
    "gelu": _one(lambda lib, a: lib.nn.functional.gelu(a), lambda a: jax.nn.gelu(a, approximate=False)),
    "sigmoid": _one(lambda lib, a: a.sigmoid(), jax.nn.sigmoid),
    "tanh": _one(lambda lib, a: a.tanh(), jnp.tanh),
    "eq": _two(lambda lib, a, b: a == b, lambda a, b: a == b, 0),
    "gt": _two(lambda lib, a, b: a > b, lambda a, b: a > b, 0),
    "where": _two(lambda lib, a, b: lib.where(a > 0.5, a, b), lambda a, b: jnp.where(a > 0.5, a, b)),
    "masked_fill": _one(lambda lib, a: a.masked_fill(a > 0.5, 0.0), lambda a: jnp.where(a > 0.5, 0.0, a)),
}

SHAPES = {
    "getitem": _one(lambda lib, a: a[1:3] * 1.0, lambda a: a[1:3] * 1.0),
    "setitem": Operator(_set, lambda a, b: (a * 1.0).at[1:3].set(b), (SQUARE, (2, 4)), (WIDE, (2, 1024)), 2),
    "to": _one(lambda lib, a: a.to(lib.float64), lambda a: a.astype(jnp.float64)),
    "cat": _two(lambda lib, a, b: lib.cat([a, b]), lambda a, b: jnp.concatenate([a, b])),
    "stack": _two(lambda lib, a, b: lib.stack([a, b]), lambda a, b: jnp.stack([a, b])),
    "view": _one(lambda lib, a: a.view(-1) * 1.0, lambda a: a.reshape(-1) * 1.0),
    "transpose": _one(lambda lib, a: a.transpose(0, 1) * 1.0, lambda a: a.T * 1.0),
    "permute": _one(lambda lib, a: a.permute(1, 0) * 1.0, lambda a: a.transpose(1, 0) * 1.0),
    "contiguous": _one(lambda lib, a: a.t().contiguous(), lambda a: a.T * 1),
    "unsqueeze": _one(lambda lib, a: a.unsqueeze(0) * 1.0, lambda a: a[None] * 1.0),
    "squeeze": _one(lambda lib, a: a.squeeze() * 1.0, lambda a: a.squeeze() * 1.0),
    "flatten": _one(lambda lib, a: a.flatten() * 1.0, lambda a: a.ravel() * 1.0),
    "expand": Operator(lambda lib, a: a.expand(64, -1, -1) * 1.0, lambda a: jnp.broadcast_to(a, (64, *a.shape)) * 1.0,
                       ((4, 4),), ((128, 128),)),
    "repeat": Operator(lambda lib, a: a.repeat(4, 4), lambda a: jnp.tile(a, (4, 4)), ((4, 4),), ((256, 256),)),
    "clone": _one(lambda lib, a: a.clone(), jnp.copy),
    "copy_": _two(_changed("copy_"), lambda a, b: a * 0.0 + b),
    "pad": _one(lambda lib, a: lib.nn.functional.pad(a, (1, 1)), lambda a: jnp.pad(a, ((0, 0), (1, 1)))),
    "gather": Operator(lambda lib, a, i: a.gather(1, i), lambda a, i: jnp.take_along_axis(a, i, 1),
                       (SQUARE, (SQUARE, 4)), (WIDE, (WIDE, 1024))),
    "embedding": Operator(lambda lib, w, i: lib.nn.functional.embedding(i, w), lambda w, i: w[i],
                          ((8, 4), ((2, 3), 8)), ((5000, 256), ((32, 64), 5000))),
}  # fmt: skip

REDUCTIONS = {
    "mean": _one(lambda lib, a: a.mean(), jnp.mean),
    "sum": _one(lambda lib, a: a.sum(), jnp.sum),
    "max": _one(lambda lib, a: a.max(), jnp.max),
    "argmax": _one(lambda lib, a: a.argmax(1), lambda a: jnp.argmax(a, 1), 0),
    "softmax": _one(lambda lib, a: a.softmax(1), lambda a: jax.nn.softmax(a, 1)),
    "log_softmax": _one(lambda lib, a: a.log_softmax(1), lambda a: jax.nn.log_softmax(a, 1)),
    "normalize": _one(lambda lib, a: lib.nn.functional.normalize(a), _normalize),
    "cross_entropy": Operator(lambda lib, x, y: lib.nn.functional.cross_entropy(x, y), _cross_entropy,
                              (SQUARE, ((4,), 4)), ((1024, 1000), ((1024,), 1000))),
}  # fmt: skip

LAYERS = {
    "linear": Operator(lambda lib, x, w, b: lib.nn.functional.linear(x, w, b), lambda x, w, b: _product(x, w.T) + b,
                       (SQUARE, SQUARE, (4,)), ((512, 512), (512, 512), (512,)), 3),
    "matmul": Operator(lambda lib, a, b: a @ b, _product, (SQUARE, SQUARE), ((512, 512), (512, 512)), 2),
    "einsum": Operator(lambda lib, a, b: lib.einsum("bij,bjk->bik", a, b), _product,
                       ((2, 4, 4), (2, 4, 4)), ((16, 128, 128), (16, 128, 128)), 2),
    "conv2d": Operator(lambda lib, x, w: lib.nn.functional.conv2d(x, w), _conv2d,
                       ((1, 2, 6, 6), (3, 2, 3, 3)), ((8, 32, 32, 32), (32, 32, 3, 3)), 2),
    "layer_norm": Operator(lambda lib, x, w, b: lib.nn.functional.layer_norm(x, x.shape[-1:], w, b), _layer_norm,
                           (SQUARE, (4,), (4,)), (WIDE, (1024,), (1024,)), 3),
    "batch_norm": Operator(lambda lib, x, w, b: lib.nn.functional.batch_norm(x, None, None, w, b, True), _batch_norm,
                           ((2, 3, 4, 4), (3,), (3,)), ((16, 64, 32, 32), (64,), (64,)), 3),
    "max_pool2d": Operator(lambda lib, x: lib.nn.functional.max_pool2d(x, 2), _max_pool2d,
                           ((1, 2, 4, 4),), ((16, 32, 32, 32),)),
}  # fmt: skip

GROUPS = {"pointwise": POINTWISE, "shapes": SHAPES, "reductions": REDUCTIONS, "layers": LAYERS}
