"""Storages of their own over one array of NumPy's: what changes many tensors in one program sees that they meet."""

import numpy as np
import pytest
from both import agree


def _over_one_array(t):
    numbers = np.arange(6.0, dtype=np.float32)
    return numbers, [t.from_numpy(numbers), t.from_numpy(numbers), t.from_numpy(numbers[1:4])]


CASES = {
    "one number": lambda t, x, y, z: t._foreach_add_([x, y, z], 1),
    "many": lambda t, x, y, z: t._foreach_mul_([x, y], [x.clone(), y.clone()]),
    "read by the other": lambda t, x, y, z: t._foreach_add_([x, t.ones(6)], [t.ones(6), y]),
    "a part": lambda t, x, y, z: t._foreach_neg_([x, z]),
    "parts that touch": lambda t, x, y, z: t._foreach_add_([x[:3], y[3:]], 1),
    "scaled": lambda t, x, y, z: t._amp_foreach_non_finite_check_and_unscale_([x, y], t.zeros(1), t.tensor(0.5)),
    "rounded": lambda t, x, y, z: t._foreach_sqrt_([x, z, y]),
}


@pytest.mark.parametrize("name", CASES)
def test_lists(name):
    def program(t):
        numbers, tensors = _over_one_array(t)
        CASES[name](t, *tensors)
        return numbers.tolist(), tensors

    agree(program)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_parameters(name):
    def program(t):
        numbers, tensors = _over_one_array(t)
        params = [t.nn.Parameter(x) for x in tensors]
        optimizer = getattr(t.optim, name)(params, lr=0.1)
        for turn in range(2):
            for p in params:
                p.grad = t.full_like(p, turn + 1.0)
            optimizer.step()
        return numbers.tolist(), params

    agree(program)


def test_gradients():
    def program(t):
        numbers, tensors = _over_one_array(t)
        params = [t.nn.Parameter(t.ones_like(x)) for x in tensors]
        for p, g in zip(params, tensors, strict=True):
            p.grad = g
        return t.nn.utils.clip_grad_norm_(params, 1.0), numbers.tolist(), tensors

    agree(program)
