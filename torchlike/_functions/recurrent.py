"""``torch.lstm`` and its like: recurrent networks, and single steps of them, as functions of their weights."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from torchlike._base.state import AUTOCAST, state
from torchlike._core.conversion.convert import copied_array
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions import samples
from torchlike._functions._install import function
from torchlike._functions.generator import draw, place_of
from torchlike._ops import packed
from torchlike._ops import rnn as ops


def _network(mode: str) -> Callable:
    """The network of all layers and directions, over a sequence of tensors or over a packed one."""
    name = mode.lower()

    def recurrent(input: Tensor, hx: Any, params: Any, has_biases: Any, num_layers: Any, dropout: Any, train: Any,
                  bidirectional: Any, batch_first: Any = False) -> tuple:  # fmt: skip
        if isinstance(has_biases, list | tuple):  # (data, batch_sizes, hx, params...): a packed sequence
            given = params, has_biases, num_layers, dropout, train, bidirectional, batch_first
            return _packed(mode, input, hx, *given)
        return _run(mode, input, hx, params, None, has_biases, num_layers, dropout, train, bidirectional, batch_first)

    recurrent.__name__ = recurrent.__qualname__ = name
    recurrent.__doc__ = f"""The network of ``torch.nn.{name.partition("_")[0].upper()}`` over weights given as a list.

    Args:
        input: [T, B, F], or [B, T, F] with ``batch_first``. hx: the first hidden state, for an LSTM (h, c).
        params: for each layer and direction ``weight_ih``, ``weight_hh`` and, with ``has_biases``, both biases.
        dropout: between the layers, where ``train`` is true.

    Of a packed sequence the arguments are ``(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
    bidirectional)``.

    Returns the outputs and the last hidden state (for an LSTM h and c).
    """
    return recurrent


def _run(mode, x, hx, params, lengths, has_biases, num_layers, dropout, train, bidirectional, batch_first, steps=None):  # type: ignore[no-untyped-def]
    p = dropout if train and num_layers > 1 else 0.0
    words = None
    if p:
        size = _dropped(x, params, num_layers, bidirectional, batch_first)
        keep = size and (partial(_kept, *size, p) if steps is None else partial(_kept, *size, p, steps=steps))
        words = draw("rnn", None, place_of(x), keep)
    states = tuple(hx) if mode == "LSTM" else (hx,)
    projection = len(params) % 2 == 1 or len(params) == num_layers * (1 + bidirectional) * (3 + 2 * has_biases)
    static = has_biases, num_layers, bidirectional, projection, batch_first, _mixed(), (len(params),)
    apart = mode == "LSTM" and (projection or lengths is not None)
    return call(ops.lstm_in_steps if apart else ops.recurrent[mode], (x, *states, *params, lengths, words, p), static)


def _mixed() -> bool:
    """Whether states may be of another dtype than what they are multiplied with, as autocast lets them."""
    return bool(state.active & AUTOCAST)


def _dropped(x, params, num_layers, bidirectional, batch_first):  # type: ignore[no-untyped-def]
    """The shape of what all layers but the last give, [layers, T, B, F]; None where the operator is going to refuse."""
    if x.dim() != 3 or not x.dtype.is_floating_point:
        return None
    length, batch = (x.shape[1], x.shape[0]) if batch_first else x.shape[:2]
    return num_layers - 1, length, batch, params[1].shape[1] * (1 + bool(bidirectional))


def _kept(layers, length, batch, width, p, engine, steps=None):  # type: ignore[no-untyped-def]
    """What dropout keeps of what all layers but the last give; ``steps``: [T, B], the numbers of the steps of a packed
    sequence, -1 where there is none."""
    rows = length * batch if steps is None else int((steps >= 0).sum())
    kept = samples.bernoulli(engine, layers * rows * width, 1 - p).reshape(layers, rows, width)
    if steps is not None:
        kept = kept[:, steps.reshape(-1)]
    return kept.reshape(layers, length, batch, width)


def _packed(mode, data, batch_sizes, hx, *rest):  # type: ignore[no-untyped-def]
    counts = np.asarray(batch_sizes.tolist(), np.int64)
    width = int(counts[0])
    lengths = copied_array((counts[:, None] > np.arange(width)).sum(0)).to(data.device)
    steps = packed.padded_rows(counts, len(counts))
    padded = call(packed.pad, (data, copied_array(steps).to(data.device), 0.0), ())
    out, *last = _run(mode, padded, hx, rest[0], lengths, *rest[1:], False, steps)
    rows = copied_array(packed.packed_rows(counts, width)).to(data.device)
    return (call(packed.pack, (out, rows), ()), *last)


def two_states(hx: Any) -> tuple:
    """The hidden state and that of the cell, given as a pair."""
    if not isinstance(hx, list | tuple):
        raise TypeError(
            f"lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not {type(hx).__name__}; give (h, c)"
        )
    if len(hx) != 2:
        raise RuntimeError(f"lstm_cell expects two hidden states (h, c), got {len(hx)}")
    return tuple(hx)


def _cell(name: str) -> Callable:
    """One step of a network."""
    op, several = getattr(ops, name), name == "lstm_cell"

    def step(input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None) -> Any:
        states = two_states(hx) if several else (hx,)
        return call(op, (input, *states, w_ih, w_hh, b_ih, b_hh), (_mixed(),))

    step.__name__ = step.__qualname__ = name
    step.__doc__ = f"""One step of ``torch.nn.{"LSTM" if several else "GRU" if "gru" in name else "RNN"}Cell``.

    Args:
        input: [B, F]. hx: the hidden state, [B, H]{", and the cell's as (h, c)" if several else ""}.
        w_ih, w_hh, b_ih, b_hh: the weights and, unless None, the biases.
    """
    return step


for _mode in ops.recurrent:
    function()(_network(_mode))
for _name in ("gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"):
    function()(_cell(_name))
