"""Behaviours of autograd, one small story each: copies, pickles, conversions, ``.data``."""

import copy
import io
import pickle

from both import attempt
from story_kit import leaf, said, story, warned

# -- copies, pickles, conversions --------------------------------------------------------------------


@story
def test_deepcopies(t):
    x = leaf(t)
    (x * 2).sum().backward()
    y = copy.deepcopy(x)
    y.grad.mul_(5)
    p = copy.deepcopy(t.nn.Parameter(t.ones(2)))
    return (
        y,
        y.grad,
        x.grad,
        y.is_leaf,
        type(p).__name__,
        p.requires_grad,
        said(lambda: copy.deepcopy(x * 2), "Only Tensors created explicitly by the user"),
    )


@story
def test_deepcopies_keep_sharing(t):
    x = t.arange(4.0)
    a, b = copy.deepcopy([x, x[:2]])
    a[0] = 9
    return a, b, x


@story
def test_deepcopies_of_conjugates_and_negatives(t):
    x = t.arange(6.0).view(2, 3) * (1 + 1j)
    lazy = [x.conj(), x.conj().t(), x.conj().imag, x.conj()[:, 1:]]
    copies = copy.deepcopy([x, *lazy])
    copies[0].zero_()
    p = copy.deepcopy(x.conj().requires_grad_())
    return copies, [(c.is_conj(), c.is_neg(), c.stride()) for c in copies], x, p.requires_grad, p.is_conj()


@story
def test_shallow_copies(t):
    x = leaf(t)
    y = copy.copy(x)
    with t.no_grad():
        y.add_(1)
    return y.requires_grad, x, y is x


@story
def test_pickles(t):
    x = leaf(t)
    y = pickle.loads(pickle.dumps(x))
    z = t.ones(2)
    z.note = "kept"
    w = pickle.loads(pickle.dumps(z))
    p = pickle.loads(pickle.dumps(t.nn.Parameter(t.ones(2), requires_grad=False)))
    return (
        y,
        y.requires_grad,
        w.note,
        p.requires_grad,
        type(p).__name__,
        type(attempt(lambda: pickle.dumps(x * 2))).__name__,
    )


@story
def test_saving_tensors_with_grad(t):
    x = leaf(t)
    (x * 2).sum().backward()
    buffer = io.BytesIO()
    t.save([x, x.detach()[1:]], buffer)
    buffer.seek(0)
    a, b = t.load(buffer)
    return a, a.requires_grad, a.grad, b


@story
def test_conversions_of_type(t):
    x = t.randn(3, 2)
    r = [
        x.int(),
        x.long(),
        x.half(),
        x.double(),
        x.bool(),
        x.type("torch.DoubleTensor"),
        x.type(t.float64),
        x.to(t.bfloat16),
    ]
    y = t.ones(3, requires_grad=True)
    z = y.double().sum() + y.half().sum().float() + y.to(t.bfloat16).sum() + y.type(t.float64).sum()
    z.backward()
    same = (
        y.float() is y,
        y.to(t.float32) is y,
        y.to("cpu") is y,
        y.cpu() is y,
        y.to(y, copy=True) is y,
        y.type(t.float32) is y,
    )
    return [v.dtype for v in r], x.type(), y.grad, same, y.to(t.complex64).grad_fn, y.type_as(x.double()).dtype


@story
def test_gradients_have_the_dtype_of_the_tensor(t):
    out = []
    for name in ("float16", "bfloat16", "float32", "complex64"):
        x = t.ones(2, dtype=getattr(t, name), requires_grad=True)
        y = (x * t.ones(2, dtype=t.float64)).abs().sum()
        seen = []
        x.register_hook(lambda g, s=seen: s.append(g.dtype))
        y.backward()
        out.append((x.grad, seen))
    return out


@story
def test_set_data(t):
    x = leaf(t)
    y = x * 2
    x.data = t.zeros(3, dtype=t.float64)
    r = [x, x.requires_grad, x.is_leaf, x._version]
    y.sum().backward()
    r += [x.grad]
    x.data.add_(1)
    r += [x, x._version]
    r += [
        said(
            lambda: setattr(x, "data", t.zeros(3, dtype=t.int64)),
            "data set to a tensor that requires gradients must be",
        )
    ]
    p = t.nn.Parameter(t.ones(2))
    p.data = t.zeros(3, 2)
    return r, p.shape, type(p).__name__, said(lambda: setattr(p, "data", None), "data")


@story
def test_data_of_saved_tensors_is_not_tracked(t):
    x = leaf(t)
    y = x.exp()
    y.data.zero_()
    y.sum().backward()
    z = x.exp()
    z.detach().zero_()
    return x.grad, said(z.sum().backward, "modified by an inplace operation")


@story
def test_an_assigned_data_of_another_shape(t):
    x = leaf(t)
    x.data = t.ones(2, 2, dtype=t.float64)
    (x * 3).sum().backward()
    return x.grad, x.shape


@story
def test_variables(t):
    V = t.autograd.Variable
    x = V(t.ones(2), requires_grad=True)
    (x * 3).sum().backward()
    return x.grad, isinstance(x, V), isinstance(t.ones(1), V), type(x).__name__, x.is_leaf


@story
def test_resizing(t):
    x = leaf(t)
    y = x * 2
    return [
        said(lambda: y.resize(2, 2), ".{0,15}"),
        said(lambda: x.resize_(2), "cannot resize variables that require grad"),
        said(lambda: x.resize_as_(t.ones(2)), "cannot resize variables that require grad"),
        said(lambda: y.resize_(3), "cannot resize variables that require grad"),
        t.ones(3).resize_(2),
    ]


@story
def test_numpy_shares_and_counts(t):
    x = t.ones(3)
    v = x._version
    return v, x.numpy().tolist(), x.detach().clone().numpy().sum().item()


@story
def test_hooks_are_not_serialized(t):
    def hook(g):
        return None

    @t.utils.hooks.unserializable_hook
    def quiet(g):
        return None

    does = [
        lambda x: pickle.dumps(x),
        lambda x: t.save(x, io.BytesIO()),
        copy.deepcopy,
        copy.copy,
        lambda x: pickle.dumps(t.nn.Parameter(x)),
    ]
    out = []
    for h in (hook, quiet):
        for do in does:
            x = leaf(t)
            x.register_hook(h)
            out.append(warned(lambda x=x, do=do: do(x), "backward hook .*hook .* on tensor will not be serialized"))
    return [[w.partition("<")[0] for w in ws] for ws in out]
