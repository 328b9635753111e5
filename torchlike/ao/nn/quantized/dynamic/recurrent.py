"""Recurrent layers of floats with quantized weights: inputs and states are quantized by their own ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlike import nn
from torchlike.ao._torch import torch
from torchlike.ao.nn.quantized._compute import dynamic_linear
from torchlike.ao.nn.quantized.dynamic.linear import reduces_range, weight_observer, weight_of
from torchlike.nn.utils.rnn import PackedSequence

State = tuple[Any, ...]


def _lstm(x: Any, h: Any, state: State) -> State:
    i, f, g, o = (x + h).chunk(4, 1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(x: Any, h: Any, state: State) -> State:
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), h.chunk(3, 1)
    z, n = (xz + hz).sigmoid(), (xn + (xr + hr).sigmoid() * hn).tanh()
    return ((state[0] - n) * z + n,)


def _tanh(x: Any, h: Any, state: State) -> State:
    return ((x + h).tanh(),)


def _relu(x: Any, h: Any, state: State) -> State:
    return ((x + h).relu(),)


class Weights(nn.Module):
    """The weights and biases of one layer and direction."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        super().__init__()
        self.param = values

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        if prefix + "param" in state_dict:
            self.param = state_dict.pop(prefix + "param")
            if not isinstance(self.param, tuple):
                raise NotImplementedError(
                    "load_state_dict(): packed weights of PyTorch's recurrent layers are not supported by torchlike; "
                    "load those of the layers of floats, and quantize them"
                )
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _get_name(self) -> str:
        return "PackedParameter"


def run(step: Callable[..., State], x: Any, state: State, w: tuple[Any, ...], backwards: bool) -> tuple[Any, State]:
    """One layer and direction over ``x`` [time, batch, features]: its outputs and its last state."""
    w_ih, w_hh, b_ih, b_hh = w
    inputs = dynamic_linear(x.reshape(-1, x.shape[-1]), w_ih, b_ih, reduce_range=reduces_range())
    inputs = inputs.reshape(*x.shape[:2], -1)
    times = range(x.shape[0])
    out = []
    for t in reversed(times) if backwards else times:
        state = step(inputs[t], dynamic_linear(state[0], w_hh, b_hh, reduce_range=reduces_range()), state)
        out.append(state[0])
    return torch.stack(out[::-1] if backwards else out), state


class RNNBase(nn.Module):
    """What both recurrent layers have in common."""

    _gates = 4
    _states = 2
    _step: Callable[..., State] = staticmethod(_lstm)

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, dtype: Any = torch.qint8,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.dtype, self.training = bidirectional, dtype, False
        self._all_weight_values = nn.ModuleList()

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
                            ("bidirectional", False)):  # fmt: skip
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Outputs [time, batch, features] and the last states, as of the layer of floats."""
        if isinstance(input, PackedSequence):
            raise NotImplementedError(f"{self._get_name()}: packed sequences are not supported by torchlike; pad them")
        with torch.no_grad():
            x = input.unsqueeze(0 if self.batch_first else 1) if input.ndim == 2 else input
            x = x.transpose(0, 1) if self.batch_first else x
            states = self._first(x, hx, input.ndim == 2)
            x, last = self._layers(x, states)
            x = x.transpose(0, 1) if self.batch_first else x
            if input.ndim == 2:
                x, last = x.squeeze(0 if self.batch_first else 1), tuple(s.squeeze(1) for s in last)
            return x, last[0] if self._states == 1 else last

    def _first(self, x: Any, hx: Any, flat: bool) -> State:
        count = self.num_layers * (2 if self.bidirectional else 1)
        if hx is None:
            return tuple(x.new_zeros(count, x.shape[1], self.hidden_size) for _ in range(self._states))
        given = (hx,) if self._states == 1 else tuple(hx)
        return tuple(s.unsqueeze(1) if flat else s for s in given)

    def _layers(self, x: Any, states: State) -> tuple[Any, State]:
        last, number, ways = [], 0, 2 if self.bidirectional else 1
        for layer in range(self.num_layers):
            out = []
            for way in range(ways):
                state = tuple(s[number] for s in states)
                y, end = run(self._step, x, state, self._all_weight_values[number].param, bool(way))
                out.append(y)
                last.append(end)
                number += 1
            x = torch.cat(out, 2) if ways == 2 else out[0]
            if self.dropout and self.training and layer < self.num_layers - 1:
                x = nn.functional.dropout(x, self.dropout)
        return x, tuple(torch.stack([end[i] for end in last]) for i in range(self._states))

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized layer of one with a ``qconfig``."""
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        observer = weight_observer(mod)
        new = cls(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
            mod.bidirectional, dtype=observer.dtype,
        )  # fmt: skip
        if getattr(mod, "proj_size", 0):
            raise NotImplementedError(f"{new._get_name()}: proj_size is not supported")
        for layer in range(mod.num_layers):
            for end in ("", "_reverse") if mod.bidirectional else ("",):
                new._all_weight_values.append(Weights(_values(mod, f"_l{layer}{end}")))
        return new

    def get_weight(self) -> dict[str, Any]:
        """The weights by their names."""
        return self._named("weight", 0)

    def get_bias(self) -> dict[str, Any]:
        """The biases by their names."""
        return self._named("bias", 2)

    def _named(self, kind: str, at: int) -> dict[str, Any]:
        found = {}
        for number, held in enumerate(self._all_weight_values):
            layer, back = divmod(number, 2) if self.bidirectional else (number, 0)
            for i, part in enumerate(("ih", "hh")):
                found[f"{kind}_{part}_l{layer}{'_reverse' if back else ''}"] = held.param[at + i]
        return found


def _values(mod: Any, end: str) -> tuple[Any, ...]:
    """The quantized weights and the biases of a layer of floats."""
    for name in ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if mod.bias else ())):
        torch.randn(getattr(mod, name + end).shape)  # PyTorch draws what it makes the weights of at first
    weights = []
    for name in ("weight_ih", "weight_hh"):
        weight, observer = getattr(mod, name + end), weight_observer(mod)
        observer(weight)
        weights.append(weight_of(weight, observer))
    biases = [getattr(mod, n + end).detach() if mod.bias else None for n in ("bias_ih", "bias_hh")]
    return (*weights, *biases)


class LSTM(RNNBase):
    """An LSTM with quantized weights.

    >>> import torchlike as torch
    >>> torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.LSTM(3, 4)))[0]
    DynamicQuantizedLSTM(3, 4)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """A GRU with quantized weights."""

    _gates, _states, _step = 3, 1, staticmethod(_gru)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


class _Cell(nn.Module):
    """One step of a recurrent layer with quantized weights."""

    _states, _step = 1, staticmethod(_tanh)

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = torch.qint8) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias, self.weight_dtype = input_size, hidden_size, bias, dtype
        self._values: tuple[Any, ...] = (None, None, None, None)

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next state of ``input`` [batch, features]."""
        with torch.no_grad():
            zeros = input.new_zeros(input.shape[0], self.hidden_size)
            state = (zeros,) * self._states if hx is None else (hx,) if self._states == 1 else tuple(hx)
            w_ih, w_hh, b_ih, b_hh = self._values
            h = dynamic_linear(state[0], w_hh, b_hh, reduce_range=reduces_range())
            new = self._step(dynamic_linear(input, w_ih, b_ih, reduce_range=reduces_range()), h, state)
            return new[0] if self._states == 1 else new

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized cell of one with a ``qconfig``."""
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        kind = weight_observer(mod).dtype
        new = cls(mod.input_size, mod.hidden_size, mod.bias, dtype=kind, **cls._more(mod))
        new._values = _values(mod, "")
        return new

    @staticmethod
    def _more(mod: Any) -> dict[str, Any]:
        return {}


class LSTMCell(_Cell):
    """One step of an LSTM with quantized weights."""

    _states, _step = 2, staticmethod(_lstm)


class GRUCell(_Cell):
    """One step of a GRU with quantized weights."""

    _step = staticmethod(_gru)


class RNNCell(_Cell):
    """One step of a plain recurrent layer with quantized weights."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", dtype: Any = torch.qint8
    ) -> None:
        super().__init__(input_size, hidden_size, bias, dtype)
        self.nonlinearity = nonlinearity
        self._step = _tanh if nonlinearity == "tanh" else _relu  # type: ignore[assignment]

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"

    @staticmethod
    def _more(mod: Any) -> dict[str, Any]:
        return {"nonlinearity": mod.nonlinearity}
