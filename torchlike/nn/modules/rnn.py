"""Recurrent layers and cells."""

import math
import numbers
import warnings

from torchlike._core.conversion.factories import empty, zeros
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.recurrent import two_states
from torchlike.nn.modules._start import uniform
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter
from torchlike.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Deprecated: ``tensor.index_select(dim, permutation)``."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead",
        category=FutureWarning,
        stacklevel=2,
    )
    return tensor.index_select(dim, permutation)


class RNNBase(Module):
    """What RNN, LSTM and GRU share: weights of every layer and direction, and the checks of a call.

    The parameters of layer k are ``weight_ih_lk``, ``weight_hh_lk``, ``bias_ih_lk``, ``bias_hh_lk`` (and
    ``weight_hr_lk`` with projections), with the suffix ``_reverse`` for the other direction. All start
    uniform in +-1 / sqrt(hidden_size).
    """

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional",
        "proj_size",
    ]  # fmt: skip

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout) if _is_share(dropout) else dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_arguments()
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: 1 + bidirectional]:
                self._add_direction(layer, suffix, {"device": device, "dtype": dtype})
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.reset_parameters()

    def _check_arguments(self):
        if not _is_share(self.dropout):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if self.dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
                f"expects num_layers greater than 1, but got dropout={self.dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name, kind in (("input_size", int), ("hidden_size", int), ("bias", bool), ("batch_first", bool)):
            if not isinstance(getattr(self, name), kind):
                found = type(getattr(self, name)).__name__
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {found}")
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {self.mode}")

    def _add_direction(self, layer, suffix, factory):
        out = self.proj_size or self.hidden_size
        rows = _GATES[self.mode] * self.hidden_size
        width = self.input_size if layer == 0 else out * (2 if self.bidirectional else 1)
        shapes = {"weight_ih": (rows, width), "weight_hh": (rows, out)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        names = []
        for name, shape in shapes.items():
            names.append(f"{name}_l{layer}{suffix}")
            self.register_parameter(names[-1], Parameter(empty(shape, **factory)))
        self._all_weights.append(names)

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            uniform(weight, bound)

    def flatten_parameters(self) -> None:
        """Nothing: there is no better layout of the weights to go to."""

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def __getstate__(self):
        return {**super().__getstate__(), "_flat_weights": self._flat_weights}  # which PyTorch's keeps

    def __setstate__(self, state):
        super().__setstate__({name: value for name, value in state.items() if name != "_flat_weights"})

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of every layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        usual = (
            ("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
            ("bidirectional", False),
        )  # fmt: skip
        parts += [f"{name}={getattr(self, name)}" for name, value in usual if getattr(self, name) != value]
        return ", ".join(parts)

    # -- checks ----------------------------------------------------------------------------------
    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """RuntimeError unless ``input`` has ``input_size`` features and the right rank."""
        rank = 2 if batch_sizes is not None else 3
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """(layers * directions, batch, features) of the hidden state."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0) if self.batch_first else input.size(1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, self.proj_size or self.hidden_size

    def check_hidden_size(self, hx: Tensor, expected_hidden_size, msg: str = "Expected hidden size {}, got {}") -> None:
        """RuntimeError unless the hidden state has the expected size."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden, batch_sizes: Tensor | None) -> None:
        """Check the input and the hidden state of a call."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation: Tensor | None):
        """The hidden state with its batch in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # -- the call --------------------------------------------------------------------------------
    def _unbatched_hidden(self, hx, batched):
        if hx.dim() != (3 if batched else 2):
            kind, n = ("batched 3-D", 3) if batched else ("unbatched 2-D", 2)
            raise RuntimeError(f"For {kind} input, hx should also be {n}-D but got {hx.dim()}-D tensor")
        return hx if batched else hx.unsqueeze(1)

    def _first_hidden(self, input, batch):
        directions = 2 if self.bidirectional else 1
        shape = (self.num_layers * directions, batch, self.proj_size or self.hidden_size)
        return (zeros(shape, dtype=input.dtype, device=input.device),)

    def _states(self, hx):
        """The hidden state as a tuple."""
        return (hx,)

    def forward(self, input, hx=None):
        """(output, hidden state); see the class."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(f"{self._kind}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        if hx is not None:
            hx = self._unbatched_hidden(hx, batched)
        x = input if batched else input.unsqueeze(0 if self.batch_first else 1)
        states = self._first_hidden(x, x.size(0 if self.batch_first else 1)) if hx is None else self._states(hx)
        self.check_forward_args(x, states[0] if len(states) == 1 else states, None)
        out, *last = self._run((x,), states, self.batch_first)
        if not batched:
            out, last = out.squeeze(0 if self.batch_first else 1), [h.squeeze(1) for h in last]
        return out, self._result(last)

    def _forward_packed(self, packed, hx):
        counts = packed.batch_sizes
        batch = int(counts[0])
        if hx is None:
            states = self._first_hidden(packed.data, batch)
        else:
            states = self._states(self.permute_hidden(hx, packed.sorted_indices))
        self.check_forward_args(packed.data, states[0] if len(states) == 1 else states, counts)
        data, *last = self._run((packed.data, counts), states)
        hidden = self.permute_hidden(self._result(last), packed.unsorted_indices)
        return PackedSequence(data, counts, packed.sorted_indices, packed.unsorted_indices), hidden

    def _run(self, input, states, *batch_first):
        hx = states if len(states) > 1 else states[0]
        rest = self.bias, self.num_layers, self.dropout, self.training, self.bidirectional
        return FUNCTIONS[self.mode.lower()](*input, hx, self._flat_weights, *rest, *batch_first)

    def _result(self, last):
        return last[0]

    @property
    def _kind(self):
        return self.mode.partition("_")[0]


def _is_share(x) -> bool:
    return isinstance(x, numbers.Number) and not isinstance(x, bool) and 0 <= x <= 1


class RNN(RNNBase):
    """Layers of ``h = tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)``, step by step.

    Args:
        input_size, hidden_size: features of the input and of the hidden state.
        num_layers: layers, each reading the outputs of the one below.
        nonlinearity: ``'tanh'`` or ``'relu'``.
        batch_first: input and output are [B, T, F] rather than [T, B, F].
        dropout: probability of dropping an output on its way to the next layer, in training.
        bidirectional: a second set of weights reads backwards; outputs are joined.

    ``forward(input, h_0=None)`` gives (outputs [T, B, directions * hidden_size], last hidden state
    [layers * directions, B, hidden_size]). The input may be a packed sequence, or lack the batch.

    >>> import torchlike as torch
    >>> output, last = torch.nn.RNN(10, 20, 2)(torch.ones(5, 3, 10))
    >>> output.shape, last.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args, **kwargs) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{self.nonlinearity.upper()}", *args, **kwargs)


class GRU(RNNBase):
    """Layers of gated recurrent units (Cho et al. 2014); arguments and shapes as of :class:`RNN`.

    >>> import torchlike as torch
    >>> output, last = torch.nn.GRU(10, 20, batch_first=True)(torch.ones(3, 5, 10))
    >>> output.shape, last.shape
    (torch.Size([3, 5, 20]), torch.Size([1, 3, 20]))
    """

    def __init__(self, *args, **kwargs) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Layers of long short-term memory (Hochreiter & Schmidhuber 1997); arguments as of :class:`RNN`.

    ``proj_size`` > 0 projects the hidden state to that size. ``forward(input, (h_0, c_0)=None)`` gives
    (outputs, (last h, last c)).

    >>> import torchlike as torch
    >>> output, (h, c) = torch.nn.LSTM(10, 20, bidirectional=True)(torch.ones(5, 3, 10))
    >>> output.shape, h.shape, c.shape
    (torch.Size([5, 3, 40]), torch.Size([2, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """(layers * directions, batch, hidden_size) of the cell state."""
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        expected = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx, permutation: Tensor | None):
        return hx if permutation is None else tuple(h.index_select(1, permutation) for h in hx)

    def _unbatched_hidden(self, hx, batched):
        h, c = hx[0], hx[1]
        n = 3 if batched else 2
        if h.dim() != n or c.dim() != n:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {n}-D but got ({h.dim()}-D, {c.dim()}-D) tensors"
            )
        return (h, c) if batched else (h.unsqueeze(1), c.unsqueeze(1))

    def _first_hidden(self, input, batch):
        shape = (self.num_layers * (2 if self.bidirectional else 1), batch, self.hidden_size)
        return (*super()._first_hidden(input, batch), zeros(shape, dtype=input.dtype, device=input.device))

    def _states(self, hx):
        return tuple(hx)

    def _result(self, last):
        return tuple(last)


class RNNCellBase(Module):
    """What the cells share: their weights and the batching of a step."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device=None, dtype=None) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew: uniform in +-1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            uniform(weight, bound)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            parts.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(parts)

    def _batch(self, input, states):
        """(input [B, F], states [B, H], whether they had a batch)."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for h in states:
            if h.dim() not in (1, 2):
                raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {h.dim()}D instead")
        batched = input.dim() == 2
        if batched:
            return input, states, True
        return input.unsqueeze(0), tuple(h.unsqueeze(0) for h in states), False

    def _zeros(self, input):
        shape = (*input.shape[:-1], self.hidden_size)
        return zeros(shape, dtype=input.dtype, device=input.device)

    def _weights(self):
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _step(self, cell, input, hx):
        hx = self._zeros(input) if hx is None else hx
        x, (h,), batched = self._batch(input, (hx,))
        if h.dim() == 1:
            h = h.unsqueeze(0)
        out = FUNCTIONS[cell](x, h, *self._weights())
        return out if batched else out.squeeze(0)


class RNNCell(RNNCellBase):
    """One step ``tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)``, or with ``nonlinearity='relu'``.

    >>> import torchlike as torch
    >>> torch.nn.RNNCell(10, 20)(torch.ones(3, 10)).shape
    torch.Size([3, 20])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        cells = {"tanh": "rnn_tanh_cell", "relu": "rnn_relu_cell"}
        if self.nonlinearity not in cells:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(cells[self.nonlinearity], input, hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM: ``forward(input, (h, c)=None)`` gives (h, c).

    >>> import torchlike as torch
    >>> h, c = torch.nn.LSTMCell(10, 20)(torch.ones(3, 10))
    >>> h.shape, c.shape
    (torch.Size([3, 20]), torch.Size([3, 20]))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        states = (self._zeros(input),) * 2 if hx is None else tuple(hx)
        x, states, batched = self._batch(input, states)
        if hx is not None:
            two_states(hx)  # refuses a tensor of two rows
        states = tuple(h.unsqueeze(0) if h.dim() == 1 else h for h in states)
        h, c = FUNCTIONS["lstm_cell"](x, states, *self._weights())
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit.

    >>> import torchlike as torch
    >>> torch.nn.GRUCell(10, 20)(torch.ones(3, 10)).shape
    torch.Size([3, 20])
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("gru_cell", input, hx)
