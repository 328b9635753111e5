"""Recurrent networks: every layer and direction of a call in one kernel, each a scan over the steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import result_layouts
from torchlike._base.dtypes import from_np, get_default_dtype
from torchlike._decl import rules
from torchlike._decl.op import op
from torchlike._ops._elementwise import is_reduced
from torchlike._ops.random import stays

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _affine(x, weight, bias):
    return _sums(x, weight.T, bias)


def _sums(x, weights, bias):
    """x @ weights + bias."""
    dtype = weights.dtype
    wide = np.float32 if is_reduced(weights) else dtype
    out = jnp.matmul(x.astype(dtype), weights, precision=lax.Precision.HIGHEST, preferred_element_type=wide)
    return (out if bias is None else out + bias.astype(wide)).astype(dtype)


def _across(weights):
    """``weights`` with those of the hidden state turned once, ahead of a loop: products are quicker so."""
    return weights | {"across": lax.optimization_barrier(weights["hh"].T)}


def _tanh(x):
    return jnp.tanh(x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(get_default_dtype().np))


def _relu(x):
    if jnp.iscomplexobj(x):
        raise NotImplementedError("rnn: the nonlinearity relu (clamp) is not supported for complex types; use tanh")
    return jnp.where(x > 0, x, jnp.where(x != x, x, 0))


def _simple(activate):
    def step(hidden, inner, weights):
        return (activate(inner + _sums(hidden[0], weights["across"], weights["b_hh"])),)

    return step


def _gru(hidden, inner, weights):
    """r and z gate the reset and the update; n is the proposal (Cho et al. 2014, the reset after the
    product)."""
    (h,) = hidden
    r_in, z_in, n_in = jnp.split(inner, 3, -1)
    r_hid, z_hid, n_hid = jnp.split(_sums(h, weights["across"], weights["b_hh"]), 3, -1)
    reset, update = jax.nn.sigmoid(r_in + r_hid), jax.nn.sigmoid(z_in + z_hid)
    proposal = jnp.tanh(n_in + reset * n_hid)
    return (proposal + update * (h - proposal),)


def _lstm(hidden, inner, weights):
    """Input, forget, cell and output gates (Hochreiter & Schmidhuber 1997, with forget gates)."""
    h, c = hidden
    h, c = _lstm_gated(inner + _sums(h, weights["across"], weights["b_hh"]), c)
    return (h if weights["hr"] is None else _affine(h, weights["hr"], None)), c


def _lstm_gates(sums):
    """Input, forget, cell and output gates from what comes in, side by side."""
    # the logistic of all, though one part is not needed: XLA for CPUs has no vector code for that of slices
    i, f, _, o = jnp.split(jax.nn.sigmoid(sums), 4, -1)
    return i, f, jnp.tanh(jnp.split(sums, 4, -1)[2]), o


def _lstm_gated(sums, c):
    i, f, g, o = _lstm_gates(sums)
    c = f * c + i * g
    return o * jnp.tanh(c), c


STEPS = {"LSTM": _lstm, "GRU": _gru, "RNN_TANH": _simple(_tanh), "RNN_RELU": _simple(_relu)}


def _direction(mode, x, hidden, weights, lengths, reverse):
    """(outputs [T, B, H], last hidden states) of one direction of one layer; x is [T, B, F]."""
    inner = _affine(x, weights["ih"], weights["b_ih"])
    hidden = tuple(h.astype(jnp.promote_types(h.dtype, inner.dtype)) for h in hidden)
    if mode == "LSTM" and weights["hr"] is None:  # h is computed from c, which may be wider
        hidden = hidden[0].astype(hidden[1].dtype), hidden[1]
    step, weights = STEPS[mode], _across(weights)

    def body(carry, item):
        new = step(carry, item[0], weights)
        if lengths is not None:  # a sequence that has ended (or not begun, in reverse) keeps its state
            running = (item[1] < lengths)[:, None]
            new = tuple(jnp.where(running, n, old) for n, old in zip(new, carry, strict=True))
            return new, jnp.where(running, new[0], 0)
        return new, new[0]

    times = lax.iota(np.int64, x.shape[0])
    last, out = lax.scan(body, hidden, (inner, times), reverse=reverse)
    return out, last


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _lstm_direction(reverse, x, hidden, weights):
    """As ``_direction`` of an LSTM, with the derivative that does the least in its loop."""
    return _direction("LSTM", x, hidden, weights, None, reverse)


def _lstm_kept(reverse, x, hidden, weights):
    """(what ``_direction`` gives, what the derivative reads: sums that go into the gates, and all states)."""
    inner, turned = _affine(x, weights["ih"], weights["b_ih"]), _across(weights)

    def body(carry, inner):
        sums = inner + _sums(carry[0], turned["across"], weights["b_hh"])
        new = _lstm_gated(sums, carry[1])
        return new, (sums, *new)

    last, (sums, hs, cs) = lax.scan(body, hidden, inner, reverse=reverse)
    return (hs, last), (x, hidden, weights, sums, hs, cs)


def _lstm_pulled(reverse, kept, grads):
    """The gradients of ``_lstm_direction``; those of the weights are one product each, behind the loop."""
    x, hidden, weights, sums, hs, cs = kept
    h_before, c_before = (_before(h, s, reverse) for h, s in zip(hidden, (hs, cs), strict=True))
    i, f, g, o = _lstm_gates(sums)
    tanh = jnp.tanh(cs)
    slopes = jnp.concatenate([g * i * (1 - i), c_before * f * (1 - f), i * (1 - g * g), tanh * o * (1 - o)], -1)

    def body(carry, item):
        (dh, dc), (out, slopes, into_c, f) = carry, item
        dh = dh + out
        dc = dc + dh * into_c
        dsums = jnp.concatenate([dc, dc, dc, dh], -1) * slopes
        return (jnp.matmul(dsums, weights["hh"], precision=lax.Precision.HIGHEST), dc * f), dsums

    dhidden, dsums = lax.scan(body, grads[1], (grads[0], slopes, o * (1 - tanh * tanh), f), reverse=not reverse)
    flat = dsums.reshape(-1, dsums.shape[-1])
    dbias = None if weights["b_ih"] is None else jnp.sum(flat, 0)
    dweights = {"ih": _outer(flat, x), "hh": _outer(flat, h_before), "b_ih": dbias, "b_hh": dbias, "hr": None}
    return jnp.matmul(dsums, weights["ih"], precision=lax.Precision.HIGHEST), dhidden, dweights


def _before(first, states, reverse):
    """The states [T, B, H] ahead of each step."""
    return jnp.concatenate([states[1:], first[None]] if reverse else [first[None], states[:-1]])


def _outer(grads, x):
    """grads.T @ x over all rows. XLA for CPUs takes twice as long where both matrices lie across, or the result."""
    x = lax.optimization_barrier(x.reshape(-1, x.shape[-1]).T)
    return lax.optimization_barrier(jnp.matmul(x, grads, precision=lax.Precision.HIGHEST)).T


_lstm_direction.defvjp(_lstm_kept, _lstm_pulled)


def _quick_direction(mode, x, hidden, weights, lengths, reverse):
    """As ``_direction``, to be differentiated once by jax."""
    plain = lengths is None and weights["hr"] is None and len({a.dtype for a in (x, *hidden, weights["hh"])}) == 1
    if mode == "LSTM" and plain and not is_reduced(x):
        return _lstm_direction(reverse, x, hidden, weights)
    return _direction(mode, x, hidden, weights, lengths, reverse)


def _named(flat, bias, projection):
    """The weights of one direction by name, from their order in PyTorch's lists."""
    names = ["ih", "hh", *(["b_ih", "b_hh"] if bias else []), *(["hr"] if projection else [])]
    return {"b_ih": None, "b_hh": None, "hr": None} | dict(zip(names, flat, strict=True))


def _dropped(x, words, layer, p):
    if words is None:
        return x
    words = jnp.asarray(words)
    # the layer's part of what was drawn, or a stream of its own for every layer
    words = words[layer] if words.dtype == bool else words.at[2].add(np.uint32(layer))
    p = jnp.asarray(p).astype(x.dtype)
    return jnp.where(stays(words, x.shape, p), x / (1 - p), 0)


def _goes_with(state, input, mixed):
    """Whether a hidden state is of the input's dtype, or of any that autocast casts."""
    return state.dtype == input.dtype or mixed and state.dtype.itemsize < 8 and input.dtype.itemsize < 8


def _check(mode, input, hx, params, mixed):
    gates = _GATES[mode]
    for p in params:
        if p.dtype != input.dtype:
            raise ValueError(
                f"RNN input dtype ({from_np(input.dtype)}) does not match weight dtype ({from_np(p.dtype)}). "
                f"Convert input: input.to({from_np(p.dtype)}), or convert model: "
                f"model.to({from_np(input.dtype)})"
            )
    for h in hx:
        if not _goes_with(h, input, mixed):
            raise RuntimeError(
                f"RNN: hidden state of {from_np(h.dtype)} for an input of {from_np(input.dtype)}; use .to()"
            )
    if not input.shape[0]:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    if params[0].shape[0] % gates or params[0].shape[1] != input.shape[-1]:
        raise RuntimeError(
            f"RNN: the first weight is {list(params[0].shape)}, which does not fit an input of size {list(input.shape)}"
        )


def _layers(mode, input, hx, params, lengths, words, p, bias, num_layers, bidirectional, projection, direction):
    """(outputs, last hidden states of every layer and direction); input is [T, B, F]."""
    per = 2 + 2 * bias + projection
    directions = 2 if bidirectional else 1
    x, lasts = input, []
    for layer in range(num_layers):
        outs = []
        for d in range(directions):
            n = layer * directions + d
            weights = _named(params[n * per : (n + 1) * per], bias, projection)
            out, last = direction(mode, x, tuple(h[n] for h in hx), weights, lengths, bool(d))
            outs.append(out)
            lasts.append(last)
        x = outs[0] if directions == 1 else jnp.concatenate(outs, -1)
        if layer < num_layers - 1:
            x = _dropped(x, words, layer, p)
    return x, [jnp.stack([last[i] for last in lasts]) for i in range(len(hx))]


def _call(mode, input, hx, params, lengths, words, p, bias, num_layers, bidirectional, projection, batch_first,
          mixed, direction=_direction):  # fmt: skip
    x = jnp.swapaxes(input, 0, 1) if batch_first else input
    _check(mode, x, hx, params, mixed)

    def run(x, hx, params, lengths, words, p):
        static = bias, num_layers, bidirectional, projection
        out, last = _layers(mode, x, hx, params, lengths, words, p, *static, direction)
        return (jnp.swapaxes(out, 0, 1) if batch_first else out, *last)

    values = x, tuple(hx), list(params), lengths, words, p
    if not is_reduced(input):
        return run(*values)
    return lax.platform_dependent(*values, cpu=functools.partial(_in_float32, run, projection), default=run)


def _in_float32(run, projection, x, hx, params, *rest):
    """What ``run`` computes of halves, rounded at the end: XLA on CPUs casts to and fro around every operation."""
    wide = jax.tree.map(lambda a: a.astype(np.float32), (x, hx, params))
    last = functools.reduce(jnp.promote_types, [h.dtype for h in hx], x.dtype)
    first = x.dtype if projection else last  # a projection is a product, of the weights' precision
    results = run(*wide, *rest)
    return (*(a.astype(first) for a in results[:2]), *(a.astype(last) for a in results[2:]))


# PyTorch has a class for the whole on CUDA only. On a CPU its products are of the lower precision, and what they are
# added to, the state, is as it came (``mixed``: it may be of another dtype than the rest): so is the result.
_OF_STATES = {"cpu": "states", "cuda": "lower_precision_fp"}
_TAIL = (
    "Tensor? lengths, Tensor? words, float dropout, bool has_biases, int num_layers, bool bidirectional, "
    "bool projection, bool batch_first, bool mixed"
)
_LAYOUT = {"layout": result_layouts.batches_second, "columns": (0,)}


def lstm(
    input,
    hx,
    cx,
    params,
    lengths,
    words,
    dropout,
    has_biases,
    num_layers,
    bidirectional,
    projection,
    batch_first,
    mixed,
):
    """(outputs, last h, last c) of an LSTM over input [T, B, F] ([B, T, F] with ``batch_first``)."""
    static = (has_biases, num_layers, bidirectional, projection, batch_first, mixed)
    return _call("LSTM", input, (hx, cx), params, lengths, words, dropout, *static)


def _lstm_gradients(grads, input, hx, cx, params, lengths, words, dropout, has_biases, num_layers, bidirectional,
                    projection, batch_first, mixed):  # fmt: skip
    static = (has_biases, num_layers, bidirectional, projection, batch_first, mixed)

    def run(input, hx, cx, params):
        return _call("LSTM", input, (hx, cx), params, lengths, words, dropout, *static, direction=_quick_direction)

    return rules.adjoint(run, input, hx, cx, params)(tuple(grads))


def _edges(states, order):
    """The edges of a stack: its last layer is first; ``order`` of the parts of a layer's direction."""

    def edges(has_biases, num_layers, bidirectional, projection):
        parts = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if has_biases else []), *["weight_hr"] * projection]
        layers = range(num_layers * (1 + bidirectional))
        places = [
            1 + states + layer * len(parts) + parts.index(p) for layer in layers[::-1] for p in order if p in parts
        ]
        return (*places, *range(1 + states))

    return edges


_IN_STEPS = "weight_hr", "bias_hh", "weight_hh", "bias_ih", "weight_ih"
_AT_ONCE = "weight_ih", "weight_hh", "bias_hh", "bias_ih"


def _declare_lstm(name, autocast, order, vjp=None):
    schema = f"{name}(Tensor input, Tensor hx, Tensor cx, Tensor[] params, {_TAIL}) -> (Tensor result0, Tensor "
    declare = op(
        f"{schema}result1, Tensor result2)",
        variants="",
        node="LstmBackward",
        autocast=autocast,
        vjp=vjp,
        jvp="kernel",
        edges=_edges(2, order),
        **_LAYOUT,
    )
    return declare(lstm)


def _declare(mode):
    def recurrent(
        input,
        hx,
        params,
        lengths,
        words,
        dropout,
        has_biases,
        num_layers,
        bidirectional,
        projection,
        batch_first,
        mixed,
    ):
        static = (has_biases, num_layers, bidirectional, projection, batch_first, mixed)
        return _call(mode, input, (hx,), params, lengths, words, dropout, *static)

    schema = f"_{mode.lower()}(Tensor input, Tensor hx, Tensor[] params, {_TAIL}) -> (Tensor result0, Tensor result1)"
    autocast = _OF_STATES if mode == "GRU" else "lower_precision_fp"
    edges = _edges(1, _IN_STEPS)
    return op(schema, variants="", node="StackBackward", autocast=autocast, edges=edges, **_LAYOUT)(recurrent)


recurrent = {mode: _declare(mode) for mode in ("GRU", "RNN_TANH", "RNN_RELU")}
# PyTorch's CPU has one function for plain sequences; packed ones and projections are made of products there
recurrent["LSTM"] = _declare_lstm("_lstm", "lower_precision_fp", _AT_ONCE, {"input, hx, cx, params": _lstm_gradients})
lstm_in_steps = _declare_lstm("_lstm_in_steps", _OF_STATES, _IN_STEPS)


def _cell_weights(w_ih, w_hh, b_ih, b_hh):
    return {"ih": w_ih, "across": w_hh.T, "b_ih": b_ih, "b_hh": b_hh, "hr": None}


def _check_cell(name, input, hx, w_ih, w_hh, gates, mixed):
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(f"input has inconsistent input_size: got {input.shape[1]} expected {w_ih.shape[1]} ({name})")
    if input.shape[0] != hx[0].shape[0]:
        raise RuntimeError(
            f"Input batch size {input.shape[0]} doesn't match hidden0 batch size {hx[0].shape[0]} ({name})"
        )
    for i, h in enumerate(hx):
        if h.shape[1] != w_hh.shape[1]:
            raise RuntimeError(
                f"hidden{i} has inconsistent hidden_size: got {h.shape[1]}, expected {w_hh.shape[1]} ({name})"
            )
        if h.shape[0] != input.shape[0]:
            raise RuntimeError(
                f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size {h.shape[0]} ({name})"
            )
    if w_ih.shape[0] != gates * w_hh.shape[1]:
        raise RuntimeError(f"{name}: weight_ih has {w_ih.shape[0]} rows, expected {gates} * {w_hh.shape[1]}")
    if input.dtype != w_ih.dtype or not _goes_with(hx[0], input, mixed):
        raise RuntimeError(
            f"{name}: mat1 and mat2 must have the same dtype, but got {from_np(input.dtype).scalar_name} "
            f"input, {from_np(hx[0].dtype).scalar_name} hidden state and {from_np(w_ih.dtype).scalar_name} "
            "weights"
        )


@op("_lstm_cell(Tensor input, Tensor hx, Tensor cx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, "
    "bool mixed) -> (Tensor result0, Tensor result1)", variants="",
    node="MulBackward", autocast=_OF_STATES, edges=lambda: (2, 5, 0, 3, 6, 1, 4))  # fmt: skip
def lstm_cell(input, hx, cx, w_ih, w_hh, b_ih, b_hh, mixed):
    """One step of an LSTM: (h, c)."""
    _check_cell("lstm_cell", input, (hx, cx), w_ih, w_hh, 4, mixed)
    return _lstm((hx, cx), _affine(input, w_ih, b_ih), _cell_weights(w_ih, w_hh, b_ih, b_hh))


def _declare_cell(name, mode, node):
    def cell(input, hx, w_ih, w_hh, b_ih, b_hh, mixed):
        _check_cell(name, input, (hx,), w_ih, w_hh, _GATES[mode], mixed)
        return STEPS[mode]((hx,), _affine(input, w_ih, b_ih), _cell_weights(w_ih, w_hh, b_ih, b_hh))[0]

    schema = (
        f"_{name}(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, bool mixed) -> Tensor"
    )
    order = (5, 1, 3, 4, 0, 2) if mode == "GRU" else (4, 0, 2, 5, 1, 3)
    autocast = _OF_STATES if mode == "GRU" else "lower_precision_fp"
    return op(schema, variants="", node=node, autocast=autocast, edges=lambda: order)(cell)


gru_cell = _declare_cell("gru_cell", "GRU", "AddBackward")
rnn_tanh_cell = _declare_cell("rnn_tanh_cell", "RNN_TANH", "TanhBackward")
rnn_relu_cell = _declare_cell("rnn_relu_cell", "RNN_RELU", "ReluBackward")
