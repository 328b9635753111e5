"""Recurrent networks and their cells as the calls of each step."""

from collections.abc import Callable
from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike._aten.lower import lowers, redispatch
from torchlike._aten.lowered import linear, whole
from torchlike._aten.packets import ops

_aten = ops.aten


def _parts(t: Any, count: int) -> list:
    return redispatch(_aten.split.Tensor, t, t.shape[-1] // count, t.ndim - 1)


def _sum(inner: Any, hidden: Any, weight: Any, bias: Any) -> Any:
    return redispatch(_aten.add.Tensor, inner, linear(hidden, weight, bias))


def _lstm(inner: Any, state: tuple, w_hh: Any, b_hh: Any, w_hr: Any) -> tuple:
    i, f, g, o = _parts(_sum(inner, state[0], w_hh, b_hh), 4)
    i, f, o = (redispatch(_aten.sigmoid.default, x) for x in (i, f, o))
    kept = redispatch(_aten.mul.Tensor, f, state[1])
    c = redispatch(_aten.add.Tensor, kept, redispatch(_aten.mul.Tensor, i, redispatch(_aten.tanh.default, g)))
    h = redispatch(_aten.mul.Tensor, o, redispatch(_aten.tanh.default, c))
    return h if w_hr is None else linear(h, w_hr, None), c


def _gru(inner: Any, state: tuple, w_hh: Any, b_hh: Any, w_hr: Any) -> tuple:
    of_input, of_state = _parts(inner, 3), _parts(linear(state[0], w_hh, b_hh), 3)
    r, z = (
        redispatch(_aten.sigmoid.default, redispatch(_aten.add.Tensor, a, b))
        for a, b in zip(of_input[:2], of_state[:2], strict=True)
    )
    new = redispatch(_aten.add.Tensor, of_input[2], redispatch(_aten.mul.Tensor, of_state[2], r))
    new = redispatch(_aten.tanh.default, new)
    change = redispatch(_aten.mul.Tensor, redispatch(_aten.sub.Tensor, state[0], new), z)
    return (redispatch(_aten.add.Tensor, change, new),)


def _plain(activation: Any) -> Callable:
    def step(inner: Any, state: tuple, w_hh: Any, b_hh: Any, w_hr: Any) -> tuple:
        return (redispatch(activation, _sum(inner, state[0], w_hh, b_hh)),)

    return step


def _direction(step: Callable, x: Any, state: tuple, weights: list, bias: bool, reverse: bool) -> tuple:
    """(what each step gives, the last state) of one layer in one direction; ``x`` is [T, B, F]."""
    w_ih, w_hh, *rest = weights
    b_ih, b_hh = rest[:2] if bias else (None, None)
    w_hr = rest[2 * bias] if len(rest) > 2 * bias else None
    steps = redispatch(_aten.unbind.int, linear(x, w_ih, b_ih), 0)
    outs = []
    for inner in reversed(steps) if reverse else steps:
        state = step(inner, state, w_hh, b_hh, w_hr)
        outs.append(state[0])
    return redispatch(_aten.stack.default, outs[::-1] if reverse else outs), state


def _network_calls(name: str, step: Callable, states: int) -> None:
    @lowers(name)
    def network(input: Any, *given: Any) -> Any:
        hx, (params, lengths, words, _, bias, layers, both, projection, batch_first, mixed) = (
            given[:states], given[states:],
        )  # fmt: skip
        if lengths is not None or words is not None or mixed or input.dtype in (dtypes.float16, dtypes.bfloat16):
            return whole(name, (input, *given))
        x = redispatch(_aten.transpose.int, input, 0, 1) if batch_first else input
        first, per = [redispatch(_aten.unbind.int, h, 0) for h in hx], 2 + 2 * bias + projection
        lasts = []
        for layer in range(layers):
            outs = []
            for d in range(1 + both):
                n = layer * (1 + both) + d
                weights = params[n * per : (n + 1) * per]
                out, last = _direction(step, x, tuple(h[n] for h in first), weights, bias, bool(d))
                outs.append(out)
                lasts.append(last)
            x = redispatch(_aten.cat.default, outs, 2) if both else outs[0]
        if batch_first:
            x = redispatch(_aten.transpose.int, x, 0, 1)
        return x, *(redispatch(_aten.stack.default, [last[i] for last in lasts]) for i in range(states))


def _shown_cell(name: str, step: Callable, states: int) -> None:
    @lowers(name)
    def cell(input: Any, *given: Any) -> Any:
        hx, (w_ih, w_hh, b_ih, b_hh, mixed) = given[:states], given[states:]
        if mixed or input.dtype in (dtypes.float16, dtypes.bfloat16):
            return whole(name, (input, *given))
        out = step(linear(input, w_ih, b_ih), hx, w_hh, b_hh, None)
        return out if states > 1 else out[0]


for _name, _step, _states in (
    ("_lstm", _lstm, 2), ("_lstm_in_steps", _lstm, 2), ("_gru", _gru, 1), ("_rnn_tanh", _plain(_aten.tanh.default), 1),
    ("_rnn_relu", _plain(_aten.relu.default), 1),
):  # fmt: skip
    _network_calls(_name, _step, _states)
    if _name != "_lstm_in_steps":
        _shown_cell(_name + "_cell", _step, _states)
