"""A call of every differentiable operator of the registry, found by trying: shapes, indices and static arguments."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import torchlike
from torchlike._aten import packets
from torchlike._decl import derive, rules
from torchlike._decl.op import REGISTRY, Op, ViewOp

SHAPES = [(3, 4), (4, 4), (4,), (2, 3, 4), (1, 2, 8), (1, 2, 4, 4), (1, 2, 4, 4, 4), ()]
SECOND = [None, (4, 4), (4,), (4, 3), (2, 4, 3), (3,), (1, 3, 3), (2, 2, 2, 2), (2, 1, 2), (2, 2, 2, 2, 2), (4, 1), ()]
# Where the search would end after hundreds of trials.
FOUND = {
    **dict.fromkeys("im2col max_pool2d_with_indices avg_pool2d convolution _lp_pool2d".split(), (2, 3, 4)),
    **dict.fromkeys("max_pool3d_with_indices avg_pool3d _lp_pool3d".split(), (1, 2, 4, 4)),
    "col2im": (4, 4),
}
INTEGERS = frozenset("index indices target offsets targets pivots input_lengths target_lengths".split())
MASKS = frozenset("mask condition".split())
STATIC: dict[str, list] = {
    "dim": [0, (0,), -1, 1], "dims": [(0,), (1, 0), (0, 1)], "dim0": [0], "dim1": [1], "n": [2, None], "k": [2],
    "kernel_size": [(2,), (2, 2), (2, 2, 2)], "stride": [(2,), (1,)], "padding": [(0,), (1, 1), (1, 1, 1, 1), (1,) * 6],
    "dilation": [(1,)], "output_padding": [(0,)], "groups": [1], "num_groups": [1, 2], "output_size": [(2,), (2, 2)],
    "normalized_shape": [(4,)], "pad": [(1, 1)], "repeats": [(2, 1), 2], "shifts": [(1,)], "exponent": [2.0],
    "p": [2.0, 1], "ord": [2], "split_size": [(2, 1)], "split_sizes": [(2, 1)], "transposed": [False], "upper": [False],
    "reduce": ["sum", "add"], "size": [(6, 6), (3, 4)], "equation": ["ij,jk->ik"], "reduction": [1], "channels": [0],
    "is_causal": [False], "enable_gqa": [False], "instances": [False], "half_to_float": [False], "left": [True],
    "correction": [1], "rounding_mode": [None], "norm_type": [2.0], "left_pad": [0], "width": [1], "diagonal": [0],
    "align_corners": [False], "antialias": [False], "scales": [None], "mode": [0], "ceil_mode": [False], "blank": [0],
    "num_chunks": [2],
}  # fmt: skip


def _long(values: Any) -> np.ndarray:
    return np.array(values, np.int64)


_SINGLE = np.linspace(0.2, 0.8, 24, dtype=np.float32).reshape(2, 3, 4)
_POSITIVE = np.eye(3) * 2 + 0.5
_EIGHT_BITS = np.eye(4, dtype=ml_dtypes.float8_e4m3fn)
EXPLICIT: dict[str, tuple[list, tuple]] = {
    "_masked_select": ([(4,), np.array([True, False, True, False]), _long([0, 2])], ()),
    "_scaled_mm": ([_EIGHT_BITS, _EIGHT_BITS, np.float32(2), np.float32(3), None, None], (None, False)),
    "_gradient_divided": ([(3, 4), np.array([[1.0], [2.0], [4.0]])], ()),
    "_fake_quantize_per_tensor": ([(3, 4), np.array(0.25, np.float32), np.array(1, np.int32)], (-2, 2)),
    "_fake_quantize_within": ([(3, 4), np.array(0.25, np.float32), np.array(1, np.int32)], (-2, 2)),
    "_fake_quantize_per_channel": ([(3, 4), np.float32([0.2, 0.3, 0.4]), np.int32([0, 1, 2])], (0, -2, 2)),
    "addmv": ([(3,), (3, 4), (4,), None, None], ()),
    "_masked_softmax": ([(2, 3), np.array([[True, False, False], [False, False, True]])], (1, None)),
    "bilinear": ([(2, 4), (2, 3), (5, 4, 3), None], ()),
    "_cross_entropy_smooth": ([(3, 4), _long([0, 1, 2]), None, 0.1], (1, -100)),
    "_ctc_loss": ([(4, 2, 3), _long([[1, 2], [2, 1]]), _long([4, 4]), _long([2, 1])], (0, False)),
    "_embedding_bag": ([(4, 3), _long([0, 2, 1]), _long([0, 2]), None], (0, False, -1)),
    "grid_sampler_2d": ([(1, 2, 4, 4), (1, 3, 3, 2)], (0, 0, False)),
    "_grid_sampler_2d_cpu_fallback": ([(1, 2, 4, 4), (1, 3, 3, 2)], (0, 0, False)),
    "grid_sampler_3d": ([(1, 2, 4, 4, 4), (1, 2, 2, 2, 3)], (0, 0, False)),
    "affine_grid_generator": ([(1, 2, 3)], ((1, 2, 4, 4), False)),
    "index_put": ([(3, 4), _long([0, 2]), (2, 4)], (False, (1,))),
    "tile": ([(3, 4)], ((2, 1),)),
    "segment_reduce": ([(5, 2), _long([2, 3]), None, None, None], ("max", 0, False)),
    "_histogram_edges": ([(5,), 0.0, 1.0], (True, 4, 0)),
    "conv_tbc": ([(5, 2, 3), (3, 3, 4), (4,)], (1,)),
    "fractional_max_pool2d": ([(2, 3, 5, 5), (2, 3, 2)], ((2, 2), (3, 3))),
    "fractional_max_pool3d": ([(2, 3, 5, 5, 5), (2, 3, 3)], ((2, 2, 2), (3, 3, 3))),
    "binary_cross_entropy": ([(3, 4), (3, 4), None], (1,)),
    "binary_cross_entropy_with_logits": ([(3, 4), (3, 4), None, None], (1,)),
    "lu_unpack": ([(4, 4), np.array([1, 2, 3, 4], np.int32)], (True, True)),
    "linalg_lu_solve": ([(4, 4), np.array([1, 2, 3, 4], np.int32), (4, 2)], (True, False)),
    "local_response_norm": ([(1, 4, 3), 0.1, 0.75, 1.0], (2,)),
    "tensordot": ([(3, 4), (4, 3)], ((1,), (0,))),
    "linalg_cross": ([(4, 3), (4, 3)], (-1,)),
    "_lstm_cell": ([(2, 3), (2, 4), (2, 4), (16, 3), (16, 4), None, None], (False,)),
    "_gru_cell": ([(2, 3), (2, 4), (12, 3), (12, 4), None, None], (False,)),
    "_rnn_tanh_cell": ([(2, 3), (2, 4), (4, 3), (4, 4), None, None], (False,)),
    "_rnn_relu_cell": ([(2, 3), (2, 4), (4, 3), (4, 4), None, None], (False,)),
    "_bincount": ([_long([0, 2]), (2,)], (3,)),
    "index_reduce": ([(3, 4), _long([0, 2]), (2, 4)], (0, "amax", True)),
    "clamp": ([(3, 4), 0.3, 0.6], ()),
    "clamp.Tensor": ([(3, 4), (3, 4), None], ()),
    "pixel_shuffle": ([(1, 4, 2, 2)], (2,)),
    "pixel_unshuffle": ([(1, 2, 4, 4)], (2,)),
    "_adaptive_max_pool3d": ([(1, 2, 4, 4, 4)], ((2, 2, 2),)),
    "_pack_padded_sequence": ([(3, 2, 4), _long([0, 1, 3])], ()),
    "_pad_packed_sequence": ([(3, 4), _long([[0, 1], [2, 3]]), 0.0], ()),
    **{f"_cross_entropy_prob_{i}": ([(3, 4), (3, 4), None, 0.4], ()) for i in range(3)},
    **{f"_kl_div_log_{r}": ([(3, 4), (3, 4)], ()) for r in ("none", "mean", "sum")},
    **{f"_cosine_embedding_loss_{r}": ([(3, 4), (3, 4), _long([1, -1, 1]), None], ()) for r in ("none", "mean", "sum")},
    "select_backward": ([(3,)], ((2, 3), 0, 1)),
    "slice_backward": ([(2, 2)], ((2, 5), 1, 1, 5, 2)),
    "diagonal_backward": ([(2,)], ((2, 3), 0, 0, 1)),
    "unfold_backward": ([(2, 2)], ((3,), 0, 2, 1)),
    "_index_true": ([(3, 4), _long([0, 2])], (0, 1)),
    "_adaptive_avg_pool2d": ([(1, 2, 4, 4)], ((2, 2),)),
    "_adaptive_avg_pool3d": ([(1, 2, 4, 4, 4)], ((2, 2, 2),)),
    "_fft_c2c": ([(np.arange(24.0).reshape(2, 3, 4) % 7) * (1 - 0.5j)], ((0, 2), 1, True)),
    "_fft_r2c": ([(2, 5, 4)], ((0, 1), 2, True)),
    "_fft_c2r": ([(np.arange(24.0).reshape(2, 4, 3) % 7) * (1 - 0.5j)], ((0, 1), 0, 7)),
    "_istft_divided": ([(2, 4), (1, 4)], ()),
    "_grouped_mm": ([_SINGLE, _SINGLE.swapaxes(1, 2), None, None], (None,)),
    "linalg_ldl_solve": ([(4, 4), np.array([1, 2, 3, 4], np.int32), (4, 2)], (False,)),
    "ormqr": ([(4, 3), (3,), (4, 2)], (True, False)),
    "linalg_cholesky": ([_POSITIVE], (False,)),
    "cholesky": ([_POSITIVE], (False,)),
    **{
        f"_upsample_{kind}": ([(1, 2, *(3,) * n)], ((4,) * n, None, False, False))
        for kind, n in (
            ("nearest2d", 2),
            ("nearest3d", 3),
            ("bilinear2d", 2),
            ("trilinear3d", 3),
            ("bicubic2d", 2),
            ("nearest_exact2d", 2),
            ("nearest_exact3d", 3),
        )
    },
    "_to_copy": ([(3, 4)], (torchlike.float32,)),
}
# Results that are never differentiable, which their declarations leave to the dtype.
DISCRETE = frozenset("eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor one_hot _repeat_index "
                     "_unravel_index".split())  # fmt: skip


def operators() -> list[Op]:
    """The operators that record nodes and are no views."""
    packets.complete()
    found = [o for o in REGISTRY.values() if o.formulas != {} and not isinstance(o, ViewOp)]
    found = [o for o in found if o.full_name not in DISCRETE]
    return [o for o in found if not any(a.name == "words" for a in o.schema.args)]


def _dynamic(op: Op, first: tuple, second: Any, dtype: Any) -> list:
    """Runtime values: random numbers between 0.2 and 0.8, small indices, masks, lists of two."""
    rng, values, tensors = np.random.RandomState(0), [], 0
    for a in op.dynamic:
        if not a.is_tensor:
            values.append(None if a.has_default else 2 if a.kind == "int" else 0.4)
        elif a.name in INTEGERS:
            shape = second if second is not None else (2,) if "select" in op.name or len(first) == 1 else first
            values.append(np.zeros(shape, np.int64) + np.arange(shape[-1]) % 2 if shape else np.zeros((), np.int64))
        elif a.name in MASKS:
            values.append(rng.uniform(size=first) > 0.5)
        else:
            for _ in range(2 if a.is_list else 1):
                shape = first if not tensors or second is None else second
                value = rng.uniform(0.2, 0.8, shape)
                values.append(value + 1j * rng.uniform(0.2, 0.8, shape) if dtype == np.complex128 else value)
                tensors += 1
            if a.optional and tensors > 1:
                values[-1] = None
    return values


def _statics(op: Op) -> Iterator[tuple]:
    choices = []
    for a in op.static:
        known = STATIC.get(a.name, [None])
        default = (a.default,) if a.has_default and a.is_list and isinstance(a.default, int) else a.default
        choices.append([default] if a.has_default else known)
        if a.has_default and a.default is None or a.default == ():
            choices[-1] = [a.default, *[k for k in known if k is not None]]
    lens = tuple(1 if a.name in INTEGERS else 2 for a in op.dynamic if a.is_list)
    for static in itertools.islice(itertools.product(*choices), 40):
        yield (*static, lens) if op.lists else static


def _works(op: Op, static: tuple, values: list) -> bool:
    try:
        arrays = [jnp.asarray(v) if isinstance(v, np.ndarray) else v for v in values]
        out = jax.eval_shape(op.forward(static), *arrays)
        if op.checked is not None:
            op.examine(static, arrays)
    except Exception:
        return False
    return any(rules.differentiable(o.dtype) and o.size for o in derive.as_tuple(out) if hasattr(o, "dtype"))


@functools.cache
def sample(op: Op, dtype: Any = np.float64) -> tuple[list, tuple] | None:
    """(runtime values, static arguments) of a call that works, or None."""
    if op.full_name in EXPLICIT:
        rng = np.random.RandomState(0)
        values, static = EXPLICIT[op.full_name]
        return [rng.uniform(0.2, 0.8, v) if isinstance(v, tuple) else v for v in values], static
    shapes = itertools.product(SHAPES, SECOND)
    for first, second in [(FOUND[op.name], None)] if op.name in FOUND else shapes:
        values = _dynamic(op, first, second, dtype)
        for static in _statics(op):
            if _works(op, static, values):
                return values, static
    return None


@functools.cache
def complex_sample(op: Op) -> tuple[list, tuple] | None:
    """The call that :func:`sample` finds, of complex numbers, or None if they are not taken."""
    found = sample(op)
    if found is None:
        return None
    values = [v + 0.4j * np.flip(v, range(v.ndim)[-1:]) + 0j if _is_float(v) else v for v in found[0]]
    values = [np.asarray(v) if isinstance(v, np.generic) else v for v in values]
    return (values, found[1]) if any(map(np.iscomplexobj, values)) and _works(op, found[1], values) else None


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


__all__ = ["complex_sample", "operators", "sample"]
