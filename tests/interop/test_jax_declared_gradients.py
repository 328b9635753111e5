"""Gradients that PyTorch defines and no function of the values has are those of jax.grad, too; what is lost is said."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch as theirs

import torchlike as torch
from torchlike import nn
from torchlike.interop import split, to_jax
from torchlike.optim import from_optax

INDICES = torch.tensor([[1, 1, 2], [3, 1, 0]])
FLAT, OFFSETS = torch.tensor([1, 1, 2, 3]), torch.tensor([0, 2])
X = torch.linspace(-1.5, 1.5, 12).reshape(3, 4)
CHANNELS = torch.tensor([0.2, 0.3, 0.4, 0.5]), torch.tensor([0, 1, 2, 0], dtype=torch.int32)

DEFINED = {
    "padding": (lambda w: nn.functional.embedding(INDICES, w, padding_idx=1), (5, 2)),
    "frequencies": (lambda w: nn.functional.embedding(INDICES, w, scale_grad_by_freq=True), (5, 2)),
    "both": (lambda w: nn.functional.embedding(INDICES, w, padding_idx=1, scale_grad_by_freq=True), (5, 2)),
    "bags": (lambda w: nn.functional.embedding_bag(FLAT, w, OFFSETS, mode="sum", padding_idx=1), (5, 2)),
    "frequent bags": (lambda w: nn.functional.embedding_bag(FLAT, w, OFFSETS, scale_grad_by_freq=True), (5, 2)),
    "eigenvalues": (torch.linalg.eigvalsh, X @ X.T + torch.eye(3)),
    "upper": (lambda x: torch.linalg.eigvalsh(x, "U"), X @ X.T + torch.eye(3)),
    "steps": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.25, 1, -2, 2), X),
    "steps of channels": (lambda x: torch.fake_quantize_per_channel_affine(x, *CHANNELS, 1, -2, 2), X),
}


# Their arguments are checked by values, and PyTorch has its own second derivative, or none.
LEFT = {("steps of channels", w) for w in ("jit", "outer jit")} | {
    (name, "second") for name in ("frequencies", "both", "frequent bags")
}
WRAPS = {"grad": jax.grad, "jit": lambda f: jax.jit(jax.grad(f)), "outer jit": lambda f: jax.grad(jax.jit(f))}


@pytest.mark.once
@pytest.mark.parametrize(
    "name, wrap", [pair for pair in itertools.product(DEFINED, [*WRAPS, "vmap", "jvp", "second"]) if pair not in LEFT]
)
def test_a_gradient_that_pytorch_defines(name, wrap):
    f, at = DEFINED[name]
    x = torch.randn(at) if isinstance(at, tuple) else at.clone()
    weight = torch.rand(f(x).shape) + 0.5
    loss = to_jax(lambda x: (f(x) * weight).sum())
    leaf, array = x.requires_grad_(), x.detach().jax()
    (expected,) = torch.autograd.grad((f(leaf) * weight).sum(), leaf)
    if wrap == "jvp":
        change = jnp.ones_like(array)
        found, expected = jax.jvp(loss, (array,), (change,))[1], (expected.sum()).item()
    elif wrap == "second":
        square = to_jax(lambda x: (f(x) ** 3).sum())
        (first,) = torch.autograd.grad((f(leaf) ** 3).sum(), leaf, create_graph=True)
        (expected,) = torch.autograd.grad(first.sum(), leaf)
        found = jax.grad(lambda x: jax.grad(square)(x).sum())(array)
    elif wrap == "vmap":
        found = jax.vmap(jax.grad(loss))(jnp.stack([array, array]))[1]
    else:
        found = {"grad": jax.grad(loss), "jit": jax.jit(jax.grad(loss)), "outer jit": jax.grad(jax.jit(loss))}[wrap](
            array
        )
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_parameter_that_the_call_changes_is_not_lost():
    class Halved(nn.Linear):
        def forward(self, x):
            with torch.no_grad():
                self.weight.mul_(0.5)
            return super().forward(x)

    module, x = Halved(2, 1), jnp.ones((3, 2), jnp.float32)
    parameters, buffers = split(module)
    for run in (to_jax(module), jax.jit(to_jax(module))):
        with pytest.raises(RuntimeError, match="Halved changed its parameter 'weight'.*functional_call"):
            run(parameters, buffers, x)
    pure = to_jax(lambda p, x: (torch.func.functional_call(module, p, (x,)), p))
    _, after = jax.jit(pure)(parameters, x)
    np.testing.assert_allclose(after["weight"], parameters["weight"] / 2)
    norm = nn.Embedding(3, 2, max_norm=0.1)
    with pytest.raises(RuntimeError, match="Embedding changed its parameter 'weight'"):
        to_jax(norm)(*split(norm), jnp.array([0, 1]))


HOOKS = {
    "tensor": lambda t, y: y.register_hook(lambda g: g * 5),
    "leaf": lambda t, y: t.register_post_accumulate_grad_hook(lambda t: None),
    "node": lambda t, y: y.grad_fn.register_hook(lambda gi, go: None),
    "node before": lambda t, y: y.grad_fn.register_prehook(lambda go: None),
}


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_jax_will_not_run_is_told(name):
    def f(x):
        t = torch.from_jax_array(x).requires_grad_()
        y = t * 2
        HOOKS[name](t, y)
        return y.sum().jax()

    for wrap in (jax.grad, lambda f: jax.jit(jax.grad(f)), jax.value_and_grad):
        with pytest.warns(UserWarning, match="runs no hooks; only backward"):
            wrap(f)(jnp.ones(2, jnp.float32))
    f(jnp.ones(2, jnp.float32))
    jax.jit(f)(jnp.ones(2, jnp.float32))
    jax.vmap(f)(jnp.ones((2, 2), jnp.float32))


def test_a_module_hook_that_jax_will_not_run_is_told():
    module = nn.Linear(2, 1)
    module.register_full_backward_hook(lambda m, gi, go: None)
    parameters, buffers = split(module)
    with pytest.warns(UserWarning, match="runs no hooks"):
        jax.grad(lambda p: to_jax(module)(p, buffers, jnp.ones((1, 2), jnp.float32))[0].sum())(parameters)


@pytest.mark.parametrize("noise", [lambda: optax.noisy_sgd(0.1, key=jax.random.key(0)), lambda: optax.chain(
    optax.add_noise(0.1, 0.5, key=jax.random.key(3)), optax.sgd(0.1))])  # fmt: skip
def test_a_rule_whose_state_has_a_random_key(noise):
    p, rule = nn.Parameter(torch.ones(3)), noise()
    optimizer, parameters = from_optax([("p", p)], noise()), {"p": jnp.ones(3, jnp.float32)}
    state = rule.init(parameters)
    for _ in range(3):
        optimizer.zero_grad()
        (p**2).sum().backward()
        optimizer.step()
        updates, state = rule.update({"p": 2 * parameters["p"]}, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        again = from_optax([("p", p)], noise())
        again.load_state_dict(optimizer.state_dict())
        optimizer = again
    np.testing.assert_allclose(p.detach(), parameters["p"], rtol=1e-5)


def test_the_second_derivative_of_frequent_rows():
    x = np.random.RandomState(0).randn(5, 2).astype(np.float32)
    found = []
    for t in (torch, theirs):
        leaf = t.tensor(x, requires_grad=True)
        out = t.nn.functional.embedding(t.tensor([[1, 1, 2], [3, 1, 0]]), leaf, scale_grad_by_freq=True)
        (first,) = t.autograd.grad((out**2).sum(), leaf, create_graph=True)
        found.append(t.autograd.grad(first.sum(), leaf)[0].tolist())
    assert found[0] == found[1]
