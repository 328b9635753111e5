"""Weight and spectral normalisation and orthogonal matrices, in both forms, on both libraries."""

import copy

import pytest
import torch
from both import agree, agree_error
from story_kit import said, story, warned

import torchlike

LAYERS = {
    "Linear": (lambda t: t.nn.Linear(3, 2), (4, 3)),
    "Conv1d": (lambda t: t.nn.Conv1d(3, 2, 2), (1, 3, 4)),
    "Conv2d": (lambda t: t.nn.Conv2d(3, 4, 2), (1, 3, 3, 3)),
    "ConvTranspose2d": (lambda t: t.nn.ConvTranspose2d(3, 4, 2), (1, 3, 3, 3)),
}


def filled(t, layer):
    """A layer in double precision with values that are not special."""
    module = LAYERS[layer][0](t).double()
    with t.no_grad():
        for p in module.parameters():
            p.copy_(((t.arange(p.numel(), dtype=t.float64) * 7) % 11 / 5 - 1).reshape(p.shape))
    return module


def seeded(t, m):
    """Buffers of power iterations that are the same in both libraries."""
    with t.no_grad():
        for name, b in m.named_buffers():
            if name.endswith(("u", "v")):
                b.copy_(t.nn.functional.normalize(t.arange(1.0, b.numel() + 1, dtype=t.float64) ** 0.5, dim=0))
    return m


def used(t, m, layer):
    """What two steps with the module give: results, gradients, state."""
    x = (t.arange(2.0**9, dtype=t.float64) % 13 / 6)[: t.Size(LAYERS[layer][1]).numel()].reshape(LAYERS[layer][1])
    out = []
    for _ in range(2):
        m.zero_grad()
        y = m(x)
        y.square().sum().backward()
        out += [y, [(n, p.grad) for n, p in m.named_parameters()], m.weight, m.weight.grad_fn]
    out += [m.eval()(x), m.state_dict(), [n for n, _ in m.named_buffers()], repr(m)]
    return out


NEW = {
    "weight_norm": lambda t, m, **k: t.nn.utils.parametrizations.weight_norm(m, **k),
    "spectral_norm": lambda t, m, **k: t.nn.utils.parametrizations.spectral_norm(m, **k),
    "old weight_norm": lambda t, m, **k: t.nn.utils.weight_norm(m, **k),
    "old spectral_norm": lambda t, m, **k: t.nn.utils.spectral_norm(m, **k),
}
REMOVE = {
    "old weight_norm": lambda t, m: t.nn.utils.remove_weight_norm(m),
    "old spectral_norm": lambda t, m: t.nn.utils.remove_spectral_norm(m),
}


def removed(t, m, kind):
    if kind in REMOVE:
        return REMOVE[kind](t, m)
    return t.nn.utils.parametrize.remove_parametrizations(m, "weight")


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("kind", NEW)
def test_layers(kind, layer):
    def run(t):
        m = seeded(t, NEW[kind](t, filled(t, layer)))
        out = used(t, m, layer)
        return out, removed(t, m, kind).state_dict(), type(m.weight).__name__, m._forward_pre_hooks, repr(m)

    agree(run)


@pytest.mark.parametrize("dim", [1, None, -1])
@pytest.mark.parametrize("kind", ["weight_norm", "old weight_norm"])
def test_dimensions(kind, dim):
    agree(lambda t: used(t, NEW[kind](t, filled(t, "Conv2d"), dim=dim), "Conv2d"))


@pytest.mark.parametrize("kind", ["spectral_norm", "old spectral_norm"])
def test_other_numbers_of_iterations(kind):
    agree(lambda t: used(t, seeded(t, NEW[kind](t, filled(t, "Conv1d"), n_power_iterations=3, dim=1)), "Conv1d"))


@story
def test_assigned_weights(t):
    out = []
    for kind in ("weight_norm", "spectral_norm"):
        m = seeded(t, NEW[kind](t, filled(t, "Linear")))
        m.weight = t.ones(2, 3, dtype=t.float64)
        out += [m.weight, m.state_dict()]
    return out


@story
def test_vectors(t):
    one = t.nn.utils.parametrizations.spectral_norm(filled(t, "Linear"), "bias")
    other = t.nn.utils.parametrizations.weight_norm(filled(t, "Linear"), "bias")
    return one.bias, one.state_dict(), other.bias, other.state_dict()


@story
def test_zero_weights(t):
    m = t.nn.Linear(2, 1, bias=False)
    with t.no_grad():
        m.weight.zero_()
    t.nn.utils.parametrizations.weight_norm(m).weight.sum().backward()
    return m.weight, [p.grad for p in m.parameters()]


@story
def test_state_of_the_older_form(t):
    old, new = (
        NEW["old weight_norm"](t, filled(t, "Linear")),
        t.nn.utils.parametrizations.weight_norm(t.nn.Linear(3, 2)),
    )
    return str(new.load_state_dict(old.state_dict())), new.weight


@story
def test_state_of_the_first_version(t):
    m = seeded(t, NEW["old spectral_norm"](t, filled(t, "Linear")))
    state = {k: v.clone() for k, v in m.state_dict().items() if k != "weight_v"}
    out = [said(lambda: m.load_state_dict(dict(state)))]
    out += [str(m.load_state_dict({**state, "weight": state["weight_orig"] / 2})), m.state_dict()]
    out += [m.state_dict()._metadata, str(m.load_state_dict({"bias": state["bias"]}, strict=False))]
    twin = NEW["old spectral_norm"](t, filled(t, "Linear"))
    twin.load_state_dict(m.state_dict())
    return *out, twin.state_dict()


@story
def test_copies_of_the_older_form(t):
    out = []
    for kind in ("old weight_norm", "old spectral_norm"):
        m = seeded(t, NEW[kind](t, filled(t, "Linear")))
        x = t.ones(1, 3, dtype=t.float64)
        with t.no_grad():
            m(x)
        twin = copy.deepcopy(m)
        out += [twin(x), said(lambda twin=twin: copy.deepcopy(twin), "Only Tensors created explicitly by the user")]
    return out


@story
def test_functions(t):
    v = (t.arange(24.0, dtype=t.float64).reshape(2, 3, 4) - 7).requires_grad_()
    out = [(n, n.grad_fn) for n in (t.norm_except_dim(v, p, d) for p in (1, 2) for d in (0, 1, 2))]
    out += [t.norm_except_dim(v, p, -1) for p in (1, 2)]
    for d, shape in ((0, (2, 1, 1)), (1, (1, 3, 1)), (2, (1, 1, 4)), (-1, ())):
        g = t.full(shape, 2.0, dtype=t.float64, requires_grad=True)
        w = t._weight_norm(v, g, d)
        out += [w, w.grad_fn, t.autograd.grad((w * w * v).sum(), (v, g))]
    # Sines of an arithmetic progression have rank 2, where the last digits of any processor decide; cubes have 4.
    a, tau = t.geqrf(v.detach()[0].T.sin() ** 3)
    return *out, a, tau, t._weight_norm_interface(v.bfloat16(), t.ones(2, 1, 1).bfloat16())[1].dtype


def test_deprecation():
    def run(t):
        return warned(lambda: t.nn.utils.weight_norm(t.nn.Linear(1, 1)))

    assert run(torchlike) == run(torch) and "deprecated" in run(torch)[0]


# -- orthogonal matrices ---------------------------------------------------------------------------

MAPS = ["matrix_exp", "cayley", "householder", None]


def orthogonal(t, shape, name, trivial, values=None):
    m = t.nn.Linear(*shape, bias=False, dtype=t.float64)
    with t.no_grad():
        m.weight.copy_(((t.arange(m.weight.numel(), dtype=t.float64) * 7) % 11 / 5 - 1).reshape(m.weight.shape))
    return t.nn.utils.parametrizations.orthogonal(m, orthogonal_map=name, use_trivialization=trivial)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal(trivial, name, shape):
    def run(t):
        m = orthogonal(t, shape, name, trivial)
        with t.no_grad():
            for p in m.parametrizations.weight[0].buffers():  # its last columns are drawn
                p.copy_(t.eye(len(p)).flip(0))
            m.parametrizations.weight.original.mul_(0.9)
            if name == "householder" or name is None and shape[0] != shape[1]:
                m.parametrizations.weight.original.diagonal().copy_(t.tensor([1.0, -1.0, 1.0])[: min(shape)])
        m.weight.pow(3).sum().backward()
        return m.weight, [(n, p.grad) for n, p in m.named_parameters()], list(m.state_dict()), repr(m)

    agree(run)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
@pytest.mark.parametrize("name", MAPS)
def test_orthogonal_values_can_be_assigned(name, shape):
    """What columns are drawn to make the matrix square does not show."""
    m = orthogonal(torchlike, shape, name, True)
    wide = shape[0] > shape[1]
    q = torchlike.linalg.qr(torchlike.randn(max(shape), min(shape), dtype=torchlike.float64))[0]
    m.weight = q.T if wide else q
    assert torchlike.allclose(m.weight.T if wide else m.weight, q)
    with torchlike.no_grad():
        m.parametrizations.weight.original.tril_().add_(0.1)
    value = m.weight.T if wide else m.weight
    if name != "householder" and (name or shape[0] == shape[1]):
        assert torchlike.allclose(value.T @ value, torchlike.eye(min(shape), dtype=torchlike.float64))


@story
def test_orthogonal_assigned(t):
    m = orthogonal(t, (3, 3), "householder", False)
    m.weight = t.eye(3, dtype=t.float64).flip(0)
    square = orthogonal(t, (3, 3), "matrix_exp", True)
    square.weight = t.eye(3, dtype=t.float64).flip(0)
    return m.weight, m.parametrizations.weight.original, square.weight, square.state_dict()


@pytest.mark.parametrize("name", ["matrix_exp", "cayley"])
def test_orthogonal_complex(name):
    def run(t):
        m = t.nn.Linear(2, 2, bias=False, dtype=t.complex128)
        with t.no_grad():
            m.weight.copy_(t.tensor([[1, 2j], [3 + 1j, -1]], dtype=t.complex128))
        m = t.nn.utils.parametrizations.orthogonal(m, orthogonal_map=name, use_trivialization=False)
        return t.view_as_real(m.weight) + 1  # a zero is one of a rounding here

    agree(run)


def apply(name, *args, **kwargs):
    return lambda t: getattr(t.nn.utils.parametrizations, name)(t.nn.Linear(3, 2, bias=False), *args, **kwargs)


def old(name, *args, **kwargs):
    return lambda t: getattr(t.nn.utils, name)(t.nn.Linear(3, 2, bias=False), *args, **kwargs)


def lazy(t):
    m = t.nn.Module()
    m.weight = t.nn.parameter.UninitializedParameter()
    return m


def twice(name):
    return lambda t: NEW[name](t, NEW[name](t, t.nn.Linear(3, 2)))


ERRORS = {
    "spectral: iterations": (apply("spectral_norm", n_power_iterations=0), "n_power_iterations to be positive"),
    "spectral: dim": (apply("spectral_norm", dim=5), r"\[-2, 1\] but got 5"),
    "spectral: name": (apply("spectral_norm", "foo"), "has no parameter or buffer with name 'foo'"),
    "spectral: None": (apply("spectral_norm", "bias"), "has no parameter or buffer with name 'bias'"),
    "weight: name": (apply("weight_norm", "foo"), "with name 'foo'"),
    "weight: dim": (apply("weight_norm", dim=5), "but got 5"),
    "orthogonal: name": (apply("orthogonal", "foo"), "has no parameter or buffer"),
    "orthogonal: map": (apply("orthogonal", orthogonal_map="foo"), 'has to be one of "matrix_exp"'),
    "orthogonal: vector": (
        lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(2, 2), "bias"), "tensor of 1 dimensions",
    ),
    "orthogonal: complex": (
        lambda t: t.nn.utils.parametrizations.orthogonal(
            t.nn.Linear(2, 2, dtype=t.complex64), orthogonal_map="householder"
        ),
        "does not support complex",
    ),
    "orthogonal: assigned": (
        lambda t: setattr(orthogonal(t, (3, 3), "cayley", False), "weight", t.eye(3, dtype=t.float64)),
        "use_trivialization=False",
    ),
    "orthogonal: shape": (
        lambda t: setattr(orthogonal(t, (3, 3), "cayley", True), "weight", t.eye(2)), r"of shape torch.Size\(\[3, 3",
    ),
    "old weight: twice": (twice("old weight_norm"), "two weight_norm hooks on the same parameter weight"),
    "old spectral: twice": (twice("old spectral_norm"), "two spectral_norm hooks on the same parameter weight"),
    "old weight: name": (old("weight_norm", "foo"), "no attribute 'foo'"),
    "old weight: None": (old("weight_norm", "bias"), r"argument 'v' \(position 1\) must be Tensor, not NoneType"),
    "old spectral: name": (old("spectral_norm", "foo"), "foo"),
    "old spectral: None": (old("spectral_norm", "bias"), "parameter `bias` is None"),
    "old spectral: iterations": (old("spectral_norm", n_power_iterations=0), "to be positive"),
    "old spectral: dim": (old("spectral_norm", dim=-1), "number of dimensions"),
    "old weight: removing": (old("remove_weight_norm"), "weight_norm of 'weight' not found"),
    "old spectral: removing": (old("remove_spectral_norm"), "spectral_norm of 'weight' not found"),
    "old weight: lazy": (lambda t: t.nn.utils.weight_norm(lazy(t)), "uninitialized parameters"),
    "old spectral: lazy": (lambda t: t.nn.utils.spectral_norm(lazy(t)), "uninitialized parameters"),
    "kernel: dtypes": (
        lambda t: t._weight_norm_interface(t.ones(2, 3), t.ones(2, 1).double()), "expected scalar type Float but found",
    ),
    "kernel: complex": (
        lambda t: t._weight_norm(t.ones(2, 3).to(t.complex64), t.ones(2, 1).to(t.complex64)), "not implemented for",
    ),
    "geqrf: half": (lambda t: t.geqrf(t.ones(2, 3).half()), "not implemented for 'Half'"),
    "geqrf: backward": (
        lambda t: t.geqrf(t.ones(2, 2, requires_grad=True))[0].sum().backward(), "'geqrf' is not implemented",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    agree_error(*ERRORS[case])


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
@pytest.mark.parametrize("kind", [*NEW, "orthogonal"])
def test_compiled(kind):
    def run(step):
        torchlike.manual_seed(0)
        if kind == "orthogonal":
            m = orthogonal(torchlike, (3, 3), "cayley", True)
        else:
            m = seeded(torchlike, NEW[kind](torchlike, filled(torchlike, "Linear")))
        m(torchlike.ones(1, 3, dtype=torchlike.float64))
        optimizer = torchlike.optim.SGD(m.parameters(), lr=0.05)

        def train(x):
            optimizer.zero_grad()
            loss = m(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        train = step(train)
        return [round(train(torchlike.ones(1, 3, dtype=torchlike.float64)).item(), 9) for _ in range(3)]

    assert run(lambda f: torchlike.compile(f, fullgraph=True)) == run(lambda f: f)


@pytest.mark.parametrize("old", [False, True])
def test_spectral_norm_in_transforms(old):
    """The power iteration writes buffers that the function closes over, which a transform allows by ``out=``."""

    def gradients(t):
        wrap = t.nn.utils.spectral_norm if old else t.nn.utils.parametrizations.spectral_norm
        m = wrap(t.nn.Linear(3, 2).double())
        with t.no_grad():
            for i, x in enumerate((*m.parameters(), *m.buffers())):
                x.copy_((t.arange(x.numel(), dtype=t.float64).view(x.shape) + i).cos())
        params, x = dict(m.named_parameters()), t.ones(4, 3, dtype=t.float64)
        loss = lambda p: t.func.functional_call(m, p, (x,)).sin().sum()  # noqa: E731
        grads = t.func.grad(loss)(params)
        value, back = t.func.vjp(loss, params)
        return [sorted(grads.items()), value, sorted(back(t.ones_like(value))[0].items()), list(m.buffers())]

    agree(gradients)
