"""Sequences of several lengths: padded to one tensor, or packed without padding."""

from collections import namedtuple
from collections.abc import Iterable

import numpy as np

from torchlike._base import device as devices
from torchlike._base import dtypes
from torchlike._core.conversion.convert import copied_array
from torchlike._core.conversion.factories import full
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.to_forms import parse_to
from torchlike._ops import packed as ops
from torchlike.interop.alias import missing_names

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip

_Fields = namedtuple("_Fields", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


class PackedSequence(_Fields):
    """Several sequences, longest first, their steps interleaved without padding.

    Attributes:
        data: [total, *], the first steps of all sequences, then the second ones...
        batch_sizes: how many sequences have a t-th step, int64 on the CPU.
        sorted_indices, unsorted_indices: the order of the sequences, and the inverse; or None.

    Made by :func:`pack_padded_sequence` and :func:`pack_sequence`.
    """

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if batch_sizes is None:
            if not (isinstance(data, list | tuple) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created "
                "manually. They should be instantiated by functions like pack_sequence and "
                "pack_padded_sequence in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs) -> "PackedSequence":
        """With ``data`` moved or cast as by ``Tensor.to``; itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        where = parse_to(args, kwargs).device or data.device
        order = (None if t is None else t.to(where) for t in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, *order)

    def cpu(self) -> "PackedSequence":
        """On the CPU."""
        return self.to(devices.device("cpu"))

    def cuda(self, device=None) -> "PackedSequence":
        """On a GPU."""
        return self.to(devices.device("cuda" if device is None else device))

    def double(self) -> "PackedSequence":
        """With ``data`` in float64."""
        return self.to(dtypes.float64)

    def float(self) -> "PackedSequence":
        """With ``data`` in float32."""
        return self.to(dtypes.float32)

    def half(self) -> "PackedSequence":
        """With ``data`` in float16."""
        return self.to(dtypes.float16)

    def long(self) -> "PackedSequence":
        """With ``data`` in int64."""
        return self.to(dtypes.int64)

    def int(self) -> "PackedSequence":
        """With ``data`` in int32."""
        return self.to(dtypes.int32)

    def short(self) -> "PackedSequence":
        """With ``data`` in int16."""
        return self.to(dtypes.int16)

    def char(self) -> "PackedSequence":
        """With ``data`` in int8."""
        return self.to(dtypes.int8)

    def byte(self) -> "PackedSequence":
        """With ``data`` in uint8."""
        return self.to(dtypes.uint8)

    def pin_memory(self) -> "PackedSequence":
        """With ``data`` pinned, see :meth:`Tensor.pin_memory`."""
        return self._replace(data=self.data.pin_memory())

    def is_pinned(self) -> bool:
        """Whether ``data`` is pinned."""
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        """Whether ``data`` is on a GPU."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The order that undoes ``permutation``; None for None.

    >>> import torchlike as torch
    >>> torch.nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def _batch_sizes(lengths: np.ndarray) -> np.ndarray:
    return np.array([(lengths > t).sum() for t in range(int(lengths[0]))], np.int64)


def pack_padded_sequence(input, lengths, batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """Pack padded sequences [T, B, *] ([B, T, *] with ``batch_first``).

    Args:
        lengths: of the sequences, a tensor or list.
        enforce_sorted: demand that they are in decreasing order; else they are put in it.

    Raises:
        RuntimeError: an empty input; a length below 1, or (``enforce_sorted``) the wrong order.

    >>> import torchlike as torch
    >>> packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor([[1, 2], [3, 0]]), [2, 1])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 2, 3]), tensor([2, 1]))
    """
    if not input.numel():
        raise RuntimeError(f"Cannot pack empty tensors: pack_padded_sequence got an input {list(input.shape)}")
    sizes = np.asarray(lengths.tolist() if isinstance(lengths, Tensor) else lengths, np.int64)
    if sizes.ndim != 1:
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {sizes.ndim}D")
    order = None
    if not enforce_sorted:
        places = np.argsort(-sizes, kind="stable")
        sizes, order = sizes[places], copied_array(places)
        input = input.index_select(0 if batch_first else 1, order.to(input.device))
    _check_lengths(sizes, input.shape[0 if batch_first else 1], input.shape[1 if batch_first else 0])
    counts = _batch_sizes(sizes)
    steps = input.transpose(0, 1) if batch_first else input
    rows = copied_array(ops.packed_rows(counts, steps.shape[1]))
    data = call(ops.pack, (steps, rows.to(input.device)), ())
    return PackedSequence(data, copied_array(counts), order)


def _check_lengths(sizes, batch, longest):
    if len(sizes) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={batch})"
        )
    if (sizes <= 0).any():
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if (np.diff(sizes) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
            "requirement if you do not need ONNX exportability."
        )
    if len(sizes) and sizes[0] > longest:
        raise RuntimeError(f"pack_padded_sequence: a length of {sizes[0]}, but the input has {longest} steps")


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """(padded sequences [T, B, *], their lengths) from a packed sequence.

    ``total_length``: pad to this number of steps rather than to the longest sequence.

    >>> import torchlike as torch
    >>> rnn = torch.nn.utils.rnn
    >>> packed = rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
    >>> rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))
    """
    counts = np.asarray(sequence.batch_sizes.tolist(), np.int64)
    longest = len(counts)
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}"
        )
    rows = ops.padded_rows(counts, total_length or longest)
    lengths = (counts[:, None] > np.arange(int(counts[0]))).sum(0)
    if sequence.unsorted_indices is not None:
        order = np.asarray(sequence.unsorted_indices.tolist(), np.int64)
        rows, lengths = rows[:, order], lengths[order]
    copied = batch_first and sequence.unsorted_indices is not None  # sequences in another order lie densely
    rows = copied_array(rows.T if copied else rows).to(sequence.data.device)
    padded = call(ops.pad, (sequence.data, rows, padding_value), ())
    return padded.transpose(0, 1) if batch_first and not copied else padded, copied_array(lengths)


def pad_sequence(
    sequences, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Tensors [L, *] of several lengths as one [T, B, *] ([B, T, *] with ``batch_first``), padded.

    >>> import torchlike as torch
    >>> torch.nn.utils.rnn.pad_sequence([torch.tensor([1, 2]), torch.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    sequences = sequences.unbind(0) if isinstance(sequences, Tensor) else tuple(sequences)
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    for i, s in enumerate(sequences):
        if not isinstance(s, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(s).__name__}")
    longest, rest = max(len(s) for s in sequences), tuple(sequences[0].shape[1:])
    shape = (len(sequences), longest, *rest) if batch_first else (longest, len(sequences), *rest)
    out = full(shape, padding_value, dtype=sequences[0].dtype, device=sequences[0].device)
    by_sequence = out if batch_first else out.transpose(0, 1)
    for i, s in enumerate(sequences):
        start = longest - len(s) if padding_side == "left" else 0
        by_sequence[i].narrow(0, start, len(s)).copy_(s)
    return out


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences [L, *] without their padding, as a list.

    >>> import torchlike as torch
    >>> torch.nn.utils.rnn.unpad_sequence(torch.tensor([[1, 3], [2, 0]]), torch.tensor([2, 1]))
    [tensor([1, 2]), tensor([3])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [s[:n] for s, n in zip(padded_sequences.unbind(), lengths.tolist(), strict=False)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of tensors [L, *]; see :func:`pack_padded_sequence`.

    >>> import torchlike as torch
    >>> torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = [len(s) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed sequence, as a list of tensors [L, *].

    >>> import torchlike as torch
    >>> rnn = torch.nn.utils.rnn
    >>> rnn.unpack_sequence(rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


__getattr__ = missing_names(__name__)
