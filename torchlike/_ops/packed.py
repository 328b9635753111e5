"""Packed sequences: the steps of sequences of several lengths without the padding."""

import jax.numpy as jnp
import numpy as np

from torchlike._decl.op import op


@op(
    "_pack_padded_sequence(Tensor input, Tensor rows) -> Tensor",
    variants="",
    node="PackPaddedSequenceBackward",
)
def pack(input, rows):
    """Rows of input [T, B, *], numbered as if its first two dimensions were one."""
    return input.reshape(-1, *input.shape[2:])[rows]


@op("_pad_packed_sequence(Tensor data, Tensor rows, Scalar padding_value) -> Tensor", variants="",
    node="PadPackedSequenceBackward")  # fmt: skip
def pad(data, rows, padding_value):
    """data [total, *] as [T, B, *]: element (t, b) is row ``rows[t, b]``, or the padding value if that is
    -1."""
    there = (rows >= 0).reshape(*rows.shape, *(1,) * (data.ndim - 1))
    return jnp.where(there, data[jnp.maximum(rows, 0)], jnp.asarray(padding_value).astype(data.dtype))


def packed_rows(batch_sizes: np.ndarray, width: int) -> np.ndarray:
    """Numbers, in [T, width], of the steps that a packed sequence holds, in its order."""
    return np.concatenate([t * width + np.arange(n) for t, n in enumerate(batch_sizes)])


def padded_rows(batch_sizes: np.ndarray, length: int) -> np.ndarray:
    """[length, B]: the numbers of the steps in a packed sequence, -1 where there is none."""
    rows = np.full((length, int(batch_sizes[0])), -1, np.int64)
    starts = np.cumsum(batch_sizes) - batch_sizes
    for t, (start, n) in enumerate(zip(starts, batch_sizes, strict=True)):
        rows[t, :n] = start + np.arange(n)
    return rows
