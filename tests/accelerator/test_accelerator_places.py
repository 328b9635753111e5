"""What is computed where, when the CPU is not the only device. Elsewhere ``test_second_cpu`` runs these."""

import numpy as np
import pytest
import torch

import torchlike as T
from torchlike._base.device import is_present
from torchlike._core.tensor.tensor import value_of

PLACE = next((kind for kind in ("cuda", "xla") if is_present(kind)), None)
pytestmark = pytest.mark.skipif(PLACE is None, reason="jax has no accelerator here")


def there(*size):
    return T.ones(*size, device=PLACE)


def number(x=2.0):
    return T.tensor(x)


# A tensor of the CPU without dimensions goes to the others.
NUMBERS = {
    "mul": lambda: there(3) * number(),
    "rmul": lambda: number() * there(3),
    "0 dims": lambda: there(3).sum() + number(),
    "where": lambda: T.where(there(3) > 0, there(3), number()),
    "clamp": lambda: there(3).clamp(min=number()),
    "lerp": lambda: there(3).lerp(there(3), number()),
    "addcmul": lambda: there(3).addcmul(there(3), number()),
    "pow": lambda: number() ** there(3),
    "maximum": lambda: T.maximum(there(3), number()),
    "add_": lambda: there(3).add_(number(), alpha=2),
    "masked_fill": lambda: there(3).masked_fill(there(3) > 0, number()),
    "fill_": lambda: there(3).fill_(number()),
    "foreach": lambda: T._foreach_mul([there(3), there(2)], number())[1],
    "foreach_": lambda: (x := there(3), T._foreach_mul_([x], number()))[0],
    "index": lambda: there(3)[T.tensor([0, 1])],
    "mask": lambda: there(3)[T.tensor([True, False, True])],
    "vmap": lambda: T.func.vmap(lambda x: x * number())(there(3, 2)),
    "grad": lambda: T.func.grad(lambda x: (x * number()).sum())(there(3)),
    "compiled": lambda: T.compile(lambda x: x * number())(there(3)),
    "compiled, read": lambda: compiled_with(number()),
    "compiled, made": lambda: T.compile(lambda x: T.zeros(2, device=x.device) + x)(there(2)),
    "compiled of nothing": lambda: T.compile(lambda: T.ones(3, device=PLACE) + 1)(),
    "compiled branch": lambda: T.compile(lambda x: x * 2 if (x * 2).device.type == PLACE else x.cpu())(there(3)),
    "rand": lambda: T.compile(lambda x: x + T.rand(3, device=x.device))(there(3)),
    "from jax": lambda: T.from_jax_array(value_of(there(3)) * 2),
}


def compiled_with(n):
    return T.compile(lambda x: x * n)(there(3))


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_go_there(name):
    out = NUMBERS[name]()
    assert out.device.type == PLACE and value_of(out).committed


STAYS = {
    "ones": lambda: T.ones(3),
    "zeros, often": lambda: [T.zeros(3) for _ in range(8)][-1],
    "rand": lambda: T.rand(3),
    "sum": lambda: T.ones(3) + 1,
    "compiled": lambda: T.compile(lambda x: x * 2)(T.ones(3)),
    "compiled of nothing": lambda: T.compile(lambda: T.ones(3) + 1)(),
    "compiled, moved": lambda: T.compile(lambda x: (x * 2).cpu() + 1)(there(3)),
    "compiled, new": lambda: T.compile(lambda x: T.ones(3))(there(3)),
    "from_numpy": lambda: within(lambda: T.from_numpy(np.ones(3))),
    "frombuffer": lambda: within(lambda: T.frombuffer(bytearray(8), dtype=T.uint8)),
    "a state": lambda: T.get_rng_state(),
    "bytes": lambda: T.tensor(T.UntypedStorage([1] * 8)),
    "indexed": lambda: T.ones(3)[T.tensor([0])],
    "copy_": lambda: T.ones(3).copy_(there(3)),
}


def within(f):
    with T.device(PLACE):
        return f()


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_on_the_cpu(name):
    out = STAYS[name]()
    assert out.device.type == "cpu" and out.numpy() is not None


REFUSED = {
    "add": lambda: there(3) + T.ones(3),
    "add, recorded": lambda: (there(3) * 2) + (T.ones(3) * 2),
    "cat": lambda: T.cat([there(3), T.ones(3)]),
    "stack": lambda: T.stack([there(3).sum(), number()]),
    "matmul": lambda: there(3, 3) @ T.ones(3, 3),
    "linear": lambda: T.nn.functional.linear(there(2, 3), T.ones(4, 3)),
    "a model left behind": lambda: T.nn.Linear(3, 2)(there(1, 3)),
    "embedding": lambda: T.nn.functional.embedding(T.tensor([0]), there(3, 3)),
    "labels": lambda: T.nn.functional.cross_entropy(there(3, 3), T.tensor([0, 1, 2])),
    "gather": lambda: there(3).gather(0, T.tensor([0])),
    "equal": lambda: T.equal(there(3), T.ones(3)),
    "isin": lambda: T.isin(there(3), T.ones(3)),
    "in place": lambda: T.ones(()).add_(there(1).sum()),
    "out": lambda: T.add(there(3), there(3), out=T.empty(3)),
    "seed": lambda: (there(3).requires_grad_() * 2).backward(T.ones(3)),
    "compiled": lambda: T.compile(lambda x, y: x + y)(there(3), T.ones(3)),
    "generator": lambda: T.rand(3, generator=T.Generator(device=PLACE)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    with pytest.raises(RuntimeError, match="same device|expected device|have device|device type"):
        REFUSED[name]()


def test_gradients_of_numbers_of_the_cpu():
    for transform in (lambda f: f, T.compile):
        p = T.nn.Parameter(T.tensor(3.0))
        out = transform(lambda x, p=p: (x * p).sum())(there(3))
        out.backward()
        assert p.grad.device.type == "cpu" and p.grad.item() == 3

        def step(x, p=p):
            (x * p).sum().backward()

        transform(step)(there(3))
        assert p.grad.device.type == "cpu" and p.grad.item() == 6


@pytest.mark.parametrize("strides", [(1, 4), (8, 2)])
def test_a_copy_there_has_the_strides(strides):
    x, like = (t.arange(16.0).as_strided((3, 4) if strides[0] == 1 else (2, 4), strides) for t in (T, torch))
    y = x[:, :3].to(PLACE) if strides[0] == 1 else x.to(PLACE)
    assert y.stride() == (like[:, :3] if strides[0] == 1 else like).to("meta").stride()
    assert y.cpu().tolist() == (x[:, :3] if strides[0] == 1 else x).tolist()


# Kernels that do not read what they are given, zeros in the place of missing gradients, seeds.
UNREAD = {
    "zero_": lambda t: t.zero_(),
    "fill_": lambda t: t.fill_(2),
    "isfinite": lambda t: t.long().isfinite(),
    "zeros_like": lambda t: T.zeros_like(t),
    "unique": lambda t: T.unique(t, return_counts=True)[1],
    "unique of nothing": lambda t: T.unique_consecutive(t[:0]),
    "new_full": lambda t: t.new_full((2,), 1.0),
    "recorded": lambda t: t.zero_() + 1,
    "a seed": lambda t: seen_by_a_hook(lambda x: x.sum(), t),
    "an implicit seed": lambda t: seen_by_a_hook(lambda x: x[:1].double(), t),
    "a missing gradient": lambda t: seen_by_a_hook(lambda x: Both.apply(x)[0].sum(), t),
    "a missing part": lambda t: seen_by_a_hook(lambda x: x.sort().values.unbind()[1], t),
    "no gradient at all": lambda t: given_nothing(t),
    "materialized": lambda t: T.autograd.grad(t.requires_grad_().sum(), T.ones_like(t, requires_grad=True),
                                             allow_unused=True, materialize_grads=True)[0],
    "create_graph": lambda t: with_graph(t),
    "a tangent": lambda t: T.func.jvp(lambda x: x.detach() * 2, (t,), (t,))[1],
}  # fmt: skip


class Both(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1, x * 2

    @staticmethod
    def backward(ctx, one, two):
        return two * 0 + one if two.device == one.device else None


def seen_by_a_hook(f, t):
    seen = []
    x = t.clone().requires_grad_()
    y = f(x)
    y.register_hook(seen.append)
    y.backward()
    assert x.grad.device == t.device
    return seen[0]


class Nothing(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return None


def given_nothing(t):
    x = t.clone().requires_grad_()
    Nothing.apply(Both.apply(x)[0]).sum().backward()
    return x.grad


def with_graph(t):
    x = t.clone().requires_grad_()
    with pytest.warns(UserWarning, match="reference cycle"):
        x.pow(2).sum().backward(create_graph=True)
    return x.grad


@pytest.mark.parametrize("place", ["cpu", PLACE])
@pytest.mark.parametrize("name", UNREAD)
def test_what_nothing_says_where_to_put(name, place):
    out = UNREAD[name](T.ones(3, device=place))
    assert out.device.type == place and value_of(out).committed
