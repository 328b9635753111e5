"""optax, equinox and flax with tensors and modules of torchlike, next to the same in each library alone."""

import copy

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from recorded_kit import is_steady

import torchlike as torch
from torchlike import nn
from torchlike.interop import from_jax, merge, split, to_jax
from torchlike.optim import from_optax

RULES = {
    "sgd": lambda: optax.sgd(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: optax.adam(0.01),
    "adamw, schedule": lambda: optax.adamw(optax.linear_schedule(0.1, 0.01, 5), weight_decay=0.1),
    "clipped chain": lambda: optax.chain(optax.clip_by_global_norm(0.5), optax.lion(0.01)),
    "hyperparameters": lambda: optax.inject_hyperparams(optax.rmsprop)(learning_rate=0.01),
}


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))


def loss_of(m, x):
    return m(x).square().mean()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_an_optimizer_of_optax(rule, compiled):
    ours, x = model(), torch.randn(6, 4)
    opt = from_optax(ours.named_parameters(), RULES[rule]())

    def step(x):
        opt.zero_grad()
        loss = loss_of(ours, x)
        loss.backward()
        opt.step()
        return loss.detach()

    run = torch.compile(step) if compiled else step
    found = [run(x).item() for _ in range(6)]

    pure, (parameters, _) = to_jax(model()), split(model())
    transformation = RULES[rule]()
    state, expected = transformation.init(parameters), []
    for _ in range(6):
        value, grads = jax.value_and_grad(lambda p: (pure(p, {}, x.jax())[0] ** 2).mean())(parameters)
        updates, state = transformation.update(grads, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        expected.append(float(value))
    np.testing.assert_allclose(found, expected, rtol=2e-5)
    for name, p in ours.named_parameters():
        np.testing.assert_allclose(p.detach(), parameters[name], rtol=2e-4, atol=1e-6)


def test_steps_compile_once_and_state_goes_on():
    first, second = model(), model()
    opts = [from_optax(m.named_parameters(), optax.adam(0.01)) for m in (first, second)]
    x = torch.randn(6, 4)

    def step(m, opt):
        loss_of(m, x).backward()
        opt.step()
        opt.zero_grad()

    for _ in range(8):
        step(first, opts[0])
    assert is_steady(lambda: step(first, opts[0]), rounds=9)
    second.load_state_dict(first.state_dict())
    opts[1].load_state_dict(copy.deepcopy(opts[0].state_dict()))
    for m, opt in ((first, opts[0]), (second, opts[1])):
        step(m, opt)
    torch.testing.assert_close(first.state_dict(), second.state_dict(), rtol=0, atol=0)


def test_masks_closures_and_extra_arguments():
    ours = model()
    before = copy.deepcopy(ours.state_dict())
    frozen = optax.multi_transform(
        {"train": optax.sgd(0.1), "freeze": optax.set_to_zero()},
        lambda params: {name: "freeze" if name.startswith("0") else "train" for name in params},
    )
    opt = from_optax(ours.named_parameters(), frozen)

    def closure():
        opt.zero_grad()
        loss = loss_of(ours, torch.ones(2, 4))
        loss.backward()
        return loss

    assert opt.step(closure).requires_grad
    changed = {k for k, v in ours.state_dict().items() if not torch.equal(v, before[k])}
    assert changed == {"2.weight", "2.bias"}
    plateau = optax.chain(optax.sgd(0.1), optax.contrib.reduce_on_plateau(patience=1, factor=0.5))
    opt = from_optax(ours.parameters(), plateau)
    loss = closure()
    opt.step(value=loss)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda m: from_optax(m.parameters(), 0.1), TypeError, r"expected a gradient transformation .* got float"),
        (lambda m: from_optax([{"params": [p]} for p in m.parameters()], optax.sgd(1)), ValueError, "4 groups"),
        (lambda m: from_optax([m[0].weight], optax.lookahead(optax.sgd(1), 3, 0.5)), NotImplementedError, "lookahead"),
        (lambda m: from_optax([], optax.sgd(1)), ValueError, "empty parameter list"),
        (lambda m: copy.deepcopy(from_optax(m.parameters(), optax.sgd(1))), NotImplementedError, "state_dict"),
        (
            lambda m: from_optax(m.parameters(), optax.adam(1)).load_state_dict(
                from_optax(m.parameters(), optax.sgd(1)).state_dict()
            ),
            ValueError,
            "expected",
        ),
        (
            lambda m: from_optax(m.parameters(), optax.sgd(1)).add_param_group({"params": [torch.ones(1)]}),
            NotImplementedError,
            "new optimizer",
        ),
    ],
)
def test_wrong_calls(call, error, message):
    with pytest.raises(error, match=message):
        call(model())


def test_optax_works_on_parameters_themselves():
    ours = model()
    parameters, x = dict(ours.named_parameters()), torch.randn(6, 4)
    transformation = optax.adam(0.01)

    def loss(p):
        return torch.func.functional_call(ours, p, (x,)).square().mean().jax()

    state = transformation.init(parameters)
    grads = jax.jit(jax.grad(loss))(parameters)
    updates, state = transformation.update(grads, state, parameters)
    new = optax.apply_updates(parameters, updates)
    assert all(type(p) is nn.Parameter for p in new.values())
    opt = torch.optim.Adam(ours.parameters(), 0.01)
    loss_of(ours, x).backward()
    opt.step()
    torch.testing.assert_close(new, dict(ours.named_parameters()), rtol=1e-4, atol=1e-6)


class Scaled(eqx.Module):
    """An equinox module that holds a tensor beside arrays."""

    linear: eqx.nn.Linear
    scale: torch.Tensor

    def __call__(self, x):
        return self.linear(x) * self.scale.jax()


def test_equinox():
    ours = Scaled(eqx.nn.Linear(3, 2, key=jax.random.key(0)), torch.tensor([2.0, 3.0]))
    x = jnp.ones((5, 3))

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(m, x):
        return jax.vmap(m)(x).sum()

    grads = gradient(ours, x)
    assert isinstance(grads.scale, torch.Tensor)
    np.testing.assert_allclose(grads.scale.jax(), jax.vmap(ours.linear)(x).sum(0), rtol=1e-6)
    assert eqx.is_array(jax.tree.leaves(ours)[-1])

    layer = eqx.nn.MLP(3, 1, 8, 2, key=jax.random.key(1))
    t = torch.randn(3, requires_grad=True)
    from_jax(layer)(t).sum().backward()
    np.testing.assert_allclose(t.grad, jax.grad(lambda v: layer(v).sum())(t.detach().jax()), rtol=1e-5)


def test_nnx():
    class Wrapped(nnx.Module):
        """A module of torchlike inside of one of flax."""

        def __init__(self, m):
            parameters, buffers = split(m)
            self.pure = to_jax(m)
            self.parameters = nnx.data({k: nnx.Param(v) for k, v in parameters.items()})
            self.buffers = nnx.data({k: nnx.BatchStat(v) for k, v in buffers.items()})

        def __call__(self, x):
            get = lambda d: {k: v[...] for k, v in d.items()}  # noqa: E731
            out, after = self.pure(get(self.parameters), get(self.buffers), x)
            for name, value in after.items():
                self.buffers[name][...] = value
            return out

    ours = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    twin = copy.deepcopy(ours)
    wrapped, x = Wrapped(ours), jnp.asarray(np.random.default_rng(0).normal(size=(6, 3)), jnp.float32)
    opt = nnx.Optimizer(wrapped, optax.sgd(0.1), wrt=nnx.Param)

    @nnx.jit
    def step(m, opt, x):
        loss, grads = nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(m)
        opt.update(m, grads)
        return loss

    theirs = torch.optim.SGD(twin.parameters(), 0.1)
    for _ in range(3):
        theirs.zero_grad()
        loss = twin(torch.from_jax_array(x)).square().mean()
        loss.backward()
        theirs.step()
        np.testing.assert_allclose(step(wrapped, opt, x), loss.item(), rtol=1e-5)
    merge(ours, {k: v[...] for k, v in wrapped.parameters.items()}, {k: v[...] for k, v in wrapped.buffers.items()})
    torch.testing.assert_close(ours.state_dict(), twin.state_dict(), rtol=1e-4, atol=1e-6)

    linear = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    t = torch.randn(4, 3, requires_grad=True)
    from_jax(lambda x: linear(x))(t).sum().backward()
    np.testing.assert_allclose(t.grad, np.broadcast_to(np.asarray(linear.kernel[...]).sum(1), (4, 3)), rtol=1e-5)


OF_TENSORS = {
    "huber": lambda x: optax.huber_loss(x, x * 2),
    "sigmoid": lambda x: optax.sigmoid_binary_cross_entropy(x, x * 2),
    "labels": lambda x: optax.softmax_cross_entropy_with_integer_labels(x, jnp.array([1, 0])),
    "zeros": lambda x: jnp.zeros_like(x) + jnp.full_like(x, 2),
    "dtype": lambda x: jnp.ones(3, dtype=getattr(x, "dtype", None)),
    "predicate": lambda x: jax.lax.cond(x.sum() < 100, lambda y: y * 2, lambda y: y, x),
    "traced predicate": lambda x: jax.jit(lambda x: jax.lax.cond(x.sum() < 100, lambda y: y * 2, lambda y: y, x))(x),
}


@pytest.mark.parametrize("name", OF_TENSORS)
def test_functions_of_jax_that_ask_for_a_dtype(name):
    x = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    ours, theirs = OF_TENSORS[name](x), OF_TENSORS[name](x.jax())
    assert np.array_equal(np.asarray(ours), np.asarray(theirs)) and str(ours.dtype).endswith(str(theirs.dtype))


def test_what_asks_for_a_dtype_loses_no_history():
    x = torch.ones(2, 3, requires_grad=True)
    for name in ("huber", "sigmoid", "labels"):
        with pytest.raises(RuntimeError, match="would have no history"):
            OF_TENSORS[name](x)


def test_a_condition_of_a_loop_is_an_array():
    x = torch.ones(3)
    assert jax.lax.while_loop(lambda y: (y.sum() < 10).jax(), lambda y: y * 2, x).tolist() == [4, 4, 4]
    with pytest.raises(TypeError, match="cond_fun must return a boolean scalar.*Tensor"):
        jax.lax.while_loop(lambda y: y.sum() < 10, lambda y: y * 2, x)


def test_equinox_sees_the_leaves_of_tensors():
    tree = {"a": torch.ones(2), "b": 3}
    kept, rest = eqx.partition(tree, eqx.is_array)
    assert not eqx.is_array(tree["a"]) and kept["a"].tolist() == [1, 1] and kept["b"] is None and rest["b"] == 3
    assert eqx.combine(kept, rest)["a"].tolist() == [1, 1]


def test_equinox_compiles_what_closes_over_history():
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    out = eqx.filter_jit(lambda x: x * (w * 2))(torch.ones(2))
    assert out.tolist() == [4.0, 6.0]
    with pytest.raises(RuntimeError, match="stayed outside of the function of jax"):
        out.sum().backward()


@pytest.mark.parametrize(
    "grad", [eqx.filter_grad, eqx.filter_value_and_grad, lambda f: eqx.filter_jit(eqx.filter_grad(f))]
)
@pytest.mark.parametrize("kind", ["plain", "leaf", "parameter", "computed"])
def test_equinox_differentiates_modules_that_hold_tensors(grad, kind):
    class Scaled(eqx.Module):
        weight: object
        name: str = "scaled"

    w = torch.tensor([1.0, 2.0])
    made = {"plain": w, "leaf": w.clone().requires_grad_(), "parameter": nn.Parameter(w)}
    module = Scaled(made.get(kind, nn.Parameter(w) * 1))
    found = grad(lambda m: (m.weight * torch.tensor([3.0, 4.0])).sum().jax())(module)
    found = found[1] if isinstance(found, tuple) else found
    assert found.weight.tolist() == [3.0, 4.0] and type(found.weight) is type(module.weight)
    assert eqx.filter_jit(lambda m: m.weight * 2)(module).tolist() == [2.0, 4.0]


def test_equinox_returns_what_begins_to_require_grad_inside():
    out = eqx.filter_jit(lambda a: torch.from_jax_array(a).requires_grad_() * 2)(jnp.ones(2))
    assert out.tolist() == [2.0, 2.0]
