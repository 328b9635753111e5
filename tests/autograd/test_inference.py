"""Inference mode: which tensors are inference tensors, what is refused of them, and what is not."""

import copy
import io
import pickle

import numpy as np
import pytest
from both import agree, attempt
from story_kit import grid, leaf, said, story

import torchlike

SAVED = "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode"
WRITTEN = "Inplace update to inference tensor outside InferenceMode is not allowed"
COUNTED = "Inference tensors do not track version counter"
SET = "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed"


def made(t, make=None):
    """An inference tensor: what ``make()`` gives in inference mode, or six numbers."""
    with t.inference_mode():
        return make() if make else t.arange(1.0, 7.0, dtype=t.float64).reshape(2, 3).clone()


def normal(t):
    return t.arange(1.0, 7.0, dtype=t.float64).reshape(2, 3).clone()


def kind(x):
    """How a tensor stands to autograd."""
    return x.is_inference(), x.requires_grad, x.is_leaf, x._is_view()


# -- what is made --------------------------------------------------------------------------------------

MAKERS = {
    "ones": lambda t: t.ones(2),
    "zeros": lambda t: t.zeros(2),
    "empty": lambda t: t.empty(2).zero_(),  # 0 times what PyTorch leaves there may be NaN
    "full": lambda t: t.full((2,), 1.0),
    "tensor": lambda t: t.tensor([1.0]),
    "as_tensor": lambda t: t.as_tensor([1.0]),
    "as_tensor of an array": lambda t: t.as_tensor(np.ones(2)),
    "asarray": lambda t: t.asarray([1.0]),
    "from_numpy": lambda t: t.from_numpy(np.ones(2)),
    "from_dlpack": lambda t: t.from_dlpack(np.ones(2)),
    "frombuffer": lambda t: t.frombuffer(bytearray(8), dtype=t.float32),
    "Tensor": lambda t: t.Tensor([1.0]),
    "FloatTensor": lambda t: t.FloatTensor([1.0]),
    "arange": lambda t: t.arange(3),
    "linspace": lambda t: t.linspace(0, 1, 3),
    "logspace": lambda t: t.logspace(0, 1, 3),
    "eye": lambda t: t.eye(2),
    "rand": lambda t: t.rand(2) * 0,
    "randn": lambda t: t.randn(2) * 0,
    "randint": lambda t: t.randint(1, (2,)),
    "randperm": lambda t: t.randperm(1),
    "normal": lambda t: t.normal(0.0, 0.0, (2,)),
    "bernoulli": lambda t: t.bernoulli(t.ones(2)),
    "multinomial": lambda t: t.multinomial(t.ones(1), 1),
    "zeros_like": lambda t: t.zeros_like(t.ones(2)),
    "new_zeros": lambda t: t.ones(2).new_zeros(3),
    "new_tensor": lambda t: t.ones(2).new_tensor([1.0]),
    "empty_strided": lambda t: t.empty_strided((2,), (1,)).zero_(),
    "complex": lambda t: t.complex(t.ones(2), t.ones(2)),
    "cat": lambda t: t.cat([t.ones(2), t.ones(2)]),
    "stack": lambda t: t.stack([t.ones(2)]),
    "nonzero": lambda t: t.ones(2).nonzero(),
    "where": lambda t: t.where(t.ones(2) > 0)[0],
    "sort": lambda t: t.ones(2).sort()[1],
    "split": lambda t: t.ones(4).split(2)[0],
    "meshgrid": lambda t: t.meshgrid(t.ones(2), t.ones(2), indexing="ij")[0],
    "broadcast_to": lambda t: t.broadcast_to(t.ones(1), (2,)),
    "tril_indices": lambda t: t.tril_indices(2, 2),
    "scalar_tensor": lambda t: t.scalar_tensor(1.0),
    "one_hot": lambda t: t.nn.functional.one_hot(t.arange(2)),
    "double": lambda t: t.ones(2).double(),
    "item assigned": lambda t: assigned(t.ones(2)),
    "Parameter": lambda t: t.nn.Parameter(t.ones(2)),
    "Linear": lambda t: t.nn.Linear(2, 2).bias * 0,
    "requires_grad": lambda t: t.ones(2, requires_grad=True),
    "requires_grad_": lambda t: t.ones(2).requires_grad_(),
    "detach": lambda t: t.ones(2).detach(),
    "clone": lambda t: t.ones(2).clone(),
    "view": lambda t: t.ones(2).view(1, 2),
    "real": lambda t: t.ones(2, dtype=t.complex64).real,
}


def assigned(x):
    x[0] = 3.0
    return x


@pytest.mark.parametrize("name", MAKERS)
def test_made_inside(name):
    def f(t):
        x = made(t, lambda: MAKERS[name](t))
        return x, kind(x), said(lambda: x._version, COUNTED)

    agree(f)


OF_A_NORMAL = {
    "itself": lambda t, n: n,
    "sum": lambda t, n: n + 1,
    "view": lambda t, n: n.view(6),
    "index": lambda t, n: n[0],
    "transposed": lambda t, n: n.t(),
    "expanded": lambda t, n: n.expand(2, 2, 3),
    "detached": lambda t, n: n.detach(),
    "data": lambda t, n: n.data,
    "contiguous": lambda t, n: n.contiguous(),
    "same dtype": lambda t, n: n.to(t.float64),
    "other dtype": lambda t, n: n.to(t.float32),
    "reshaped": lambda t, n: n.reshape(3, 2),
    "reshaped copy": lambda t, n: n.t().reshape(6),
    "cloned": lambda t, n: n.clone(),
    "changed": lambda t, n: n.clone().add_(1),
    "half": lambda t, n: n.split(1)[0],
    "row": lambda t, n: n.unbind()[0],
    "with an inference tensor": lambda t, n: n + made(t),
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", OF_A_NORMAL)
def test_made_inside_of_a_normal_tensor(name, requires_grad):
    def f(t):
        n = normal(t).requires_grad_(requires_grad)
        with t.inference_mode():
            x = OF_A_NORMAL[name](t, n)
        return x, kind(x), n._version, said(lambda: x._version, COUNTED)

    agree(f)


OF_AN_INFERENCE = {
    **{k: v for k, v in OF_A_NORMAL.items() if k != "changed"},
    "tensor": lambda t, i: t.tensor(i),
    "as_tensor": lambda t, i: t.as_tensor(i),
    "Parameter": lambda t, i: t.nn.Parameter(i, requires_grad=False),
    "zeros_like": lambda t, i: t.zeros_like(i),
    "new_ones": lambda t, i: i.new_ones(2),
    "numpy": lambda t, i: t.from_numpy(i.numpy()),
    "cpu": lambda t, i: i.cpu(),
    "deepcopy": lambda t, i: copy.deepcopy(i),
    "pickled": lambda t, i: pickle.loads(pickle.dumps(i)),
    "saved and loaded": lambda t, i: loaded(t, i),
    "as complex": lambda t, i: t.view_as_complex(i.view(3, 2)),
}


def loaded(t, i):
    file = io.BytesIO()
    t.save(i, file)
    file.seek(0)
    return t.load(file)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", OF_AN_INFERENCE)
def test_made_of_an_inference_tensor(name, inside):
    def f(t):
        i = made(t)
        with t.inference_mode(inside):
            x = OF_AN_INFERENCE[name](t, i)
        return x, kind(x)

    agree(f)


@story
def test_is_inference_as_a_function(t):
    error = said(lambda: t.is_inference(3), "must be Tensor, not int")
    return t.is_inference(made(t)), t.is_inference(t.ones(2)), error


@story
def test_reading_an_inference_tensor(t):
    i = made(t)
    return (i.tolist(), i.sum().item(), bool((i > 0).all()), len(i), i.grad, i.grad_fn, tuple(i.shape), repr(i),
            list(i[0]), 3.0 in i, i.numpy(), i.detach_() is i)  # fmt: skip


@story
def test_shown(t):
    p = made(t, lambda: t.ones(2, requires_grad=True))
    return repr(p), repr(made(t, lambda: p * 2))


# -- what is refused -----------------------------------------------------------------------------------

SAVING = {
    "mul": lambda t, x, i: x * i,
    "mul, the other way": lambda t, x, i: i * x,
    "div": lambda t, x, i: x / i,
    "dividend": lambda t, x, i: i / x,
    "pow": lambda t, x, i: x**i,
    "base": lambda t, x, i: i**x,
    "matmul": lambda t, x, i: x @ i.t(),
    "matmul, the other way": lambda t, x, i: i.t() @ x,
    "linear, weight": lambda t, x, i: t.nn.functional.linear(x, i),
    "linear, input": lambda t, x, i: t.nn.functional.linear(i, x),
    "where": lambda t, x, i: t.where(i > 0, x, x),
    "masked_fill": lambda t, x, i: x.masked_fill(i > 3, 0.0),
    "gather": lambda t, x, i: x.gather(0, (i * 0).long()),
    "index_select": lambda t, x, i: x.index_select(0, (i[0] * 0).long()),
    "index": lambda t, x, i: x[(i[0] * 0).long()],
    "by a number of it": lambda t, x, i: x * i.sum(),
    "in place": lambda t, x, i: (x + 0).mul_(i),
    "atan2": lambda t, x, i: t.atan2(x, i),
    "maximum": lambda t, x, i: t.maximum(x, i),
    "lerp": lambda t, x, i: t.lerp(x, x, i),
    "mse_loss": lambda t, x, i: t.nn.functional.mse_loss(x, i),
}
LINEAR = {
    "add": lambda t, x, i: x + i,
    "sub": lambda t, x, i: i - x,
    "add in place": lambda t, x, i: (x + 0).add_(i),
    "copy_": lambda t, x, i: (x + 0).copy_(i),
    "cat": lambda t, x, i: t.cat([x, i]),
    "stack": lambda t, x, i: t.stack([i, x]),
    "view_as": lambda t, x, i: x.view_as(i),
    "expand_as": lambda t, x, i: x.expand_as(i),
    "where": lambda t, x, i: t.where(x > 0, x, i),
    "a clone": lambda t, x, i: x * i.clone(),
    "copied into": lambda t, x, i: x * t.zeros(2, 3, dtype=t.float64).copy_(i),
    "its number": lambda t, x, i: x * i.sum().item(),
}


@pytest.mark.parametrize("name", SAVING)
def test_not_saved_for_backward(name):
    agree(lambda t: said(lambda: SAVING[name](t, grid(t), made(t)), SAVED))


@pytest.mark.parametrize("name", SAVING)
def test_saved_where_nothing_requires_grad(name):
    agree(lambda t: kind(SAVING[name](t, normal(t), made(t))))


@pytest.mark.parametrize("name", LINEAR)
def test_used_where_nothing_is_saved(name):
    def f(t):
        x = grid(t)
        y = LINEAR[name](t, x, made(t))
        y.sum().backward()
        return y, kind(y), x.grad

    agree(f)


@story
def test_a_refused_call_changes_nothing(t):
    x, i = grid(t), made(t)
    y = x + 0
    version = y._version
    return said(lambda: y.mul_(i), SAVED), y, y._version == version, y.requires_grad


@story
def test_set_requires_grad_outside(t):
    i = made(t)
    return (said(lambda: i.requires_grad_(), SET), said(lambda: setattr(i, "requires_grad", True), SET),
            i.requires_grad_(False) is i, said(lambda: t.nn.Parameter(i), SET), kind(i))  # fmt: skip


WRITES = {
    "add_": lambda t, i: i.add_(1),
    "zero_": lambda t, i: i.zero_(),
    "fill_": lambda t, i: i.fill_(2),
    "copy_": lambda t, i: i.copy_(normal(t)),
    "item": lambda t, i: i.__setitem__(0, 1.0),
    "mask": lambda t, i: i.__setitem__(i > 3, 1.0),
    "out": lambda t, i: t.mul(normal(t), 2, out=i),
    "of a view": lambda t, i: i.view(6).add_(1),
    "of a row": lambda t, i: i[0].add_(1),
    "clamp_": lambda t, i: i.clamp_(max=2),
    "transposed": lambda t, i: i.t_(),
    "unsqueezed": lambda t, i: i.unsqueeze_(0),
    "squeezed": lambda t, i: i.squeeze_(),
    "normal_": lambda t, i: i.normal_(3.0, 0.0),
    "index_fill_": lambda t, i: i.index_fill_(0, t.tensor([0]), 7.0),
    "scatter_": lambda t, i: i.scatter_(0, t.zeros(1, 3, dtype=t.long), 7.0),
    "iadd": lambda t, i: i.__iadd__(2),
}


@pytest.mark.parametrize("name", WRITES)
def test_written_outside_and_inside(name):
    def f(t):
        i = made(t)
        error = said(lambda: WRITES[name](t, made(t)), WRITTEN)
        with t.no_grad():
            again = said(lambda: WRITES[name](t, made(t)), WRITTEN)
        with t.inference_mode():
            WRITES[name](t, i)
        return error, again, i, kind(i)

    agree(f)


@pytest.mark.parametrize("name", WRITES)
def test_a_refused_write_changes_nothing(name):
    i = made(torchlike)  # PyTorch refuses too late, when the values are there already
    attempt(lambda: WRITES[name](torchlike, i))
    assert i.shape == (2, 3) and i.flatten().tolist() == [1, 2, 3, 4, 5, 6]


# -- normal tensors changed inside ---------------------------------------------------------------------


@story
def test_a_normal_tensor_written_inside(t):
    x = grid(t)
    n, plain = x * 2, normal(t)
    with t.inference_mode():
        n.add_(1)
        plain.view(6).mul_(2)
        plain.copy_(made(t))
        t.add(made(t), plain, out=plain)
    n.sum().backward()
    return n, n._version, plain, plain._version, kind(plain), x.grad


@story
def test_a_leaf_written_inside(t):
    x = grid(t)
    with t.inference_mode():
        x.add_(1)
        t.mul(x, 2, out=x)
    (x * x).sum().backward()
    return x, kind(x), x._version, x.grad


@story
def test_a_saved_tensor_written_inside(t):
    y = grid(t) * 2
    z = y * y
    with t.inference_mode():
        y.add_(1)
    return said(lambda: z.sum().backward(), "modified by an inplace operation")


# -- views over the border -----------------------------------------------------------------------------

AFTER = {
    "grad_fn": lambda t, n, v: v.grad_fn,
    "requires_grad": lambda t, n, v: (v.requires_grad, v.is_leaf, v._version),
    "used": lambda t, n, v: v * 2,
    "viewed": lambda t, n, v: v[0],
    "changed": lambda t, n, v: v.add_(1),
    "changed with a leaf": lambda t, n, v: v.mul_(leaf(t, 1, 2, 3, 4, 5, 6)),
    "base changed": lambda t, n, v: (n.add_(1), v * 1),
    "base changed, grad_fn": lambda t, n, v: (n.add_(1), v.grad_fn),
    "base changed, requires_grad": lambda t, n, v: (n.add_(1), v.requires_grad, v.is_leaf),
    "base changed with a leaf": lambda t, n, v: (n.mul_(grid(t)), v * 1),
    "changed inside": lambda t, n, v: (within(t, lambda: v.add_(1)), n, v.requires_grad),
    "base changed inside": lambda t, n, v: (within(t, lambda: n.add_(1)), v, v.requires_grad),
    "detached": lambda t, n, v: v.detach().add_(1),
    "detached in place": lambda t, n, v: v.detach_(),
    "requires_grad_": lambda t, n, v: v.requires_grad_(),
}
MESSAGE = r"(Output|A view|you can|Can't detach views).*?(inplace|leaf|in-place)|is not supported|modified inplace"


def within(t, f):
    with t.inference_mode():
        return f()


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
@pytest.mark.parametrize("name", AFTER)
def test_views_made_without_recording(name, mode, requires_grad):
    def f(t):
        n = grid(t) * 2 if requires_grad else normal(t)
        with getattr(t, mode)():
            v = n.view(6)
        return kind(v), said(lambda: AFTER[name](t, n, v)), n

    agree(f)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_views_of_leaves_made_without_recording(mode):
    def f(t):
        x = grid(t)
        with getattr(t, mode)():
            v = x.view(6)
        return kind(v), said(lambda: v.add_(1)), v * 2, said(lambda: x.add_(1), "a leaf Variable"), x

    agree(f)


@pytest.mark.parametrize("name", ["split", "chunk", "unbind"])
def test_several_views_made_inside(name):
    def f(t):
        out = []
        for n in (normal(t), grid(t) * 2):
            with t.inference_mode():
                v = getattr(n, name)(*(() if name == "unbind" else (1,)))[0]
            out += [kind(v), said(lambda v=v: v.add_(1)), said(lambda v=v: v.mul_(leaf(t)))]
        return out

    agree(f)


@story
def test_views_of_an_inference_tensor_made_outside(t):
    i = made(t)
    v = i.view(6)
    with t.inference_mode():
        v.add_(1)
    return kind(v), i, said(lambda: v * leaf(t, 1, 2, 3, 4, 5, 6), SAVED), said(lambda: v._version, COUNTED)


# -- data, grad, modules, optimizers -------------------------------------------------------------------


@story
def test_data_set_to_an_inference_tensor(t):
    n, x = normal(t), grid(t)
    n.data = made(t)
    x.data = made(t)
    return kind(n), kind(x), n, x.tolist()


@story
def test_data_of_an_inference_tensor_set(t):
    i = made(t)
    i.data = t.ones(2)
    return i, kind(i)


@story
def test_grad_set_to_an_inference_tensor(t):
    x = grid(t)
    x.grad = made(t)
    return x.grad, kind(x.grad)


@story
def test_a_module_run_inside(t):
    m, x = t.nn.Linear(3, 2), t.ones(1, 3)
    with t.inference_mode():
        y = m(x)
    return kind(y), kind(m.weight), m.weight._version, m(x).requires_grad, kind(y.clone())


@story
def test_a_module_made_inside(t):
    with t.inference_mode():
        m = t.nn.Linear(3, 2)
        y = m(t.ones(1, 3))
    with t.no_grad():
        z = m(t.ones(1, 3))
    x = t.ones(1, 3, requires_grad=True)
    return kind(m.weight), kind(y), kind(z), said(lambda: m(x), SAVED), kind(copy.deepcopy(m).weight)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_an_optimizer_steps_inside(name):
    def f(t):
        x = grid(t)
        optimizer = getattr(t.optim, name)([x], lr=0.1)
        (x * x).sum().backward()
        with t.inference_mode():
            optimizer.step()
        optimizer.zero_grad()
        return x.float(), kind(x), x.grad

    agree(f)


# -- autograd inside -----------------------------------------------------------------------------------


@story
def test_backward_called_inside(t):
    x, seen = grid(t), []
    y = (x * x).sum()
    x.register_hook(lambda g: seen.append((t.is_grad_enabled(), t.is_inference_mode_enabled())))
    with t.inference_mode():
        y.backward()
    return x.grad, seen


@story
def test_gradients_computed_inside_are_inference_tensors(t):
    x, seen = grid(t), []
    y = x * x
    y.retain_grad()
    y.register_hook(lambda g: seen.append(kind(g * 1)))
    with t.inference_mode():
        y.backward(normal(t), retain_graph=True)
        (g,) = t.autograd.grad(y, x, normal(t), retain_graph=True)
    return seen, kind(x.grad), kind(g), said(lambda: y.backward(normal(t)), WRITTEN)


@story
def test_nothing_is_added_to_a_grad_that_is_an_inference_tensor(t):
    x = grid(t)
    x.grad = made(t)
    return said(lambda: (x * 2).sum().backward(), WRITTEN)


@story
def test_recorded_within_inference_mode_switched_off(t):
    with t.inference_mode():
        i = t.ones(2)
        with t.inference_mode(False):
            x = t.ones(2, requires_grad=True)
            y = (x * x).sum()
            y.backward()
            seen = [said(lambda: x * i, SAVED), kind(i * 2), said(lambda: i.add_(1), WRITTEN)]
    return seen, kind(x), kind(y), kind(x.grad), x.grad


@story
def test_enable_grad_does_not_undo_it(t):
    x = grid(t)
    with t.inference_mode(), t.enable_grad():
        y = x * 2
        z = t.ones(2, requires_grad=True) * 2
        return kind(y), kind(z), said(lambda: z.sum().backward(), "does not require grad")


@story
def test_requires_grad_inside(t):
    with t.inference_mode():
        x = t.ones(2, requires_grad=True)
        seen = [kind(x), kind(x * 2), kind(x.view(2)), kind(x.detach()), x.add_(1) is x]
    return seen, kind(x), x, kind(x * 2), said(lambda: x * leaf(t, 1, 2), SAVED)


@story
def test_a_gradient_that_is_an_inference_tensor(t):
    x, i = grid(t), made(t)
    (x * 2).backward(i)
    plain = t.autograd.grad(x * x, x, i)
    return x.grad, kind(x.grad), plain, said(lambda: t.autograd.grad(x * x, x, i, create_graph=True), SAVED)


@story
def test_version_counters_of_inference_tensors(t):
    i, n = made(t), normal(t)
    keep = t.autograd.grad_mode._unsafe_preserve_version_counter
    bump = t.autograd.graph.increment_version
    return [said(lambda: keep(i), COUNTED), said(lambda: keep((n, i)), COUNTED), said(lambda: bump(i))]


@story
def test_decorated(t):
    def f(x):
        return kind(x * x)

    x = grid(t)
    return [g(x) for g in (t.inference_mode(f), t.inference_mode()(f), t.inference_mode(False)(f),
                           t.inference_mode(mode=True)(f))]  # fmt: skip


@story
def test_a_generator_makes_inference_tensors_only_inside(t):
    @t.inference_mode()
    def g():
        yield t.ones(1)
        yield t.ones(1)

    steps = g()
    return kind(next(steps)), kind(t.ones(1)), kind(next(steps)), kind(t.ones(1))


def detached(t):
    """Inference mode keeps histories."""
    x, y = leaf(t), leaf(t) * 2
    view = y[0]
    with t.inference_mode():
        for u in (x, y, view):
            u.detach_()
    return [(u.requires_grad, u.is_leaf) for u in (x, y, view)]


def test_detaching_in_inference_mode():
    agree(detached)
