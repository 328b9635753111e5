"""Packed sequences: the steps of sequences of several lengths without the padding."""

import jax.numpy as jnp

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
