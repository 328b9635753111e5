"""Functions of jax as functions of tensors, modules as functions of jax: values, gradients, conventions, refusals."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recorded_kit import compilations

import torchlike as torch
from torchlike import nn
from torchlike.interop import from_jax, merge, split, to_jax

X64 = np.random.default_rng(0).uniform(0.5, 1.5, (3, 4))


@functools.partial(jax.custom_vjp)
def doubled_gradient(x):
    return jnp.sin(x)


doubled_gradient.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (2 * g * jnp.cos(x),))


@jax.custom_jvp
def tripled_tangent(x):
    return jnp.sin(x)


tripled_tangent.defjvp(lambda p, t: (jnp.sin(p[0]), 3 * t[0] * jnp.cos(p[0])))

FUNCTIONS = {
    "sin": jnp.sin,
    "norm": jnp.linalg.norm,
    "svd": lambda x: jnp.linalg.svd(x, full_matrices=False, compute_uv=False),
    "softmax": jax.nn.softmax,
    "jitted": jax.jit(lambda x: x**2 / (1 + x)),
    "scan": lambda x: jax.lax.scan(lambda c, v: (c * 0.5 + v, c), jnp.zeros(4), x)[1],
    "custom_vjp": doubled_gradient,
    "custom_jvp": tripled_tangent,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name):
    f = FUNCTIONS[name]
    x = torch.tensor(X64, requires_grad=True)
    out = from_jax(f)(x)
    expected, back = jax.vjp(f, jnp.asarray(X64))
    assert out.dtype == torch.float64 and out.requires_grad
    np.testing.assert_allclose(out.detach(), expected, rtol=1e-14)
    cotangent = torch.randn(out.shape, dtype=out.dtype)
    np.testing.assert_allclose(torch.autograd.grad(out, x, cotangent)[0], back(cotangent.jax())[0], rtol=1e-12)


@pytest.mark.parametrize("name", ["sin", "softmax", "jitted", "custom_jvp"])
def test_derivatives_of_every_order(name):
    f = from_jax(FUNCTIONS[name])
    x = torch.tensor(X64, requires_grad=True)
    if name != "custom_jvp":  # its rule is another one than its function's on purpose
        assert torch.autograd.gradcheck(f, x, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(f, x)
    third = x
    for i in range(3):
        third = f(x) if not i else third
        (third,) = torch.autograd.grad(third.sum(), x, create_graph=True)
    g = FUNCTIONS[name]
    for _ in range(3):
        g = jax.grad(lambda v, g=g: g(v).sum())
    np.testing.assert_allclose(third.detach(), g(jnp.asarray(X64)), rtol=1e-9, atol=1e-9)


def test_transforms_and_programs_see_one_function():
    f, x = from_jax(jnp.sin), torch.tensor(X64)
    assert torch.equal(torch.func.vmap(f)(x), f(x))
    assert torch.equal(torch.func.vmap(f, in_dims=1, out_dims=1)(x), f(x))
    out, tangent = torch.func.jvp(f, (x,), (torch.ones_like(x),))
    torch.testing.assert_close(tangent, x.cos())
    assert torch.equal(torch.compile(lambda x: f(x) * 2, fullgraph=True)(x), f(x) * 2)
    assert "SinBackward" in f(x.requires_grad_()).grad_fn.name()


def test_complex_gradients_have_pytorch_s_convention():
    z = torch.tensor([1 + 2j, -0.5j], requires_grad=True)
    for ours, of_jax in ((lambda z: z.abs().square().sum(), lambda z: (jnp.abs(z) ** 2).sum()),):
        expected = torch.autograd.grad(ours(z), z)[0]
        torch.testing.assert_close(torch.autograd.grad(from_jax(of_jax)(z), z)[0], expected)
    w = torch.tensor([1 + 2j], requires_grad=True)
    torch.testing.assert_close(
        torch.autograd.grad(from_jax(lambda w: w**3)(w), w, torch.tensor([1 + 1j]))[0],
        torch.autograd.grad(w**3, w, torch.tensor([1 + 1j]))[0],
    )


@pytest.mark.parametrize("name", [
    "exp2", "expm1", "tan", "tanh", "atan", "asinh", "acosh",
])  # fmt: skip
def test_jax_differentiates_complex_kernels_along_the_axes(name):
    """Signs of zeros are put right part by part; the derivative is that of the function."""
    f = getattr(torch, name)
    z = torch.tensor([0.5j, -0.5j, complex(-0.0, 0.5), 0.5, complex(0.5, -0.0), -0.5 + 0.5j, -1 - 2j])
    out, pull = jax.vjp(to_jax(f), z.jax())
    expected = torch.func.vjp(f, z)[1](torch.ones_like(z))[0]
    np.testing.assert_allclose(np.conj(pull(jnp.ones_like(out))[0]), expected, rtol=1e-5, atol=1e-6)


def test_trees_go_in_and_out():
    def f(batch, scale, *, names, flip=False):
        x = batch["x"] * scale
        return {"y": -x if flip else x, "more": (batch["i"] + 1, [x.sum()]), "n": None if not names else x * 0}

    x = torch.ones(2, requires_grad=True)
    out = from_jax(f)({"x": x, "i": jnp.arange(3)}, 2.0, names=("a", "b"), flip=True)
    assert out["y"].tolist() == [-2.0, -2.0] and out["n"].tolist() == [0.0, 0.0]
    assert out["more"][0].tolist() == [1, 2, 3]
    assert not out["more"][0].requires_grad
    out["more"][1][0].backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert from_jax(f)({"x": x, "i": np.arange(3)}, 2.0, names=())["n"] is None
    assert from_jax(lambda: {"a": jnp.ones(2)})()["a"].tolist() == [1.0, 1.0]
    assert from_jax(lambda x: ())(x) == ()
    assert from_jax(lambda x: {"t": torch.from_jax_array(x) * 2})(x)["t"].tolist() == [2.0, 2.0]


def test_what_a_program_is_made_for():
    traces = []

    def f(x, scale, axis=0):
        traces.append(axis)
        return (x * scale).sum(axis)

    run, x = from_jax(f), torch.ones(2, 3)
    for scale in (0.5, 0.25):
        run(x, scale).tolist()
    first = len(traces)
    with compilations() as found:
        for scale in (1.5, 2.5, 3.5):
            assert run(x, scale).tolist() == [2 * scale] * 3
    assert len(traces) == first and not found
    assert run(x, 1.0, axis=1).tolist() == [3.0, 3.0] and len(traces) > first


def test_random_keys():
    key = jax.random.key(3)
    draw = from_jax(lambda key, x: x * jax.random.normal(key, (4,), jnp.float32))
    x = torch.ones(4, requires_grad=True)
    out = draw(key, x)
    np.testing.assert_array_equal(out.detach(), jax.random.normal(key, (4,), jnp.float32))
    assert draw(jax.random.key(4), x).tolist() != out.tolist()


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: from_jax(3), TypeError, r"from_jax\(\): expected a function of jax arrays, got int"),
        (lambda: from_jax(jnp.sin)({1, 2}), TypeError, "must be a tensor, an array, a number or hashable, not set"),
        (lambda: from_jax(lambda x: float(x))(torch.ones(())), jax.errors.JAXTypeError, "traced"),
        (lambda: from_jax(lambda x: "text")(torch.ones(())), TypeError, "not a valid JAX type|abstract array"),
        (lambda: from_jax(jnp.dot)(torch.ones(2), torch.ones(3)), TypeError, "shape"),
        (lambda: to_jax(nn.Linear(1, 1))({}, {}, jnp.ones((1, 1))), RuntimeError, "(?i)missing key"),
        (lambda: to_jax(nn.ReLU())({"x": jnp.ones(1)}, {}, jnp.ones((1, 1))), RuntimeError, "(?i)unexpected key"),
        (lambda: split(3), TypeError, r"split\(\): expected a module, got int"),
        (lambda: to_jax(3), TypeError, r"to_jax\(\): expected a module or a function of tensors, got int"),
        (lambda: merge(nn.Linear(1, 1), {"x": 1}), KeyError, r"Linear has no parameter or buffer 'x'"),
        (lambda: merge(nn.Linear(1, 1), {"bias": jnp.ones(3)}), ValueError, r"'bias' is \[1\] of torch.float32"),
        (lambda: merge(nn.Linear(1, 1), {"bias": "text"}), ValueError, r"but str was given"),
        (lambda: to_jax(nn.Dropout())({}, {}, jnp.ones(3)), RuntimeError, r"key=jax.random.key\(0\)"),
        (lambda: to_jax(torch.rand_like)(jnp.ones(3), key=jnp.zeros((2, 2), jnp.uint32)), ValueError, "one random key"),
    ],
)
def test_wrong_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


# -- to jax ------------------------------------------------------------------------------------------


def model():
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.3), nn.Linear(5, 1))


def test_a_module_as_a_function():
    ours = model().double().eval()
    parameters, buffers = split(ours)
    pure, x = to_jax(ours), jnp.asarray(X64)
    out, after = jax.jit(pure)(parameters, buffers, x)
    np.testing.assert_allclose(out, ours(torch.tensor(X64)).detach(), rtol=1e-12)
    assert all(np.array_equal(after[k], buffers[k]) for k in buffers)

    grads = jax.jit(jax.grad(lambda p: pure(p, buffers, x)[0].sum()))(parameters)
    ours(torch.tensor(X64)).sum().backward()
    for name, p in ours.named_parameters():
        np.testing.assert_allclose(grads[name], p.grad, rtol=1e-10, atol=1e-14)


def test_buffers_come_back_and_the_module_stays():
    ours, twin = model().double(), model().double()
    twin.load_state_dict(ours.state_dict())
    parameters, buffers = split(ours)
    out, after = jax.jit(to_jax(ours))(parameters, buffers, jnp.asarray(X64), key=jax.random.key(0))
    twin(torch.tensor(X64))
    assert ours[1].num_batches_tracked.item() == 0 and not ours[1].running_mean.any()
    for name, b in twin.named_buffers():
        np.testing.assert_allclose(after[name], b, rtol=1e-12)
    merge(ours, parameters, after)
    torch.testing.assert_close(ours.state_dict(), twin.state_dict())


def test_dropout_draws_from_the_key():
    pure = jax.jit(to_jax(nn.functional.dropout))
    x = jnp.ones(64)
    first, second, again = (pure(x, key=jax.random.key(k)) for k in (0, 1, 0))
    assert np.array_equal(first, again) and not np.array_equal(first, second) and set(np.unique(first)) == {0.0, 2.0}
    np.testing.assert_array_equal(to_jax(nn.functional.dropout)(x, key=jax.random.key(0)), first)
    twice = to_jax(lambda x: (nn.functional.dropout(x), nn.functional.dropout(x)))(x, key=jax.random.key(0))
    assert not np.array_equal(*twice)
    keys = jax.random.split(jax.random.key(5), 3)
    each = jax.vmap(lambda key: to_jax(torch.rand_like)(x, key=key))(keys)
    assert len({row.tobytes() for row in np.asarray(each)}) == 3


def test_the_state_of_generators_stays():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    to_jax(torch.rand_like)(jnp.ones(3), key=jax.random.key(0))
    assert torch.equal(before, torch.get_rng_state())
    explicit = torch.Generator()
    with pytest.raises(RuntimeError, match="random numbers"):
        to_jax(lambda x: torch.rand(3, generator=explicit))(jnp.ones(3), key=jax.random.key(0))


def test_tied_parameters_are_one():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3, bias=False)
            self.b = nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    tied = Tied()
    parameters, _ = split(tied)
    assert list(parameters) == ["a.weight"]
    x = torch.randn(2, 3)
    grads = jax.grad(lambda p: to_jax(tied)(p, {}, x.jax())[0].sum())(parameters)
    tied(x).sum().backward()
    np.testing.assert_allclose(grads["a.weight"], tied.a.weight.grad, rtol=1e-5)


def test_a_function_may_write_its_arguments():
    def f(x):
        x.add_(1)
        return x * 2

    given = jnp.ones(3)
    np.testing.assert_array_equal(jax.jit(to_jax(f))(given), [4.0, 4.0, 4.0])
    np.testing.assert_array_equal(to_jax(f)(given), [4.0, 4.0, 4.0])
    np.testing.assert_array_equal(given, [1.0, 1.0, 1.0])


def test_a_loop_of_jax_trains_a_module():
    ours = nn.Linear(4, 1)
    parameters, buffers = split(ours)
    pure, x = to_jax(ours), jnp.asarray(X64, jnp.float32)

    @jax.jit
    def step(parameters):
        loss, grads = jax.value_and_grad(lambda p: (pure(p, buffers, x)[0] ** 2).mean())(parameters)
        return loss, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, grads)

    losses = []
    for _ in range(5):
        loss, parameters = step(parameters)
        losses.append(float(loss))
    opt = torch.optim.SGD(ours.parameters(), 0.1)
    for expected in losses:
        opt.zero_grad()
        out = ours(torch.tensor(X64).float()).square().mean()
        out.backward()
        opt.step()
        assert out.item() == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(merge(nn.Linear(4, 1), parameters).state_dict(), ours.state_dict())


def test_there_and_back():
    x = torch.tensor(X64, requires_grad=True)
    back = from_jax(to_jax(lambda x: torch.softmax(x, 1) * 2))
    torch.testing.assert_close(back(x), torch.softmax(x, 1) * 2)
    assert torch.autograd.gradcheck(back, x)


def test_a_number_is_no_key():
    with pytest.raises(TypeError, match=r"expected a random key of jax, such as jax\.random\.key\(3\), got int"):
        to_jax(nn.functional.dropout)(jnp.ones(3), key=3)


def test_results_with_names_are_trees():
    x = jnp.array([[3.0, 1.0], [2.0, 4.0]])
    best = jax.jit(to_jax(lambda x: torch.topk(x, 1)))(x)
    assert isinstance(best, torch.return_types.topk) and best.values.tolist() == [[3], [4]]
    assert best.indices.tolist() == [[0], [1]]
    assert str(jax.tree_util.tree_leaves_with_path(best)[0][0][0]) == ".values"
    values = jax.vmap(to_jax(lambda x: torch.linalg.eigh(x + x.mT)))(jnp.stack([x, x])).eigenvalues
    assert values.shape == (2, 2)


def test_distributions_and_lengths_of_what_jax_traces():
    def loss(x, lengths):
        scores = (x - torch.distributions.Normal(x, x).log_prob(x)).log_softmax(-1)
        return nn.functional.ctc_loss(scores, torch.tensor([[1, 2], [3, 1]]), lengths, lengths - 3)

    x, lengths = torch.rand(6, 2, 4, dtype=torch.float64) + 1, torch.tensor([5, 4])
    with torch.no_grad():
        assert float(jax.jit(to_jax(loss))(x.jax(), lengths.jax())) == pytest.approx(loss(x, lengths).item())
