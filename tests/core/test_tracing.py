"""torchlike code inside jax.jit, jax.grad, jax.vmap and friends: tensors over tracers, and backward within."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch as real
from oracle import close, host, to_torch

import torchlike

torch = torchlike
RNG = np.random.RandomState(0)
X, W, B = RNG.randn(3, 4), RNG.randn(4, 2), RNG.randn(2)
Z = X[:, :2] + 1j * X[:, 2:]


def tensor(array):
    return torch.from_jax_array(array)


def lift(f):
    """A function of torchlike tensors as a function of jax arrays."""

    def run(*arrays):
        out = f(*map(tensor, arrays))
        return jax.tree.map(lambda t: t.jax(), out, is_leaf=torch.is_tensor)

    return run


def indexed(x):
    y = x * 1
    y[0] = y[1] * 2
    y[:, -1] += 1
    y[y > 1] = 0.5
    return y


def in_place(x):
    y = x.clone()
    row, transpose = y[0], y.t()
    row.mul_(3)
    transpose[1].add_(row[:3].clone())
    y.add_(1).tanh_()
    return y


def views(x):
    parts = x.t()[1:], x.unfold(1, 2, 2), x.diagonal(1), x.as_strided((2, 2), (1, 4), 1)
    return torch.cat([part.reshape(-1) for part in parts])


def aliased(x):
    y = x * 2
    parts = [p * (i + 1) for i, p in enumerate(y.unbind(0))]
    with torch.no_grad():
        y[1].zero_()
    return torch.stack(parts).sum(0) + y.sum(1).mean()


FUNCTIONS = {
    "layer": (lambda x, w, b: (x @ w + b).tanh().sum(), X, W, B),
    "in place": (in_place, X),
    "indexing": (indexed, X),
    "views": (views, X),
    "aliases": (aliased, X),
    "reductions": (lambda x: x.max(1).values + x.var(1) + (x.softmax(1) * x).sum(1), X),
    "complex": (lambda z: (z.real * z.imag + z.abs()).sum() + (z * z.conj()).real.mean(), Z),
    "loop": (lambda x: sum((x[i] * i).sin() for i in range(3)), X),
    "numbers": (lambda x: 2 ** x.abs() - x / 3 + (x > 0) * 1.5, X),
    "dtypes": (lambda x: (x.to(torch.float32) * 2).double() + x.long().clamp(min=0), X),
    "sorting": (lambda x: x.sort(1).values * x.argsort(1), X),
}
NAMES = list(FUNCTIONS)
REAL = [n for n in NAMES if n not in ("complex", "dtypes")]


def call(name):
    f, *arrays = FUNCTIONS[name]
    return f, [jnp.asarray(a) for a in arrays]


@pytest.mark.parametrize("name", NAMES)
def test_jit_gives_what_eager_gives(name):
    f, arrays = call(name)
    close(np.asarray(jax.jit(lift(f))(*arrays)), host(f(*map(tensor, arrays))), name)


@pytest.mark.parametrize("name", NAMES)
def test_the_inputs_of_a_traced_function_are_not_changed(name):
    f, arrays = call(name)
    before = [np.asarray(a).copy() for a in arrays]
    jax.jit(lift(f))(*arrays)
    assert all((np.asarray(a) == b).all() for a, b in zip(arrays, before, strict=True))


@pytest.mark.parametrize("name", [n for n in REAL if n != "aliases"])  # jax knows no no_grad
def test_jax_grad_equals_backward(name):
    f, arrays = call(name)
    grads = jax.grad(lambda *a: lift(f)(*a).sum(), argnums=range(len(arrays)))(*arrays)
    leaves = [tensor(a).requires_grad_() for a in arrays]
    f(*leaves).sum().backward()
    for got, leaf in zip(grads, leaves, strict=True):
        close(np.asarray(got), host(leaf.grad), name)


def test_jax_grad_of_a_complex_input_is_the_conjugate():
    f, arrays = call("complex")
    leaf = tensor(arrays[0]).requires_grad_()
    f(leaf).backward()
    close(np.asarray(jnp.conj(jax.grad(lift(f))(arrays[0]))), host(leaf.grad), "convention")


def gradients(f, arrays):
    """Values of the gradients by torchlike's own backward."""
    leaves = [tensor(a).requires_grad_() for a in arrays]
    y = f(*leaves).sum()
    (y.real if y.dtype.is_complex else y).backward()
    return [leaf.grad.jax() for leaf in leaves]


@pytest.mark.parametrize("name", [n for n in NAMES if n != "dtypes"])
def test_backward_inside_jit(name):
    f, arrays = call(name)
    traced = jax.jit(lambda *a: gradients(f, a))(*arrays)
    for got, wanted in zip(traced, gradients(f, arrays), strict=True):
        close(np.asarray(got), np.asarray(wanted), name)


@pytest.mark.parametrize("name", ["layer", "in place", "views", "reductions"])
def test_backward_inside_jit_equals_pytorch(name):
    f, arrays = call(name)
    leaves = [to_torch(np.asarray(a)).requires_grad_() for a in arrays]
    with torch_alias():
        f(*leaves).sum().backward()
    for got, leaf in zip(jax.jit(lambda *a: gradients(f, a))(*arrays), leaves, strict=True):
        close(np.asarray(got), leaf.grad.numpy(), name)


class torch_alias:
    """Let the functions above mean PyTorch by ``torch``."""

    def __enter__(self):
        globals()["torch"] = real

    def __exit__(self, *exc):
        globals()["torch"] = torchlike


@pytest.mark.parametrize("name", [n for n in REAL if n != "layer"])
def test_vmap_is_a_loop(name):
    f, (x,) = call(name)
    batch = jnp.stack([x, x * 0.5, x - 1])
    expected = np.stack([host(f(tensor(row))) for row in batch])
    close(np.asarray(jax.vmap(lift(f))(batch)), expected, name)
    close(np.asarray(jax.jit(jax.vmap(lift(f), in_axes=-1, out_axes=1))(jnp.moveaxis(batch, 0, -1))),
          np.moveaxis(expected, 0, 1), name)  # fmt: skip


def test_vmap_of_a_backward():
    def grad_of(x):
        return gradients(lambda t: (t**3).sum(), [x])[0]

    batch = jnp.asarray(X)
    close(np.asarray(jax.vmap(grad_of)(batch)), 3 * X**2, "per-sample gradients")


def test_jvp_and_higher_orders():
    f = lift(lambda x: (x**3).sin().sum())
    x, v = jnp.asarray(B), jnp.ones(2)
    value, tangent = jax.jvp(f, (x,), (v,))
    close(np.asarray(tangent), np.sum(3 * B**2 * np.cos(B**3)), "jvp")
    assert np.allclose(jax.hessian(f)(x), jax.jacfwd(jax.grad(f))(x)) and value.shape == ()


def test_a_training_step_under_jit_equals_the_eager_one():
    def step(w, b, x):
        w, b = tensor(w).requires_grad_(), tensor(b).requires_grad_()
        loss = ((tensor(x) @ w + b).relu() ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for p in (w, b):
                p -= 0.1 * p.grad
        return loss.detach().jax(), w.detach().jax(), b.detach().jax()

    eager = jitted = (None, jnp.asarray(W), jnp.asarray(B))
    fast = jax.jit(step)
    for _ in range(4):
        eager, jitted = step(*eager[1:], jnp.asarray(X)), fast(*jitted[1:], jnp.asarray(X))
        for a, b in zip(eager, jitted, strict=True):
            close(np.asarray(a), np.asarray(b), "a step")


def test_inside_loops_of_jax():
    def body(carry, row):
        h = (tensor(carry) * 0.5 + tensor(row)).tanh()
        h[0] = 1
        return h.jax(), h.sum().jax()

    last, sums = jax.lax.scan(body, jnp.zeros(4), jnp.asarray(X))
    h, expected = torch.zeros(4, dtype=torch.float64), []
    for row in torch.tensor(X):
        h = (h * 0.5 + row).tanh()
        h[0] = 1
        expected.append(h.sum().item())
    close(np.asarray(last), host(h), "carry")
    close(np.asarray(sums), np.asarray(expected), "outputs")
    picked = jax.lax.cond(True, lift(lambda x: x + 1), lift(lambda x: x * 2), jnp.ones(2))
    assert picked.tolist() == [2.0, 2.0]


def test_eager_tensors_may_be_captured():
    """A closed-over tensor is a constant of the trace; writing to it there is the caller's mistake."""
    scale = torch.tensor(X)
    close(np.asarray(jax.jit(lift(lambda x: x * scale + scale[0]))(jnp.ones((3, 4)))), X + X[0], "a constant")


def test_what_a_traced_tensor_shows():
    seen = {}

    @jax.jit
    def f(x):
        t = tensor(x)
        v = t.t()[1:]
        v.add_(1)
        seen.update(
            shape=tuple(v.shape), stride=v.stride(), dtype=v.dtype, version=t._version, view=v._is_view(),
            base=v._base is t, text=repr(t), device=str(t.device),
        )  # fmt: skip
        return t.jax()

    f(jnp.ones((2, 3)))
    text, device = seen.pop("text"), seen.pop("device")
    assert seen == {
        "shape": (2, 2), "stride": (1, 3), "dtype": torch.float64, "version": 1, "view": True, "base": True,
    }  # fmt: skip
    assert "2" in text and "3" in text and device.startswith(("cpu", "cuda"))


@pytest.mark.parametrize("read", [
    lambda t: t.sum().item(), lambda t: bool((t > 0).all()), lambda t: t.tolist(), lambda t: t.numpy(),
    lambda t: float(t[0, 0]), lambda t: [1, 2][t.long().sum()], lambda t: t[t > 0], lambda t: t.nonzero(),
    lambda t: 1 if t.sum() > 0 else 2,
])  # fmt: skip
def test_asking_a_traced_tensor_for_numbers_is_refused(read):
    with pytest.raises((jax.errors.JAXTypeError, jax.errors.JAXIndexError, RuntimeError)):
        jax.jit(lambda x: (read(tensor(x)), x)[1])(jnp.ones((2, 2)))


def test_static_errors_are_the_same_under_tracing():
    for bad, error, match in (
        (lambda x: x + torch.ones(7), RuntimeError, "must match"),
        (lambda x: x.view(5), RuntimeError, "invalid for input of size"),
        (lambda x: x[9], IndexError, "out of bounds"),
        (lambda x: x.t()[0].expand(2, 3).add_(1), RuntimeError, "single memory location"),
    ):
        with pytest.raises(error, match=match):
            jax.jit(lift(bad))(jnp.ones((3, 3)))


def test_tracing_leaves_no_trace():
    """After a trace, eager calls of the same operators see arrays, and nothing refers to a tracer."""
    f, arrays = call("in place")
    with jax.checking_leaks():
        jax.jit(lift(f))(*arrays)
    assert isinstance(f(tensor(arrays[0])).jax(), jax.Array)
    assert not isinstance(f(tensor(arrays[0])).jax(), jax.core.Tracer)
