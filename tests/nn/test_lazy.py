"""Lazy modules and tensors without a shape, on both libraries."""

import copy
import pickle

import pytest
from both import agree, agree_error
from story_kit import said, story

import torchlike

CASES = {
    "LazyLinear": (3,), "LazyConv1d": (4, 2), "LazyConv2d": (4, 2), "LazyConv3d": (4, 2), "LazyConvTranspose1d": (4, 2),
    "LazyConvTranspose2d": (4, 2), "LazyConvTranspose3d": (4, 2), "LazyBatchNorm1d": (), "LazyBatchNorm2d": (),
    "LazyBatchNorm3d": (), "LazyInstanceNorm1d": (), "LazyInstanceNorm2d": (), "LazyInstanceNorm3d": (),
}  # fmt: skip


def batch(t, name, n=2, channels=5):
    """An input of the layer ``name``."""
    dims = 0 if name == "LazyLinear" else int(name[-2])
    x = t.arange(float(n * channels * 4**dims), dtype=t.float64)
    return (x % 7 - 3).reshape(n, channels, *[4] * dims)


def told(t, m):
    """What can be said of a module that may be lazy."""
    lazy = t.nn.parameter.is_lazy
    tensors = {**m._parameters, **m._buffers}
    return (
        repr(m), type(m).__name__,
        [(k, "lazy" if lazy(v) else None if v is None else v.shape) for k, v in tensors.items()],
        len(m._forward_pre_hooks), len(m._load_state_dict_pre_hooks), list(m.state_dict()), m.training,
        sorted(k for k in m.__dict__ if not k.startswith("_")), hasattr(m, "has_uninitialized_params"),
    )  # fmt: skip


def filled(t, m):
    with t.no_grad():
        for p in m.parameters():
            p.copy_(((t.arange(p.numel()) * 7) % 11 / 4.0 - 1).reshape(p.shape))  # exact, whatever divides
    return m


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_layers(name, bias):
    def run(t):
        m = getattr(t.nn, name)(*CASES[name], bias=bias, dtype=t.float64)
        out = [told(t, m), m.cls_to_become.__name__, m.has_uninitialized_params()]
        parameters = list(m.parameters())
        shape = m(batch(t, name)).shape
        filled(t, m)
        y = m(batch(t, name))
        y.square().sum().backward()
        same = [a is b for a, b in zip(parameters, m.parameters(), strict=True)]
        return *out, shape, told(t, m), y, [p.grad for p in m.parameters()], m.state_dict(), same

    agree(run)


@pytest.mark.parametrize("name", CASES)
def test_state(name):
    def run(t):
        ordinary = getattr(t.nn, name[4:])
        args = (5, *CASES[name]) if CASES[name] else (5,)
        kwargs = {"affine": True, "track_running_stats": True} if "Norm" in name else {}
        given = filled(t, ordinary(*args, **kwargs).double())
        m = getattr(t.nn, name)(*CASES[name]).double()
        loaded = str(m.load_state_dict(given.state_dict()))
        out = [loaded, told(t, m)[1:3], said(lambda: m(batch(t, name)), "[^(]*"), told(t, m)]
        fresh = getattr(t.nn, name)(*CASES[name])
        out += [said(lambda: given.load_state_dict(fresh.state_dict()) and None, "Can't access the shape")]
        return *out, str(getattr(t.nn, name)(*CASES[name]).load_state_dict(fresh.state_dict()))

    agree(run)


@story
def test_other_forms(t):
    n = t.nn
    plain = n.LazyBatchNorm1d(affine=False, track_running_stats=False)
    grouped, unbatched = n.LazyConv2d(4, 2, groups=2), n.LazyConv2d(4, 2)
    up = n.LazyConvTranspose2d(4, 2, stride=2, groups=2)
    return (
        plain(t.ones(2, 3, 4)), repr(plain), grouped(t.ones(1, 4, 5, 5)).shape, repr(grouped),
        unbatched(t.ones(3, 5, 5)).shape, repr(unbatched), up(t.ones(1, 6, 5, 5), output_size=[11, 11]).shape, repr(up),
        up.weight.shape, grouped.weight.shape,
        repr(n.LazyConv1d(4, 3, 2, "valid", padding_mode="circular", bias=False)),
    )  # fmt: skip


@story
def test_models(t):
    m = t.nn.Sequential(t.nn.LazyLinear(3), t.nn.ReLU(), t.nn.LazyLinear(2)).eval()
    optimizer = t.optim.SGD(m.parameters(), lr=0.1)
    before = repr(m)
    m(t.ones(1, 4))
    filled(t, m)(t.ones(1, 4)).sum().backward()
    optimizer.step()
    return before, repr(m), m.state_dict(), m[0].training, isinstance(t.nn.LazyLinear(2), t.nn.Linear)


@story
def test_conversions(t):
    m = t.nn.LazyLinear(3).double()
    n = t.nn.LazyBatchNorm2d().to(t.float64)
    m(t.ones(1, 2, dtype=t.float64))
    return (
        m.weight.dtype,
        said(lambda: n.zero_grad()),
        n(t.ones(2, 3, 4, 4, dtype=t.float64)).dtype,
        n.running_var.dtype,
    )


@story
def test_copies(t):
    m = t.nn.LazyConv1d(4, 2)
    twin, other = copy.deepcopy(m), pickle.loads(pickle.dumps(t.nn.LazyLinear(2)))
    twin(t.ones(1, 3, 5))
    other(t.ones(1, 3))
    return told(t, m), told(t, twin), told(t, other)


@story
def test_lazy_modules_of_users(t):
    class Scale(t.nn.modules.lazy.LazyModuleMixin, t.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = t.nn.UninitializedParameter()
            self.register_buffer("b", t.nn.UninitializedBuffer())

        def initialize_parameters(self, x, scale=1):
            self.w.materialize(x.shape)
            self.b.materialize((scale,))
            with t.no_grad():
                self.w.fill_(scale)
                self.b.fill_(2)

        def forward(self, x, scale=1):
            return x * self.w + self.b.sum()

    m = Scale()
    before = told(t, m)
    return before, m(t.ones(3), scale=2), m(t.ones(3)), told(t, m), type(m) is Scale


def tensors(t):
    return t.nn.UninitializedParameter(), t.nn.UninitializedBuffer(dtype=t.float64)


@story
def test_tensors_without_a_shape(t):
    p, b = tensors(t)
    lazy, P = t.nn.parameter.is_lazy, t.nn.Parameter
    kinds = [isinstance(p, P), isinstance(b, P), isinstance(b, t.nn.Buffer), lazy(p), lazy(b), lazy(3)]
    out = [repr(p), repr(b), kinds, p.dtype, b.dtype, p.requires_grad, b.requires_grad, p.is_leaf, p.grad, p.is_meta]
    out += [p.device.type, p.is_floating_point(), p.to(t.float64).dtype, p.half().dtype, b.persistent, p.grad_fn]
    out += [repr(copy.deepcopy(p)), repr(pickle.loads(pickle.dumps(p))), repr(pickle.loads(pickle.dumps(b)))]
    p.tag = 3
    p.materialize((2, 3))
    b.materialize([4], dtype=t.int64)
    kinds = [type(p) is P, type(b) is t.Tensor, isinstance(b, t.nn.Buffer), lazy(p), p.tag, p.requires_grad]
    return out, p.shape, b.shape, b.dtype, kinds, (p * 2).shape, said(lambda: p.materialize((2,)))


@story
def test_modules_with_tensors_without_a_shape(t):
    m = t.nn.Module()
    m.p, m.b = t.nn.UninitializedParameter(), t.nn.UninitializedBuffer(persistent=False)
    m.register_buffer("c", t.nn.UninitializedBuffer())
    return list(m._parameters), list(m._buffers), m._non_persistent_buffers_set, m.double().p.dtype, repr(m.p)


def uses(name):
    return lambda t: {
        "+": lambda p: p + 1,
        "reflected": lambda p: t.ones(2) + p,
        "numel": lambda p: p.numel(),
        "clone": lambda p: p.clone(),
        "detach": lambda p: p.detach(),
        "requires_grad_": lambda p: p.requires_grad_(False),
        "matmul": lambda p: t.ones(2, 2) @ p,
        "function": lambda p: t.nn.functional.linear(t.ones(1, 2), p),
        "init": lambda p: t.nn.init.ones_(p),
        "bool": bool,
        "len": len,
        "cat": lambda p: t.cat([p, p]),
    }[name](tensors(t)[0])


USES = [
    "+",
    "reflected",
    "numel",
    "clone",
    "detach",
    "requires_grad_",
    "matmul",
    "function",
    "init",
    "bool",
    "len",
    "cat",
]


@pytest.mark.parametrize("name", USES)
def test_most_uses_are_errors(name):
    agree_error(uses(name), "Attempted to use an uninitialized parameter in .*manipulating `torch.nn.parameter.Unin")


def lazily(t, initialize):
    class Module(t.nn.modules.lazy.LazyModuleMixin, t.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = t.nn.UninitializedParameter()

        def forward(self, x):
            return x

    if initialize:
        Module.initialize_parameters = lambda self, x: None
    return Module()(t.ones(2))


ERRORS = {
    "shape": (lambda t: tensors(t)[0].shape, "Can't access the shape of an uninitialized parameter or buffer"),
    "buffer's shape": (lambda t: tensors(t)[1].shape, "Can't access the shape of an uninitialized parameter or buffer"),
    "sharing": (lambda t: tensors(t)[1].share_memory_(), "Can't share memory on an uninitialized"),
    "int": (lambda t: t.nn.UninitializedParameter(dtype=t.int64), "floating point and complex dtype can require grad"),
    "rank": (lambda t: t.nn.LazyConv2d(4, 2)(t.ones(2, 2)), r"Expected 3D \(unbatched\) or 4D \(batched\) input"),
    "groups": (lambda t: t.nn.LazyConv2d(4, 2, groups=2)(t.ones(1, 3, 5, 5)), "must be divisible by groups"),
    "norm's rank": (lambda t: t.nn.LazyBatchNorm1d()(t.ones(2)), "index out of range"),
    "not defined": (lambda t: lazily(t, False), "initialize_parameters is not implemented for Module"),
    "does nothing": (lambda t: lazily(t, True), "module Module has not been fully initialized"),
    "parametrized": (
        lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.LazyLinear(2)), "Can't access the shape of an uninit",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    agree_error(*ERRORS[case])


def test_a_failed_call_leaves_the_module_lazy():
    m = torchlike.nn.LazyConv2d(4, 2, groups=2)
    with pytest.raises(ValueError):
        m(torchlike.ones(1, 3, 5, 5))
    assert repr(m).startswith("LazyConv2d(0, 4") and m.has_uninitialized_params()
    assert m(torchlike.ones(1, 4, 5, 5)).shape == (1, 4, 4, 4)


def test_memory_is_not_shared_before_the_first_call():
    agree_error(lambda t: t.nn.LazyLinear(2).share_memory(), "Can't share memory on an uninitialized parameter")


def test_no_features():
    def run(t):
        x = t.ones(2, 3, requires_grad=True)
        y = t.nn.LazyLinear(0)(x)
        y.sum().backward()
        z = t.nn.Linear(0, 2)(t.ones(2, 2, 0))
        return y, x.grad, z.shape

    agree(run)


@story
def test_scripts_want_a_call_first(t):
    wrong = "LazyLinear' has uninitialized parameters weight. Did you forget to run a forward pass"
    lazy, inner = t.nn.LazyLinear(3), t.nn.Sequential(t.nn.LazyLinear(3))
    found = [said(lambda m=m: t.jit.script(m), wrong) for m in (lazy, inner)]
    lazy(t.ones(1, 2))
    return found, t.jit.script(lazy)(t.ones(1, 2)).shape
