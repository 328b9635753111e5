"""Tensors in functions of jax: what passes through, and that no gradient is lost where the two meet."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout

import torchlike as torch
from torchlike import nn
from torchlike.interop import split, to_jax

BINARY = [
    *(getattr(operator, n) for n in "add sub mul truediv floordiv mod pow matmul".split()),
    *(getattr(operator, n) for n in "eq ne lt le gt ge".split()),
    *(getattr(operator, n) for n in "iadd isub imul itruediv ifloordiv imod ipow".split()),
]
INTEGER = [getattr(operator, n) for n in "and_ or_ xor lshift rshift iand ior ixor ilshift irshift".split()]
LOST = "requires grad, and its result would have no history"
BORDER = "stayed outside of the function of jax"


def array(*values, dtype=jnp.float32):
    return jnp.array(values, dtype)


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


# -- operators with arrays ---------------------------------------------------------------------------


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
def test_an_operator_takes_an_array_as_a_constant(op):
    x = leaf(2.0, 3.0)
    ours, expected = op(x * 1, array(2.0, 5.0)), op(x * 1, torch.tensor([2.0, 5.0]))
    assert type(ours) is torch.Tensor and ours.dtype == expected.dtype and torch.equal(ours, expected)
    assert ours.requires_grad == expected.requires_grad
    if ours.requires_grad and "floordiv" not in op.__name__:
        grads = [torch.autograd.grad(y.sum(), x)[0] for y in (ours, expected)]
        assert torch.equal(*grads)


@pytest.mark.parametrize("op", INTEGER, ids=lambda op: op.__name__)
def test_an_operator_of_integers(op):
    given = [torch.tensor([6, 5]) for _ in range(2)]
    assert torch.equal(op(given[0], array(1, 2, dtype=jnp.int64)), op(given[1], torch.tensor([1, 2])))


@pytest.mark.parametrize("op", BINARY[:14], ids=lambda op: op.__name__)
def test_an_array_on_the_left_of_what_requires_grad_is_refused(op):
    with pytest.raises(RuntimeError, match=LOST):
        op(array(2.0, 5.0), leaf(2.0, 3.0))
    with torch.no_grad():
        assert isinstance(op(array(2.0, 5.0), leaf(2.0, 3.0)), jax.Array)
    assert isinstance(op(array(2.0, 5.0), torch.tensor([2.0, 3.0])), jax.Array)


def test_in_place_keeps_the_object_and_its_history():
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y
    z *= array(3.0, 4.0)
    assert z is y and z.grad_fn.name() == "MulBackward0"
    z.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_modes_and_subclasses_see_the_operator():
    class Doubled(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    seen = []
    out = torch.ones(2).as_subclass(Doubled) + array(1.0, 2.0)
    assert type(out) is Doubled and out.tolist() == [2.0, 3.0] and seen[0] in ("add", "__add__")


def test_what_has_no_operator_is_refused():
    with pytest.raises(TypeError, match="unsupported operand"):
        torch.ones(2) + object()
    with pytest.raises(TypeError, match="must be Tensor, not"):
        torch.add(torch.ones(2), array(1.0, 2.0))
    with pytest.raises(TypeError):
        torch.ones(2) + jax.random.key(0)


# -- functions of jax --------------------------------------------------------------------------------


def test_jnp_takes_a_tensor():
    t = torch.tensor([1.0, 2.0])
    np.testing.assert_array_equal(jnp.sin(t), jnp.sin(array(1.0, 2.0)))
    np.testing.assert_array_equal(jnp.where(array(1, 0, dtype=bool), t, 0.0), [1.0, 0.0])
    np.testing.assert_array_equal(jnp.asarray(t), [1.0, 2.0])


@pytest.mark.parametrize(
    "f",
    [
        jnp.sin,
        lambda t: jnp.where(t.detach().jax() > 0, t, 0),
        lambda t: jnp.sin(t * 2),
        lambda t: jax.jit(lambda u: jnp.sin(u))(t),
        lambda t: jax.jit(lambda u: jnp.sin(u * 2))(t),
        lambda t: jax.jit(lambda u: jax.jit(jnp.sin)(u))(t),
        lambda t: jax.vmap(lambda u: jnp.sin(u))(t),
        lambda t: jax.jit(lambda u: jax.vmap(lambda v: jnp.sin(v))(u))(t),
        lambda t: jax.jit(lambda x: x * t)(array(1.0, 2.0)),
        lambda t: jax.jit(lambda x: jnp.sin(torch.from_jax_array(x) * t))(array(1.0, 2.0)),
        lambda t: jax.jit(lambda x: x + torch.from_jax_array(x) * (t * 2))(array(1.0, 2.0)),
        lambda t: jax.vmap(lambda x: jnp.sin(torch.from_jax_array(x) * t))(array(1.0, 2.0)),
    ],
)
def test_jnp_refuses_what_requires_grad(f):
    with pytest.raises(RuntimeError, match=LOST):
        f(leaf(1.0, 2.0))
    with torch.no_grad():
        f(leaf(1.0, 2.0))


@pytest.mark.parametrize(
    "f",
    [
        jax.grad(lambda t: jnp.sin(t).sum()),
        jax.grad(lambda t: jnp.sin(t * 1).sum()),
        jax.grad(jax.jit(lambda t: jnp.sin(t * 1).sum())),
        jax.jit(jax.grad(lambda t: jnp.sin(t).sum())),
        jax.grad(lambda t: jax.vmap(lambda v: jnp.sin(v))(t).sum()),
        jax.grad(lambda t: torch.sin(t).sum().jax()),
        jax.jit(jax.grad(lambda t: torch.sin(t).sum().jax())),
        lambda t: jax.vjp(lambda t: torch.sin(t), t)[1](torch.ones(2))[0],
    ],
)
def test_what_jax_differentiates(f):
    np.testing.assert_allclose(f(torch.tensor([1.0, 2.0])).jax(), np.cos([1.0, 2.0]), rtol=1e-6)


def test_a_gradient_has_the_class_of_what_it_is_of():
    p = nn.Parameter(torch.tensor([1.0, 2.0]))
    grad = jax.jit(jax.grad(lambda p: jnp.sin(p).sum()))(p)
    assert type(grad) is nn.Parameter and grad.requires_grad and grad.grad is None


@pytest.mark.parametrize("jit", [lambda f: f, jax.jit])
def test_a_loop_of_jax_trains_parameters(jit):
    model = nn.Linear(3, 1)
    x = torch.randn(8, 4, 3)

    def loss(parameters, x):
        return torch.func.functional_call(model, parameters, (x,)).square().mean().jax()

    def step(parameters, x):
        value, grads = jax.value_and_grad(loss)(parameters, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, grads), value

    trained, values = jit(lambda p, x: jax.lax.scan(step, p, x))(dict(model.named_parameters()), x)
    opt = torch.optim.SGD(model.parameters(), 0.1)
    expected = []
    for batch in x:
        opt.zero_grad()
        out = model(batch).square().mean()
        out.backward()
        opt.step()
        expected.append(out.item())
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    torch.testing.assert_close(dict(trained), dict(model.named_parameters()))


def test_trees():
    p = {"a": nn.Parameter(torch.ones(2, 3)), "b": torch.zeros(2)}
    shapes = jax.tree.map(lambda a: str(a.shape), p)
    assert jax.tree.leaves(shapes) == ["(2, 3)", "(2,)"] and "<'(2,)' in a tree of jax>" in repr(shapes["b"])
    with pytest.raises(TypeError, match="stands for|Stand"):
        shapes["b"] + 1
    assert jax.tree.map(lambda a, s: (a.shape, s), p, shapes)["b"].grad is None
    flags = jax.tree.map(lambda a: None, p)
    assert jax.tree.structure(flags) == jax.tree.structure(jax.tree.map(lambda a: None, p))
    assert not jax.tree.leaves(flags)
    assert type(flags["a"]) is nn.Parameter
    whole = jax.tree.map(lambda a: a.astype(int), p)
    assert whole["a"].dtype == torch.int64 and not whole["a"].requires_grad
    doubled = jax.tree.map(lambda a: a * 2, p)
    assert type(doubled["a"]) is nn.Parameter and type(doubled["b"]) is torch.Tensor
    assert type(jax.device_get(p)["a"]) is nn.Parameter
    assert type(jax.device_put(p)["b"]) is torch.Tensor
    t = torch.ones(2, requires_grad=True) * 2
    assert jax.block_until_ready(t) is t
    shape = jax.eval_shape(lambda t: t.view(3, 1), torch.ones(3))
    assert shape.is_meta and shape.shape == (3, 1) and shape.dtype == torch.float32


def test_a_view_passes_as_its_elements():
    base = torch.arange(6.0)
    np.testing.assert_array_equal(jax.jit(lambda t: t * 1)(base[1::2]).jax(), [1, 3, 5])
    np.testing.assert_array_equal(jnp.sum(base.view(2, 3).t(), axis=0), [3, 12])


@pytest.mark.parametrize("f", [jax.jit(lambda t: t * 2), jax.vmap(lambda t: t * 2), jax.jit(jax.jit(lambda t: t * 2))])
@pytest.mark.parametrize("make", [leaf, lambda *v: leaf(*v) * 1], ids=["leaf", "node"])
def test_backward_across_a_border_is_refused(f, make):
    out = f(make(1.0, 2.0))
    assert out.tolist() == [2.0, 4.0] and out.requires_grad
    with pytest.raises(RuntimeError, match=BORDER):
        (out.sum() + leaf(1.0).sum()).backward()
    assert not f(make(1.0, 2.0).detach()).requires_grad


def test_a_leaf_that_comes_back_is_a_leaf():
    out = jax.jit(lambda t: t)(leaf(1.0, 2.0))
    out.sum().backward()
    assert out.grad.tolist() == [1.0, 1.0]


def test_the_tape_inside():
    def f(t):
        return torch.autograd.grad((t**3).sum(), t)[0]

    assert jax.jit(f)(leaf(1.0, 2.0)).tolist() == [3.0, 12.0]


def test_a_loss_that_is_a_tensor_says_what_to_return():
    with pytest.raises(ValueError, match=r"tensor\.jax\(\), also for the result of a function that jax\.grad"):
        jax.grad(lambda t: t.sum())(torch.ones(2))


# -- what a traced function may not do to the outside -------------------------------------------------


def unchanged(f, *outside):
    before = [(t.tolist(), t._version, t.grad) for t in outside]
    with pytest.raises(RuntimeError, match="that jax traces .* would change a tensor of shape"):
        f(torch.ones(2))
    assert [(t.tolist(), t._version, t.grad) for t in outside] == before


@pytest.mark.parametrize(
    "write",
    [
        lambda w, t: w.add_(t),
        lambda w, t: w[:1].mul_(t[:1]),
        lambda w, t: w.__setitem__(0, t[0]),
        lambda w, t: w.copy_(t),
        lambda w, t: torch.add(t, t, out=w),
        lambda w, t: w.data.add_(t),
        lambda w, t: setattr(w, "data", t),
        lambda w, t: w.set_(t),
    ],
)
@pytest.mark.parametrize("wrap", [jax.jit, jax.vmap, lambda f: jax.grad(lambda t: f(t).sum().jax())])
def test_a_write_is_refused(write, wrap):
    w = torch.zeros(2)

    def f(t):
        write(w, t if t.ndim else t.expand(2))
        return t * 1

    unchanged(wrap(f), w)


@pytest.mark.parametrize(
    "change", [lambda w: w.resize_(7), lambda w: w.unsqueeze_(0), lambda w: w.t_(), lambda w: w.as_strided_((1,), (1,))]
)
def test_a_change_of_shape_is_refused_where_jax_makes_a_program(change):
    w = torch.zeros(2)
    unchanged(jax.jit(lambda t: (change(w), t * 1)[1]), w)
    assert w.shape == (2,)
    assert jax.jit(lambda t: change(t * 1))(torch.ones(2)).numel()


class Counting(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.register_buffer("seen", start)

    def forward(self, x):
        self.seen = self.seen + x
        return self.seen * 2


@pytest.mark.parametrize(
    "give",
    [
        lambda m, t: m.register_buffer("more", t),
        lambda m, t: setattr(m, "seen", t),
        lambda m, t: setattr(m, "more", nn.Buffer(t)),
        lambda m, t: setattr(m, "more", nn.Parameter(t)),
        lambda m, t: m.register_parameter("more", nn.Parameter(t)),
        lambda m, t: m(t),
    ],
)
@pytest.mark.parametrize("wrap", [jax.jit, jax.vmap, lambda f: jax.grad(lambda t: f(t).sum().jax())])
def test_a_module_from_outside_keeps_its_buffers_and_parameters(give, wrap):
    m = Counting(torch.zeros(()))
    with pytest.raises(RuntimeError, match="would set the .* of a module, a Counting, that it did not.*to_jax"):
        wrap(lambda t: (give(m, t), t * 1)[1])(torch.ones(2))
    assert list(m.state_dict()) == ["seen"] and m.seen.tolist() == 0
    m.seen = torch.ones(())
    assert m(torch.ones(2)).tolist() == [4, 4]


def test_buffers_are_set_in_modules_of_the_function_and_of_to_jax():
    assert jax.jit(lambda t: Counting(t)(t))(torch.ones(2)).tolist() == [4, 4]
    m = Counting(torch.zeros(2))
    parameters, buffers = split(m)
    out, after = jax.jit(to_jax(m))(parameters, buffers, jnp.ones(2, jnp.float32))
    assert out.tolist() == [2, 2] and after["seen"].tolist() == [1, 1] and m.seen.tolist() == [0, 0]
    wide, _ = jax.vmap(to_jax(m), in_axes=(None, None, 0))(parameters, buffers, jnp.ones((3, 2), jnp.float32))
    assert wide.shape == (3, 2)


def test_a_write_of_constants_is_refused():
    w = torch.zeros(2)
    unchanged(jax.jit(lambda t: (w.fill_(3), t)[1]), w)
    jax.vmap(lambda t: (w.fill_(3), t)[1])(torch.ones(2))  # runs once, as any Python code
    assert w.tolist() == [3.0, 3.0]


def test_batch_norm_is_refused_and_left_as_it_was():
    bn = nn.BatchNorm1d(3)
    with pytest.raises(RuntimeError, match=r"to_jax\(module\), which returns the new values of its buffers"):
        jax.jit(bn)(torch.randn(4, 3))
    assert bn.running_mean.tolist() == [0.0] * 3 and bn.num_batches_tracked.item() == 0
    bn(torch.randn(4, 3))


def test_backward_into_a_parameter_is_refused():
    p = nn.Parameter(torch.ones(2))

    def f(t):
        (t * p).sum().backward()
        return t

    unchanged(jax.jit(f), p)
    p.grad = torch.ones(2)
    unchanged(jax.jit(f), p)


def test_its_own_tensors_may_be_written():
    def f(t):
        own = torch.zeros(2)
        own.add_(t)
        own[0] = 5
        t.mul_(2)
        return own + t

    x = torch.ones(2)
    assert jax.jit(f)(x).tolist() == [7.0, 3.0] and x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("draw", [torch.rand_like, nn.functional.dropout, torch.bernoulli, lambda t: torch.randn(2)])
def test_random_numbers_are_refused(draw):
    with pytest.raises(RuntimeError, match=r"random numbers .* key=jax.random.key"):
        jax.jit(draw)(torch.full((2,), 0.5))


def _sharded(t):
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(lambda t: t * 2, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"))(t)


FORMS = {
    "shard_map": (_sharded, [2.0, 4.0, 6.0]),
    "switch": (lambda t: jax.lax.switch(1, [lambda t: t, lambda t: t * 5], t), [5.0, 10.0, 15.0]),
    "while_loop": (lambda t: jax.lax.while_loop(lambda t: (t.sum() < 20).jax(), lambda t: t * 2, t), [4.0, 8.0, 12.0]),
    "fori_loop": (lambda t: jax.lax.fori_loop(0, 3, lambda i, t: t + t[i], t), [12.0, 13.0, 14.0]),
    "map": (lambda t: jax.lax.map(lambda t: t * t, t), [1.0, 4.0, 9.0]),
    "associative_scan": (lambda t: jax.lax.associative_scan(lambda a, b: a + b, t), [1.0, 3.0, 6.0]),
    "linearize": (lambda t: jax.linearize(lambda t: t * t, t)[1](t), [2.0, 8.0, 18.0]),
    "checkpoint": (lambda t: jax.grad(lambda t: jax.checkpoint(lambda u: u * u)(t).sum().jax())(t), [2.0, 4.0, 6.0]),
    "static argument": (lambda t: jax.jit(lambda t, n: t * n, static_argnums=1)(t, 3), [3.0, 6.0, 9.0]),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_tensor_passes_through_jax_s_control_flow(form):
    f, expected = FORMS[form]
    found = f(torch.tensor([1.0, 2.0, 3.0]))
    assert type(found) is torch.Tensor and found.tolist() == expected


READS = {
    "item": lambda t: t.sum().item(),
    "if": lambda t: t if t.sum() > 0 else -t,
    "numpy": lambda t: t.numpy(),
    "float": lambda t: float(t[0]),
    "int": lambda t: int(t[0]),
    "complex": lambda t: complex(t[0]),
    "tolist": lambda t: t.tolist(),
    "index": lambda t: [1, 2][t[0].long()],
    "range": lambda t: range(t[0].long()),
    "format": lambda t: f"{t[0]:.2f}",
    "in": lambda t: 1.0 in t,
    "equal": lambda t: torch.equal(t, t),
    "allclose": lambda t: torch.allclose(t, t),
    "is_nonzero": lambda t: torch.is_nonzero(t[0]),
}
OF_JAX = [
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
]


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
@pytest.mark.parametrize("read", READS)
def test_values_are_not_known(read, transform):
    """Every error of jax for such a read names this one, and it says what to do."""
    for kind in OF_JAX:
        with pytest.raises(kind, match=r"not known while jax traces.*torch\.where.*static_argnums.*jax\.debug\.print"):
            transform(READS[read])(torch.ones(2, 2) if transform is jax.vmap else torch.ones(2))


def test_a_traced_tensor_is_shown():
    shown = []
    jax.jit(lambda t: shown.append(str(t)) or t)(torch.ones(2))
    assert len(shown) == 1 and shown[0].startswith("tensor(<traced>, size=(2,)"), shown


SEEDS = {
    "manual_seed": lambda: torch.manual_seed(1),
    "seed": lambda: torch.seed(),
    "default": lambda: torch.default_generator.manual_seed(1),
    "own": lambda: torch.Generator().manual_seed(1),
    "state": lambda: torch.set_rng_state(OTHER_STATE),
}
OTHER_STATE = torch.Generator().manual_seed(77).get_state()


@pytest.mark.parametrize("seed", SEEDS)
def test_seeds_are_refused(seed):
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match=r"seeded inside a function of jax.*key=jax\.random\.key"):
        jax.jit(lambda x: (SEEDS[seed](), x)[1])(1.0)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_state_that_is_put_back_unchanged_is_none():
    def f(t):
        with torch.random.fork_rng():
            return torch.utils.checkpoint.checkpoint(torch.sin, t, use_reentrant=False)

    assert jax.jit(f)(torch.zeros(2)).tolist() == [0.0, 0.0]


# -- arrays where tensors are indexed ----------------------------------------------------------------


@pytest.mark.parametrize(
    "index",
    [
        lambda a: a(1, 0),
        lambda a: (slice(None), a(1, 0)),
        lambda a: (slice(None), a(1)[0]),
        lambda a: (a(1, 0), a(2, 2)),
    ],
)
def test_arrays_are_indices(index):
    t = torch.arange(6.0).reshape(2, 3)
    ours = index(lambda *v: jnp.array(v))
    theirs = index(lambda *v: torch.tensor(v))
    assert torch.equal(t[ours], t[theirs])
    t[ours] = 0.0
    assert not t[theirs].any()


def test_a_tracer_is_an_index_and_reads_of_views_leave_no_tracer():
    t = torch.arange(6.0).reshape(2, 3)
    assert jax.jit(lambda i: t[i])(jnp.array([1, 0])).tolist() == [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]
    assert jax.jit(lambda i: t[:, i])(jnp.array(1)).tolist() == [1.0, 4.0]


INSIDE = "inside of a function transform .*from_jax"


@pytest.mark.parametrize(
    "f", [lambda t: array(1.0, 2.0, 3.0)[: len(t)] + t, jnp.sin, lambda t: jnp.sin(t[1:]), lambda t: array(2.0) * t[:1]]
)
def test_jax_refuses_what_has_a_tangent(f):
    x, level = torch.ones(3), torch.autograd.forward_ad.dual_level()
    with pytest.raises(RuntimeError, match=INSIDE):
        torch.func.jvp(lambda t: torch.as_tensor(f(t)), (x,), (x,))
    with level, pytest.raises(RuntimeError, match=INSIDE):
        f(torch.autograd.forward_ad.make_dual(x, x))
    torch.func.jvp(lambda t: t * torch.as_tensor(f(torch.ones(3))).sum(), (x,), (x,))  # a constant


@pytest.mark.parametrize("f", [lambda t: array(1.0)[0] + t, jnp.sin, jax.jit(lambda t: t * 2), jax.vmap(jnp.sin)])
def test_jax_refuses_one_of_many_examples(f):
    with pytest.raises(RuntimeError, match=INSIDE):
        torch.vmap(f)(torch.ones(3, 2))


@pytest.mark.parametrize("f", [jnp.sin, jax.jit(lambda t: t * 2), lambda t: jax.tree.map(jnp.sin, t), jax.tree.leaves])
def test_jax_refuses_what_is_differentiated_by_torch_func(f):
    x = torch.ones(3)
    for given in (lambda t: t, lambda t: t * 2):
        with pytest.raises(RuntimeError, match=INSIDE):
            torch.func.grad(lambda t: f(given(t))[0])(x)  # noqa: B023
    with torch.no_grad():
        constant = f(torch.ones(3, requires_grad=True))[0]
    assert torch.func.grad(lambda t: (t * torch.as_tensor(constant)).sum())(x).shape == (3,)
    under = torch.func.grad(lambda t: t.sum() * no_grad(f)(t).detach())(torch.ones(3))
    assert torch.equal(under, torch.as_tensor(f(torch.ones(3))[0]).sum().expand(3))


def no_grad(f):
    return torch.no_grad()(lambda t: torch.as_tensor(f(t)[0]).sum())


def test_an_array_on_the_right_keeps_tangents_and_examples():
    x = torch.tensor([1.0, 2.0])
    assert torch.func.jvp(lambda t: t * array(2.0, 3.0), (x,), (x,))[1].tolist() == [2, 6]
    assert torch.vmap(lambda t: t * array(2.0, 3.0))(x).tolist() == [[2, 3], [4, 6]]


# -- what is no tree ---------------------------------------------------------------------------------

STRANGERS = {
    "an argument of jit": lambda m: jax.jit(lambda m: 1)(m),
    "a keyword argument of jit": lambda m: jax.jit(lambda *, m: 1)(m=m),
    "an argument of jit, in a tree": lambda m: jax.jit(lambda t: 1)({"m": [m]}),
    "a result of jit": lambda m: jax.jit(lambda x: m)(1.0),
    "an argument of grad": lambda m: jax.grad(lambda m: 0.0)(m),
    "an argument of eval_shape": lambda m: jax.eval_shape(lambda m: 1, m),
    "an argument of make_jaxpr": lambda m: jax.make_jaxpr(lambda m: 1)(m),
    "a carry of scan": lambda m: jax.lax.scan(lambda m, x: (m, x), m, jnp.ones(2)),
    "an operand of cond": lambda m: jax.lax.cond(True, lambda m: 1, lambda m: 2, m),
    "device_put": lambda m: jax.device_put(m),
    "an array": lambda m: jnp.asarray(m),
    "an operand": lambda m: jnp.zeros_like(m),
}


@pytest.mark.parametrize("pass_on", STRANGERS.values(), ids=STRANGERS)
@pytest.mark.parametrize("kind", ["module", "optimizer"])
def test_what_is_no_tree_is_refused_with_the_way_out(pass_on, kind):
    module = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    given, way = (module, "interop.to_jax") if kind == "module" else (optimizer, "optax")
    with pytest.raises(ValueError, match=f"not an object of {type(given).__name__}.*{way}"):
        pass_on(given)


@pytest.mark.parametrize("length", [3, 600])  # what numpy computes at first, and what is compiled at once
@pytest.mark.parametrize("made", ["as_tensor", "tensor", "from_dlpack", "from_jax_array", "tree"])
def test_arrays_of_another_memory_layout(made, length):
    x = jnp.arange(length * 1.0 * length).reshape(length, length)
    turned = jax.device_put(x, Format(Layout(major_to_minor=(1, 0)), x.sharding))
    if made == "tree":
        t = jax.tree.map(lambda _: turned, torch.zeros(length, length, dtype=torch.float64))
    else:
        t = getattr(torch, made)(turned)
    double = torch.compile(lambda t: t * 2)
    for f in (lambda t: t * 2, double):
        for given in (torch.as_tensor(x), t, t):
            assert np.array_equal(f(given).numpy(), np.asarray(x) * 2)


# -- arrays that a function of jax consumes -----------------------------------------------------------


def _of_leaf(x):
    (x + 0).backward()
    return x.grad


def _retained(x):
    y = x + 0
    y.retain_grad()
    y.backward()
    return y.grad


def _hooked(x):
    seen, y = [], x + 0
    y.register_hook(seen.append)
    y.backward()
    return seen[0]


GRADIENTS = {
    "leaf": _of_leaf, "retained": _retained, "hook": _hooked,
    "autograd.grad": lambda x: torch.autograd.grad(x + 0, x)[0],
    "root": lambda x: (lambda y: torch.autograd.grad(y, (y, x))[0])(x + 0),
    "func.grad": torch.func.grad(lambda x: x + 0),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_donated_gradient_is_that_of_one_tensor(name):
    other = _of_leaf(leaf(2.0)[0].detach().requires_grad_())
    given = GRADIENTS[name](torch.tensor(2.0, requires_grad=True)).jax()
    jax.jit(lambda x: x * 2, donate_argnums=0)(given)
    assert given.is_deleted() and other.item() == 1 and _of_leaf(torch.tensor(3.0, requires_grad=True)).item() == 1
