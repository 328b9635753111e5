"""torch.func.functionalize under make_fx: PyTorch's graphs, and the numbers of the function on other inputs."""

import random

import pytest
from both import agree, plain

import torchlike


def both_halves(x):
    a, b, _ = x.clone().split(1, 1)
    a.add_(b)
    return a, b


def rows(x):
    x[0].add_(1)
    x[1].mul_(2)


def of_view(x):
    y = x.view(6)
    x.add_(1)
    return y


def into(t):
    def f(x):
        y = t.empty(2, 3)
        t.add(x, 1, out=y)
        return y

    return f


def filled(t):
    def f(x):
        y = t.zeros(2, 3)
        y.copy_(x)
        return y

    return f


def turned(x):
    y = x.clone()
    y.t_()
    return y.add_(1)


def seen_by_another(x):
    y = x.clone()
    z = y.t()
    z.add_(1)
    return y, z


def first_row(x):
    y = x[0]
    y.mul_(2)
    return x + 1


def set_to(t):
    def f(x):
        y, z = x.clone(), x + 1
        y.set_(z)
        y.mul_(2)
        return z

    return f


def moved(x):
    x.t_()
    x.unsqueeze_(0)
    return x


TEXTS = {
    "clone": lambda t: lambda x: x.clone().add_(1), "argument": lambda t: lambda x: x.add_(1),
    "view of an argument": lambda t: first_row, "two views": lambda t: lambda x: x.clone().view(-1)[0:2].zero_(),
    "copy": filled, "base and view": lambda t: seen_by_another, "out": into, "split": lambda t: both_halves,
    "rows": lambda t: rows, "made before": lambda t: of_view, "turned": lambda t: turned,
    "column": lambda t: lambda x: x.clone()[:, 1].add_(2.0),
    "diagonal": lambda t: lambda x: x.clone().diagonal().fill_(3),
    "strided": lambda t: lambda x: x.clone().as_strided((2,), (1,)).add_(1), "relu": lambda t: lambda x: x.relu_(),
    "detach": lambda t: lambda x: x.select(0, 0).detach().add_(1),
    "squeeze": lambda t: lambda x: x[:, :1].squeeze(1).exp_(),
    "reshape": lambda t: lambda x: x.reshape(6).add_(1), "only views": lambda t: lambda x: (x.view(3, 2), x.T),
    "unbind": lambda t: lambda x: x.clone().unbind(1)[1].mul_(2), "promotion": lambda t: lambda x: x.add_(x.double()),
    "chunk": lambda t: lambda x: x.clone().chunk(2, 1)[1].mul_(2), "set": set_to,
    "strides of an argument": lambda t: moved,
    "permute": lambda t: lambda x: x.clone().unsqueeze(0).permute(1, 2, 0)[0].mul_(2),
}  # fmt: skip


def traced(t, f, x, remove="mutations"):
    return t.fx.experimental.proxy_tensor.make_fx(t.func.functionalize(f, remove=remove))(x)


def example(t):
    return t.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize("name", TEXTS)
def test_text(name, remove):
    agree(lambda t: traced(t, TEXTS[name](t), example(t), remove).code)


def kept(f, x):
    """What ``f`` gives, and what it leaves in its argument."""
    out = f(x)
    return plain([list(out) if isinstance(out, tuple) else out, x])


MORE = {
    "item": lambda x: (x.__setitem__(0, 5.0), x.__setitem__((slice(None), 1), x[:, 0] + 1), x * 2)[2],
    "index": lambda x: x.clone().index_put_((torchlike.tensor([0]),), torchlike.tensor(3.0)),
    "smaller": lambda x: x.clone().resize_(4).mul_(2), "fill": lambda x: (x.t()[1].fill_(2), x.sum())[1],
    "real": lambda x: torchlike.view_as_real(x.to(torchlike.complex64))[..., 0].mul_(2),
    "foreach": lambda x: (torchlike._foreach_add_([x[0], x[1]], 2.0), x * 1)[1],
    "norm": lambda x: torchlike.nn.functional.batch_norm(x, x[0].clone(), x[1].abs(), training=True),
    "gradient": lambda x: torchlike.func.grad(lambda y: (y.clone().mul_(y).sin_().sum()))(x),
    "vmap": lambda x: torchlike.func.vmap(lambda y: y.add_(1).sum())(x),
}  # fmt: skip


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize("name", [*(n for n in TEXTS if n != "strides of an argument"), *MORE])
def test_numbers_of_other_inputs(name, remove):
    """Also of what the argument is left with. Nothing but the copy at the end changes anything."""
    f = MORE[name] if name in MORE else TEXTS[name](torchlike)
    gm = traced(torchlike, f, example(torchlike), remove)
    x = example(torchlike) * 3 - 4
    assert kept(gm, x.clone()) == kept(f, x.clone())
    changing = [n.target for n in gm.graph.nodes if n.op == "call_function" and _changes(n.target)]
    assert changing in ([], [torchlike.ops.aten.copy_.default])


def _changes(target):
    return hasattr(target, "_schema") and target._schema.is_mutable and "batch_norm" not in str(target)


VIEWS = [
    lambda x: x[0], lambda x: x[..., 1:], lambda x: x.transpose(0, -1), lambda x: x.unsqueeze(1),
    lambda x: x.reshape(-1),
    lambda x: x.diagonal() if x.dim() > 1 else x, lambda x: x.chunk(2, -1)[0], lambda x: x.detach(),
    lambda x: x.unbind(0)[-1],
    lambda x: x.squeeze(), lambda x: x.movedim(0, -1), lambda x: x.view_as(x),
]  # fmt: skip
CHANGES = [
    lambda x, y: x.mul_(2), lambda x, y: x.add_(y.sum()), lambda x, y: x.sin_(), lambda x, y: x.copy_(y.mean()),
    lambda x, y: x.zero_(), lambda x, y: x.sub_(y.reshape(-1)[0] * 1),
]  # fmt: skip


def program(seed):
    """A function that makes views of views and changes them, of an argument and of a copy of it."""
    steps = random.Random(seed)
    plan = [(steps.random(), steps.random(), steps.choice(VIEWS), steps.choice(CHANGES)) for _ in range(10)]

    def f(x):
        tensors = [x, x * 2]
        for which, of, view, change in plan:
            t = tensors[int(which * len(tensors))]
            if of < 0.5:
                tensors.append(view(t) if t.dim() and 0 not in t.shape else t)
            else:
                change(t, tensors[int(of * len(tensors))])
        return tuple(t * 1 for t in tensors)

    return f


@pytest.mark.parametrize("seed", range(12))
def test_programs(seed):
    f = program(seed)
    given = torchlike.arange(24.0).reshape(2, 3, 4) / 8
    gm = traced(torchlike, f, given.clone(), "mutations_and_views" if seed % 2 else "mutations")
    other = given * -1 + 2
    got, want = other.clone(), other.clone()
    for a, b in zip([*gm(got), got], [*f(want), want], strict=True):
        assert torchlike.allclose(a, b, equal_nan=True)


def test_what_is_outside():
    """A tensor that the function closes over is written to in each call."""
    weight = torchlike.ones(3)
    gm = traced(torchlike, lambda x: x + weight.add_(1), torchlike.zeros(3))
    assert weight.tolist() == [2.0] * 3
    assert gm(torchlike.zeros(3)).tolist() == [3.0] * 3
    assert weight.tolist() == [3.0] * 3


def test_gradients_through_it():
    """Changes in place below torch.func.grad count."""

    def f(x):
        y = x.clone()
        y *= 3
        return (y.mul_(x).t() * y).sum()

    x = torchlike.tensor([1.0, 2.0])
    made = torchlike.fx.experimental.proxy_tensor.make_fx(torchlike.func.grad(torchlike.func.functionalize(f)))(x)
    other = torchlike.tensor([-3.0, 0.5])
    assert made(other).tolist() == torchlike.func.grad(f)(other).tolist()


REFUSED = {
    "shared": (lambda x, y: (x.add_(1), y + 1), lambda x: (x, x.view(-1))),
    "overlapping": (lambda x: x.unfold(0, 2, 1).mul_(2), lambda x: (x.view(-1),)),
    "grown": (lambda x: x.clone().resize_(9), lambda x: (x,)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    f, inputs = REFUSED[name]
    make = torchlike.fx.experimental.proxy_tensor.make_fx(torchlike.func.functionalize(f))
    with pytest.raises(NotImplementedError, match="functionalize"):
        make(*inputs(example(torchlike)))


def test_other_modes():
    """A mode around it sees functional calls too; what it returns for them is what the tensors are."""
    seen = []

    class Log(torchlike.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torchlike.ones(2)
    with Log():
        out = torchlike.func.functionalize(lambda x: x.add_(1).mul_(2))(x)
    assert seen == ["aten.add.Tensor", "aten.mul.Tensor", "aten.copy_.default"]
    assert out.tolist() == x.tolist() == [4.0, 4.0]


def test_set():
    """Without functionalize too, a tensor that is set to another one is the other one in the graph."""

    def graph(t):
        def f(x):
            y, z = x.clone(), x + 1
            y.set_(z)
            return y * 2

        return t.fx.experimental.proxy_tensor.make_fx(f)(t.ones(2)).code

    agree(graph)
