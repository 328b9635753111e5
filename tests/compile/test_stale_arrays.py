"""What a compiled function writes to memory of arrays and buffers, or reads there; see test_stale."""

import operator

import numpy as np
import pytest
from stale_kit import never_stale, of_state

import torchlike as torch


def _both(value):
    t = torch.full((2,), value)
    return [t, t.numpy()]


def _then(effect, result):
    return result


# Writes through numpy: to an array that was there before.
WRITES = {
    "at": lambda x, s: _then(np.add.at(s, [0, 1], 1), x * torch.tensor(s)),
    "out": lambda x, s: _then(np.add(s, 1, out=s), x * torch.from_numpy(s)),
    "out_by_place": lambda x, s: _then(np.multiply(s, 2, s), x * float(s[0])),
    "out_of_a_sum": lambda x, s: _then(np.sum(s[None] + 1, 0, None, s), x * float(s[1])),
    "out_of_a_method": lambda x, s: _then(s.clip(0, 2, s), x * float(s[1])),
    "out_of_einsum": lambda x, s: _then(np.einsum("i->i", s + 1, out=s), x * float(s[1])),
    "copyto": lambda x, s: _then(np.copyto(s, s + 1), x * float(s[0])),
    "put": lambda x, s: _then(np.put(s, 0, s[0] + 1), x * float(s[0])),
    "sort": lambda x, s: _then(s.sort(), x * float(s[0])),
    "view": lambda x, s: _then(operator.setitem(s[1:], 0, s[1] + 1), x * float(s[1])),
    "reshaped": lambda x, s: _then(operator.setitem(s.reshape(2, 1), 0, s[0] + 1), x * float(s[0])),
    "transposed": lambda x, s: _then(operator.setitem(s.T, 0, s[0] + 1), x * float(s[0])),
    "flat": lambda x, s: _then(operator.setitem(s.flat, 0, s[0] + 1), x * float(s[0])),
    "split": lambda x, s: _then(np.split(s, 2)[0].fill(s[0] + 1), x * float(s[0])),
    "memoryview": lambda x, s: _then(operator.setitem(memoryview(s), 0, s[0] + 1), x * float(s[0])),
    "memoryview_read": lambda x, s: x * float(memoryview(s)[0]),
    "numpys_frombuffer": lambda x, s: _then(operator.iadd(np.frombuffer(s, np.float32), 1), x * float(s[0])),
    "in_place": lambda x, s: _then(operator.iadd(s, 1), x * float(s[0])),
}

# Writes through tensors over an array that was there before.
TENSORS = {
    "from_numpy": lambda x, s: _then(torch.from_numpy(s[1:]).mul_(2), x * float(s[1])),
    "as_tensor": lambda x, s: _then(torch.as_tensor(s).mul_(2), x * float(s[1])),
    "asarray": lambda x, s: _then(torch.asarray(s).mul_(2), x * float(s[1])),
    "dlpack": lambda x, s: _then(torch.from_dlpack(s).mul_(2), x * float(s[1])),
    "frombuffer": lambda x, s: _then(torch.frombuffer(s, dtype=torch.float32).mul_(2), x * float(s[1])),
    "read_first": lambda x, s: _then(float(s[0]), _then(torch.from_numpy(s).add_(1), x * s.tolist()[0])),
}

# A tensor and the array that ``numpy()`` gave of it: both are read, one is written.
BOTH = {
    "array_written": lambda x, s: _then(operator.setitem(s[1], 0, 9.0), x * s[0]),
    "array_added_to": lambda x, s: _then(operator.iadd(s[1], 1.0), x * s[0]),
    "tensor_written": lambda x, s: _then(s[0].add_(1), x * float(s[1].sum())),
    "tensor_written_view_read": lambda x, s: _then(s[1][1:], _then(s[0].add_(1), x * float(s[1][1:][0]))),
    "tensor_written_tensor_read": lambda x, s: _then(s[0].add_(1), x * torch.from_numpy(s[1])),
    "tensor_written_new_array": lambda x, s: _then(s[0].add_(1), x * float(s[0].numpy()[0])),
}

# Arrays that the function makes itself are its own.
OWN = {
    "a_copy": lambda x, s: x * torch.from_numpy(s.copy()),
    "a_copy_written": lambda x, s: x * torch.from_numpy(s.copy()).add_(1),
    "a_stack": lambda x, s: x * torch.from_numpy(np.stack([s, s])).sum(),
    "a_new_array_written": lambda x, s: x * torch.from_numpy(np.add(s, 1, out=np.zeros(2, np.float32))),
}


def _cases(table, make, change):
    return [pytest.param(make, f, [change], id=name) for name, f in table.items()]


@pytest.mark.parametrize(
    ("make", "f", "changes"),
    [
        *_cases(WRITES | TENSORS | OWN, lambda: np.array([5.0, 1.0], np.float32), lambda s: s.fill(4)),
        *_cases(BOTH, lambda: _both(1.0), lambda s: s[0].zero_()),
        *_cases({"array_filled": lambda x, s: x * s[0] + float(s[1][0])}, lambda: _both(1.0), lambda s: s[1].fill(9)),
        *_cases(
            {
                "bytearray": lambda x, s: _then(torch.frombuffer(s, dtype=torch.uint8).add_(1), x * s[0]),
                "bytearray_of_numpy": lambda x, s: _then(operator.iadd(np.frombuffer(s, np.uint8), 1), x * s[0]),
                "bytearray_in_a_memoryview": lambda x, s: _then(operator.setitem(memoryview(s), 0, s[0] + 1), x * s[0]),
            },
            lambda: bytearray(b"\1\2"),
            lambda s: operator.setitem(s, 0, 7),
        ),
    ],
)
def test_arrays_are_as_in_eager_code(make, f, changes):
    never_stale(of_state(make, f, changes))
