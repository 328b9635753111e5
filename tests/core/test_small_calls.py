"""Small calls that go a shorter way: numbers that come again, views made at once, writes of a place to itself."""

import math
import random

import pytest
import torch as theirs
from both import agree

import torchlike
from torchlike._base.bits import X64

LARGE = [2**31, -(2**63), 1e40] if X64 else []  # too large for 32 bits, and refused there


@pytest.mark.parametrize("number", [0.0, -0.0, 2, 2.0, True, -3, math.inf, math.nan, 1j, *LARGE[:2]])
@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64"])
def test_numbers_that_come_again(number, dtype):
    """The fifth call of an operator with a number gives what the first does, and its gradient, whatever came before."""

    def program(t):
        x = t.tensor([3, 0, 1]).to(getattr(t, dtype)).requires_grad_(dtype in ("float32", "complex64"))
        found = []
        for n in (0.0, 1, 1.0, True, number) * 5:
            y = x * n
            if y.requires_grad:
                found.append(t.autograd.grad(y.abs().sum(), x))
            found += [y, t.atan2(t.tensor(n * 1.0), t.tensor(-1.0)) if not isinstance(n, complex) else y]
        return found

    agree(program)


def item():
    kind = random.random()
    if kind < 0.35:
        return random.randint(-4, 4)
    if kind < 0.7:
        bounds = [random.choice([None, *range(-5, 6)]) for _ in range(2)]
        return slice(*bounds, random.choice([None, 1, 1, 2, 3]))
    return None if kind < 0.85 else ...


def test_views_of_several_indices():
    """Geometry, numbers, versions and what is written through views of views, at random indices."""
    random.seed(0)

    def story(t, shape, indices, grad):
        with t.set_grad_enabled(grad):
            base = t.arange(math.prod(shape), dtype=t.float32).reshape(shape)
            view = base
            try:
                for index in indices:
                    view = view[index]
            except IndexError:
                return "IndexError"
            found = [view.shape, view.stride(), view.storage_offset(), view.tolist(), view._base is base._base]
            if view.numel():
                view.fill_(-7.0)
                view[...] = 3
                view += 1
            return *found, base.tolist(), base._version, view._version

    for _ in range(200):
        shape = [random.choice([0, 1, 2, 3, 4, 4]) for _ in range(random.randint(0, 4))]
        indices = [tuple(item() for _ in range(random.randint(0, 4))) for _ in range(random.randint(1, 3))]
        if max(index.count(...) for index in indices) < 2:
            grad = random.random() < 0.5
            assert story(torchlike, shape, indices, grad) == story(theirs, shape, indices, grad), (shape, indices)


@pytest.mark.parametrize("index", [1, slice(1, 3), (slice(None), 0), (1, 2), (..., 2), [1, 2], (None, 1)])
def test_augmented_items(index):
    """``x[i] += y`` counts two changes, and is seen by whoever looks at them."""

    def program(t):
        x, w = t.ones(4, 4), t.tensor(2.0, requires_grad=True)
        views = [x.view(-1), x[1:]]
        before = x._version
        x[index] += 1
        x[index] *= 3
        changes = x._version - before
        y = w * t.ones(4, 4)
        y[index] += w
        y[index] = y[index]
        return x, changes, views, t.autograd.grad((y * x).sum(), w), y.grad_fn

    agree(program)


def test_strides_of_results_of_views():
    """Results of views lie as PyTorch's, at the first call and later."""

    def program(t):
        x = t.arange(24.0).reshape(2, 3, 4)
        views = [x, x.mT, x[:, 0], x[..., 0], x.permute(2, 0, 1), x[1:], x.expand(2, 3, 4), x[:, :1].expand(2, 3, 4)]
        return [[(-v).stride(), (v + 1).stride(), (v * v.contiguous()).stride()] for v in views * 2]

    agree(program)


@pytest.mark.parametrize(
    "f",
    [lambda b, x: b * x, lambda b, x: x * b, lambda b, x: b.float() * x, lambda b, x: (x > 0).to(x.dtype) * x,
     lambda b, x: (1 - b.float()) * x, lambda b, x: b.type_as(x) * x, lambda b, x: b * math.nan],
)  # fmt: skip
def test_false_times_infinity_is_nan(f):
    """However often it is computed, and in a program: XLA takes a product with what was a bool for a choice."""

    def program(t):
        b, x = t.tensor([True, False]), t.tensor([math.inf, -math.inf])
        compiled = t.compile(f) if t is torchlike else f
        return [f(b, x) for _ in range(70)][-1], [compiled(b, x) for _ in range(3)]

    agree(program)


CHOICES = [
    lambda t, x, m, i: x[m],
    lambda t, x, m, i: x[:, 1][m[:, 1]],
    lambda t, x, m, i: x[:, 0][i],
    lambda t, x, m, i: x[i[:2], 1],
    lambda t, x, m, i: x.mT[m.mT],
    lambda t, x, m, i: x.mT[:, i],
    lambda t, x, m, i: x[m[:, 0]],
    lambda t, x, m, i: x[m[0]],
    lambda t, x, m, i: x[1:][m[1:, 2]],
    lambda t, x, m, i: x[m.nonzero()[:, 0], 2],
    lambda t, x, m, i: x[i[1:], i[:-1]],
    lambda t, x, m, i: x[:, :, None][i[:1]],
    lambda t, x, m, i: x[i + 9],
    lambda t, x, m, i: x[:, 0][i[:2] + 9],
    lambda t, x, m, i: x.to(t.bfloat16)[m],
    lambda t, x, m, i: t.complex(x, x).conj()[m],
    lambda t, x, m, i: x.long()[m],
    lambda t, x, m, i: x[0][m[0]].item() if m[0].sum() == 1 else x[0, 0].item(),
    lambda t, x, m, i: x[1:3, ::2].tolist(),
    lambda t, x, m, i: x.mT[1].tolist(),
    lambda t, x, m, i: t.complex(x, x).conj()[0].tolist(),
    lambda t, x, m, i: t.complex(x, -x).conj().imag[0, 0].item(),
    lambda t, x, m, i: x.expand(2, 4, 3)[1, 2].tolist(),
    lambda t, x, m, i: x.unfold(0, 2, 1)[1].tolist(),
    lambda t, x, m, i: x[4:].tolist(),
    lambda t, x, m, i: x[1, 2:].item(),
    lambda t, x, m, i: x[0].item(),
]


@pytest.mark.parametrize("f", CHOICES)
@pytest.mark.parametrize("grad", [False, True])
def test_choices_of_few_elements(f, grad):
    """Values, strides, gradients and refusals of what is looked at in memory."""

    def program(t):
        x = (t.arange(12.0).reshape(4, 3) - 5.5).requires_grad_(grad)
        m, i = t.tensor([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 0]]).bool(), t.tensor([2, -1, 0])
        try:
            with t.set_grad_enabled(grad):
                y = f(t, x, m, i)
        except (IndexError, RuntimeError) as error:
            return type(error).__name__
        if not isinstance(y, t.Tensor):
            return y
        return y, y.stride(), y.grad_fn, t.autograd.grad(y.abs().sum(), x) if y.requires_grad else None

    agree(program)


@pytest.mark.parametrize("value", [2.5, 3, True, *LARGE[2:], math.nan, [1.0, 2.0], [1.0, 2.0, 3.0], [4.0]])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
def test_masks_of_few_elements_filled(value, dtype):
    def program(t):
        x = t.ones(4).to(getattr(t, dtype))
        view, m = x[1:], t.tensor([True, False, False, True])
        new = t.tensor(value) if isinstance(value, list) else value
        found = []
        for given in (new, new.to(x.dtype) if isinstance(value, list) else new):
            try:
                x[m] = given
                view[m[1:]] = 0
            except (RuntimeError, IndexError, TypeError) as error:
                found.append(type(error).__name__)
            found += [x.clone(), view.clone(), x._version]
        return found

    agree(program)


def test_masks_filled_with_history():
    def program(t):
        x, v = t.ones(4, requires_grad=True), t.tensor([5.0, 6.0], requires_grad=True)
        m = t.tensor([True, False, False, True])
        y = x * 2
        y[m] = 7.0
        z = t.zeros(4)
        z[m] = v
        return y, z, t.autograd.grad((y * z).sum() + y.sum() + z.sum(), (x, v)), y.grad_fn, z.grad_fn

    agree(program)


@pytest.mark.parametrize("grad", [False, True])
def test_strides_over_storages_of_one_shape(grad):
    """``as_strided`` reads the storage, which may lie in another order, or be shown by other steps, at one geometry."""

    def program(t):
        found = []
        for x in (t.arange(6.0).reshape(2, 3) * 1, t.arange(6.0).reshape(3, 2).t() * 1):
            x.requires_grad_(grad)
            for y in (x, x.t(), x.t().t(), x.reshape(6), x.t().reshape(6), x[:], x.view(1, *x.shape)[0]):
                z = y.as_strided((2, 2), (1, 2), 1)
                found += [z.tolist(), z.stride(), z.storage_offset()]
                if grad:
                    found.append(t.autograd.grad((z * z).sum(), x)[0].tolist())
        return found

    agree(program)
