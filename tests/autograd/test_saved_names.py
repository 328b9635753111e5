"""What nodes show of what they save: ``_saved_<name>``, and which changes in place spoil a backward."""

from __future__ import annotations

import pytest
import torch
from both import agree, agree_error

import torchlike

LIBRARIES = (torchlike, torch)
UNKNOWN = ("strides",)  # the strides that PyTorch keeps of matrices are not kept here


def inputs(t):
    """x [2, 3], a square positive matrix m, an image [1, 2, 4, 4], indices, a mask."""
    x = t.tensor([[0.5, -1.0, 2.0], [3.0, 0.25, -2.0]], dtype=t.float64, requires_grad=True)
    m = t.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=t.float64, requires_grad=True)
    image = t.linspace(-1, 1, 32, dtype=t.float64).reshape(1, 2, 4, 4).clone().requires_grad_()
    return x, m, image, t.tensor([[0, 2], [1, 0]]), t.tensor([[True, False, True], [False, True, True]])


def functional(t):
    return t.nn.functional


# {label: f(library, x, m, image, index, mask)}
CALLS = {
    "add": lambda t, x, *_: t.add(x, x, alpha=3),
    "add a float": lambda t, x, *_: t.add(x, x, alpha=2.5),
    "sub": lambda t, x, *_: x - 1,
    "rsub": lambda t, x, *_: 1 - x,
    "mul": lambda t, x, *_: x * (x + 1),
    "mul by a number": lambda t, x, *_: x * 2,
    "mul from the left": lambda t, x, *_: 2.5 * x,
    "mul by a constant": lambda t, x, *_: x * x.detach(),
    "div": lambda t, x, *_: x / (x + 9),
    "div with rounding": lambda t, x, *_: t.div(x, 2.0, rounding_mode="trunc"),
    "div without rounding": lambda t, x, *_: t.div(x, 2.0, rounding_mode=None),
    "pow": lambda t, x, *_: x**3,
    "pow of a negative": lambda t, x, *_: x**-2,
    "pow of a root": lambda t, x, *_: (x * x) ** 0.5,
    "pow of another": lambda t, x, *_: (x * x) ** 1.7,
    "pow of tensors": lambda t, x, *_: (x * x + 1) ** t.tensor(2.0, dtype=t.float64),
    "pow from a number": lambda t, x, *_: 2**x,
    "exp": lambda t, x, *_: x.exp(),
    "log": lambda t, x, *_: (x * x).log(),
    "tanh": lambda t, x, *_: x.tanh(),
    "abs": lambda t, x, *_: x.abs(),
    "sin": lambda t, x, *_: x.sin(),
    "sqrt": lambda t, x, *_: (x * x).sqrt(),
    "neg": lambda t, x, *_: -x,
    "logit": lambda t, x, *_: x.sigmoid().logit(),
    "logit with eps": lambda t, x, *_: x.logit(0.25),
    "clamp": lambda t, x, *_: x.clamp(0, 1),
    "clamp from below": lambda t, x, *_: x.clamp(min=0.5),
    "clamp_min": lambda t, x, *_: x.clamp_min(0.5),
    "lerp": lambda t, x, *_: x.lerp(x.detach(), 0.5),
    "lerp by a tensor": lambda t, x, *_: x.lerp(x.detach() + 1, x.detach()),
    "addcmul": lambda t, x, *_: t.addcmul(x, x, x.detach(), value=2),
    "atan2": lambda t, x, *_: t.atan2(x, x + 5),
    "maximum": lambda t, x, *_: t.maximum(x, -x),
    "where": lambda t, x, m, image, index, mask: t.where(mask, x, 0.0),
    "masked_fill": lambda t, x, m, image, index, mask: x.masked_fill(mask, 0),
    "masked_select": lambda t, x, m, image, index, mask: x.masked_select(mask),
    "gather": lambda t, x, m, image, index, mask: x.gather(-1, index),
    "take": lambda t, x, m, image, index, mask: x.take(index),
    "index_select": lambda t, x, *_: x.index_select(1, t.tensor([2, 0])),
    "index": lambda t, x, *_: x[:, t.tensor([2, 0])],
    "index both": lambda t, x, *_: x[t.tensor([0, 1]), t.tensor([2, 0])],
    "index_add": lambda t, x, *_: x.index_add(0, t.tensor([1]), x[:1], alpha=2),
    "index_add of a constant": lambda t, x, *_: x.index_add(0, t.tensor([1]), x[:1].detach()),
    "scatter": lambda t, x, *_: x.scatter(0, t.tensor([[1, 0, 1]]), 2.0),
    "scatter_add": lambda t, x, *_: x.scatter_add(0, t.tensor([[1, 0, 1], [0, 0, 1]]), x),
    "embedding": lambda t, x, *_: functional(t).embedding(t.tensor([0, 1]), x, padding_idx=0),
    "sum": lambda t, x, *_: x.sum(),
    "sum over a dimension": lambda t, x, *_: x.sum(-1),
    "sum over two": lambda t, x, *_: x.sum((0, -1), keepdim=True),
    "mean": lambda t, x, *_: x.mean(),
    "mean over a dimension": lambda t, x, *_: x.mean(1, keepdim=True),
    "prod": lambda t, x, *_: x.prod(),
    "prod over a dimension": lambda t, x, *_: x.prod(0),
    "std": lambda t, x, *_: x.std(),
    "var": lambda t, x, *_: x.var(-1, False),
    "var with correction": lambda t, x, *_: x.var(0, correction=0, keepdim=True),
    "logsumexp": lambda t, x, *_: x.logsumexp(-1),
    "amax": lambda t, x, *_: x.amax(-1),
    "max": lambda t, x, *_: x.max(),
    "max over a dimension": lambda t, x, *_: x.max(-1)[0],
    "median": lambda t, x, *_: x.median(1)[0],
    "kthvalue": lambda t, x, *_: x.kthvalue(1)[0],
    "sort": lambda t, x, *_: x.sort(-1)[0],
    "msort": lambda t, x, *_: x.sort(0)[0],
    "topk": lambda t, x, *_: x.topk(2)[0],
    "cumsum": lambda t, x, *_: x.cumsum(-1),
    "cumprod": lambda t, x, *_: x.cumprod(0),
    "cummax": lambda t, x, *_: x.cummax(0)[0],
    "norm": lambda t, x, *_: t.linalg.vector_norm(x, 2.5, 1),
    "mm": lambda t, x, m, *_: m @ x,
    "mm by a constant": lambda t, x, m, *_: m.detach() @ x,
    "mv": lambda t, x, *_: x @ x[0],
    "dot": lambda t, x, *_: x[0] @ x[1],
    "bmm": lambda t, x, m, *_: t.bmm(m[None], x[None]),
    "addmm": lambda t, x, m, *_: t.addmm(x, m, x, beta=2, alpha=0.5),
    "addbmm": lambda t, x, m, *_: t.addbmm(x, m[None], x[None]),
    "outer": lambda t, x, *_: t.outer(x[0], x[1]),
    "linear": lambda t, x, *_: functional(t).linear(x, x, x[:, 0]),
    "inv": lambda t, x, m, *_: t.linalg.inv(m),
    "qr": lambda t, x, m, *_: t.linalg.qr(m, mode="reduced")[1],
    "cholesky": lambda t, x, m, *_: t.linalg.cholesky(m),
    "relu": lambda t, x, *_: functional(t).relu(x),
    "relu6": lambda t, x, *_: functional(t).relu6(x),
    "gelu": lambda t, x, *_: functional(t).gelu(x, approximate="tanh"),
    "elu": lambda t, x, *_: functional(t).elu(x, 2),
    "selu": lambda t, x, *_: functional(t).selu(x),
    "leaky_relu": lambda t, x, *_: functional(t).leaky_relu(x),
    "softplus": lambda t, x, *_: functional(t).softplus(x, 2, 10),
    "hardtanh": lambda t, x, *_: functional(t).hardtanh(x),
    "threshold": lambda t, x, *_: functional(t).threshold(x, 1, 1),
    "softmax": lambda t, x, *_: x.softmax(-1),
    "log_softmax": lambda t, x, *_: functional(t).log_softmax(x, 0),
    "mse_loss": lambda t, x, *_: functional(t).mse_loss(x, x.detach()),
    "huber_loss": lambda t, x, *_: functional(t).huber_loss(x, x.detach(), reduction="sum"),
    "bce": lambda t, x, *_: functional(t).binary_cross_entropy_with_logits(x, x.detach().sigmoid()),
    "conv2d": lambda t, x, m, image, *_: functional(t).conv2d(image, t.ones(1, 2, 2, 2, dtype=t.float64)),
    "conv2d with bias": lambda t, x, m, image, *_: functional(t).conv2d(
        image, t.ones(1, 2, 2, 2, dtype=t.float64), t.ones(1, dtype=t.float64)
    ),
    "max_pool2d": lambda t, x, m, image, *_: functional(t).max_pool2d(image, 2),
    "avg_pool2d": lambda t, x, m, image, *_: functional(t).avg_pool2d(image, 2, padding=1),
    "adaptive_avg_pool2d": lambda t, x, m, image, *_: functional(t).adaptive_avg_pool2d(image, 2),
    "pad": lambda t, x, *_: functional(t).pad(x, (1, -1)),
    "reflect": lambda t, x, m, image, *_: functional(t).pad(image, (1, 1, 1, 1), "reflect"),
    "interpolate": lambda t, x, m, image, *_: functional(t).interpolate(image, 3),
    "interpolate by a factor": lambda t, x, m, image, *_: functional(t).interpolate(
        image, scale_factor=0.5, mode="bilinear"
    ),
    "unfold": lambda t, x, m, image, *_: functional(t).unfold(image, 3),
    "layer_norm": lambda t, x, *_: functional(t).layer_norm(x, (3,), x[0]),
    "pdist": lambda t, x, *_: t.pdist(x, 1.5),
    "cdist": lambda t, x, *_: t.cdist(x, x),
    "renorm": lambda t, x, *_: x.renorm(2, 0, 1.0),
    "complex": lambda t, x, *_: t.complex(x, x),
    "cat": lambda t, x, *_: t.cat([x, x], -1),
    "stack": lambda t, x, *_: t.stack([x, x], 1),
    "view": lambda t, x, *_: x.view(3, 2),
    "expand": lambda t, x, *_: x.expand(1, 2, 3),
    "split": lambda t, x, *_: x.split(2, 1)[1],
    "repeat": lambda t, x, *_: x.repeat(2, 1),
    "tile": lambda t, x, *_: x.tile((2,)),
    "flip": lambda t, x, *_: x.flip(0),
    "roll": lambda t, x, *_: x.roll(-1, -1),
    "tril": lambda t, x, *_: x.tril(-1),
    "trace": lambda t, x, m, *_: m.trace(),
    "clone": lambda t, x, *_: x.clone(),
    "in place": lambda t, x, *_: x.clone().mul_(x),
    "copy_": lambda t, x, *_: x.clone().copy_(x),
}

VIEWS = {
    "select": lambda t, x, *_: x[-1],
    "select by name": lambda t, x, *_: x.select(-1, 0),
    "slice": lambda t, x, *_: x[:, -2:],
    "slice to the end": lambda t, x, *_: x[:, :-1],
    "slice with a step": lambda t, x, *_: x[::2],
    "whole slice": lambda t, x, *_: x[:],
    "narrow": lambda t, x, *_: x.narrow(0, -1, 1),
    "transpose": lambda t, x, *_: x.transpose(-1, 0),
    "permute": lambda t, x, *_: x.permute(-1, 0),
    "unsqueeze": lambda t, x, *_: x.unsqueeze(-1),
    "squeeze": lambda t, x, *_: x[:, None].squeeze(-2),
    "squeeze several": lambda t, x, *_: x[:, None].squeeze((1,)),
    "diagonal": lambda t, x, *_: x.diagonal(-1, -1, -2),
    "windows": lambda t, x, *_: x.unfold(-1, 2, 1),
    "as_strided": lambda t, x, *_: x.as_strided((2, 2), (1, 1), 1),
    "as_strided from the start": lambda t, x, *_: x.as_strided((3,), (1,)),
}


def shows(call, label):
    """{name: value} of the first result's node; of numbers the type counts too."""

    def script(t):
        y = call(t, *inputs(t))
        node = y.grad_fn
        found = {}
        for name in sorted(dir(node)):
            if name.startswith("_saved_") and not name.endswith(UNKNOWN):
                value = getattr(node, name)
                found[name] = value if isinstance(value, t.Tensor | tuple) else (type(value).__name__, value)
        raw = [n for n in sorted(dir(node)) if n.startswith("_raw_saved_")]
        return [type(node).__name__, found, raw]

    return script


@pytest.mark.parametrize("label", CALLS)
def test_names_and_values(label):
    agree(shows(CALLS[label], label))


def bindings(t):
    """Every kind of value, as its Python type."""
    a, b = (t.ones(1, requires_grad=True) for _ in range(2))
    product, stacked = a * 2 * b, t.stack([a, b], dim=0)
    raw = product.grad_fn._raw_saved_self
    found = [isinstance(product.grad_fn._saved_self, t.Tensor), type(raw).__name__, stacked.grad_fn._saved_dim]
    raw.register_hooks(lambda x: x, lambda x: x)
    product.sum().backward()
    return [*found, stacked.grad_fn._saved_dim]


def identity(t):
    x = t.ones(2, requires_grad=True)
    c = t.ones(2)
    y, e = x * c, x.exp()
    saved = e.grad_fn._saved_result
    return [
        y.grad_fn._saved_other is c, y.grad_fn._saved_self, (x * x).grad_fn._saved_self is x,
        saved is e, saved.grad_fn is e.grad_fn, saved.data_ptr() == e.data_ptr(), saved.requires_grad,
        x.sin().grad_fn._saved_self is x,
    ]  # fmt: skip


def linear_weight(t):
    layer = t.nn.Linear(3, 2)
    node = layer(t.ones(4, 3, requires_grad=True)).grad_fn
    return [node._saved_mat1, node._saved_mat2.data_ptr() == layer.weight.data_ptr(), node._saved_mat2_sym_sizes]


def scalar_types(t):
    x = t.zeros(5, requires_grad=True)
    return [type(t.threshold(x, v, v).grad_fn._saved_threshold).__name__ for v in (1.0, 1)] + [
        type(t.logit(x, 0.5).grad_fn._saved_eps).__name__,
        t.logit(x).grad_fn._saved_eps,
        type(t.pdist(x[None] + t.ones(2, 1), p=1).grad_fn._saved_p).__name__,
        t.linalg.qr(t.ones(1, 1, requires_grad=True))[0].grad_fn._saved_mode,
    ]


def optional_weight(t):
    x, target = t.ones(3, 5, requires_grad=True), t.tensor([1, 0, 4])
    loss = t.nn.functional.nll_loss(x, target)
    weighted = t.nn.functional.nll_loss(x, target, t.ones(5))
    return [loss.grad_fn._saved_weight, weighted.grad_fn._saved_weight, weighted.grad_fn._saved_target]


def freed(t):
    """After backward the tensors are gone, the numbers stay."""
    x = t.ones(2, requires_grad=True)
    y = x.exp()
    product, power, added, picked = y * 3, y.pow(2.5), t.add(y, y, alpha=2), y[t.tensor([0])]
    (product.sum() + power.sum() + added.sum() + picked.sum() + y.sum(-1)).backward()

    def read(node, name):
        try:
            value = getattr(node, name)
        except RuntimeError as error:
            return str(error)[:80]
        return type(value).__name__ if name.startswith("_raw") else value

    return [
        [read(product.grad_fn, n) for n in ("_saved_self", "_saved_other", "_raw_saved_other")],
        [read(power.grad_fn, n) for n in ("_saved_self", "_saved_exponent", "_raw_saved_self")],
        [read(added.grad_fn, "_saved_alpha")],
        [read(picked.grad_fn, n) for n in ("_saved_indices", "_raw_saved_indices", "_saved_self_sym_sizes")],
        [read(y.grad_fn, "_saved_result")],
    ]


def retained(t):
    x = t.ones(2, requires_grad=True)
    y = x.exp()
    y.sum().backward(retain_graph=True)
    return y.grad_fn._saved_result


def modified(t):
    """Reading a saved tensor that has changed since is an error as well."""
    x = t.ones(2, requires_grad=True)
    c = t.ones(2)
    y = x * c
    c.add_(1)
    try:
        return y.grad_fn._saved_other
    except RuntimeError as error:
        return str(error).split("; expected")[0]


def optional_indices(t):
    x = t.ones(2, 2, requires_grad=True)
    node = x[:, t.tensor([0, 1])].grad_fn
    raw = node._raw_saved_indices
    raw[1].register_hooks(lambda i: i, lambda i: i)
    return [node._saved_indices, [type(r).__name__ for r in raw], node._saved_self_sym_sizes]


SCRIPTS = [
    bindings, identity, linear_weight, scalar_types, optional_weight, freed, retained, modified, optional_indices,
]  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda f: f.__name__)
def test_script(script):
    agree(script)


def test_hooks_on_an_empty_slot():
    def script(t):
        node = t.ones(2, 2, requires_grad=True)[:, t.tensor([0, 1])].grad_fn
        node._raw_saved_indices[0].register_hooks(lambda i: i, lambda i: i)

    agree_error(script, "None is forbidden")


def test_hooks_on_a_freed_slot():
    def script(t):
        x = t.ones(2, 2, requires_grad=True)
        y = x * x
        y.sum().backward()
        y.grad_fn._raw_saved_self.register_hooks(lambda s: s, lambda s: s)

    agree_error(script, "after it has been freed")


# -- changes in place between forward and backward ---------------------------------------------------------


def bump(t, x):
    with t.no_grad():
        if x.dtype is t.bool:
            x.copy_(x.clone())
        else:
            x.mul_(1)


def spoils(call):
    """Which changes in place make backward fail: of each argument, then of the result."""

    def script(t):
        found = []
        for i in (*range(5), None):
            given = inputs(t)
            y = call(t, *given)
            bump(t, y if i is None else given[i])
            leaves = [a for a in given[:3] if a.requires_grad]
            try:
                t.autograd.grad(y, leaves, t.ones_like(y), allow_unused=True)
                found.append("fine")
            except RuntimeError as error:
                found.append("modified" if "modified by an inplace operation" in str(error) else str(error))
        return found

    return script


COMPOSED = {  # what PyTorch saves of these are tensors that it makes on the way, or more than the result needs
    "l1_loss": lambda t, x, *_: functional(t).l1_loss(x, x.detach()),
    "cross_entropy": lambda t, x, *_: functional(t).cross_entropy(x, t.tensor([0, 2])),
    "nll_loss": lambda t, x, *_: functional(t).nll_loss(x, t.tensor([0, 2])),
    "margin_ranking_loss": lambda t, x, *_: functional(t).margin_ranking_loss(x, x * 2, x.detach().sign()),
    "hinge_embedding_loss": lambda t, x, *_: functional(t).hinge_embedding_loss(x, x.detach().sign()),
    "gaussian_nll_loss": lambda t, x, *_: functional(t).gaussian_nll_loss(x, x.detach(), x.detach().square() + 1),
    "triplet_margin_loss": lambda t, x, *_: functional(t).triplet_margin_loss(x, x + 1, x * 2),
    "pairwise_distance": lambda t, x, *_: functional(t).pairwise_distance(x, x.detach()),
    "tanhshrink": lambda t, x, *_: functional(t).tanhshrink(x),
    "divide a number": lambda t, x, *_: 2 / x,
    "ndtr": lambda t, x, *_: t.special.ndtr(x),
    "cov": lambda t, x, *_: t.cov(x),
    "corrcoef": lambda t, x, *_: t.corrcoef(x),
    "quantile": lambda t, x, *_: x.quantile(0.5),
    "trapezoid": lambda t, x, *_: t.trapezoid(x, x.detach()),
    "kron": lambda t, x, m, *_: t.kron(x, m),
    "msort": lambda t, x, *_: x.msort(),
    "svd": lambda t, x, *_: t.linalg.svd(x, full_matrices=False)[1],
    "eigh": lambda t, x, m, *_: t.linalg.eigh(m)[0],
    "svdvals": lambda t, x, *_: t.linalg.svdvals(x),
    "eigvalsh": lambda t, x, m, *_: t.linalg.eigvalsh(m),
    "lu_factor": lambda t, x, m, *_: t.linalg.lu_factor(m)[0],
    "lu": lambda t, x, m, *_: t.linalg.lu(m)[2],
    "det": lambda t, x, m, *_: t.linalg.det(m),
    "slogdet": lambda t, x, m, *_: t.linalg.slogdet(m)[1],
    "logdet": lambda t, x, m, *_: t.logdet(m),
    "solve": lambda t, x, m, *_: t.linalg.solve(m, x),
    "solve_triangular": lambda t, x, m, *_: t.linalg.solve_triangular(m, x, upper=True),
    "householder_product": lambda t, x, m, *_: t.linalg.householder_product(m, m[0]),
    "cholesky_solve": lambda t, x, m, *_: t.cholesky_solve(x, m),
    "cholesky_inverse": lambda t, x, m, *_: t.cholesky_inverse(m),
    "logcumsumexp": lambda t, x, *_: x.logcumsumexp(0),
    "index_copy": lambda t, x, *_: x.index_copy(0, t.tensor([1]), x[:1] * 1),
    "put": lambda t, x, *_: x.put(t.tensor([1]), x[0, :1] * 1),
    "take_along_dim": lambda t, x, m, image, index, mask: x.take_along_dim(index, 1),
    "replicate": lambda t, x, m, image, *_: functional(t).pad(image, (1, 1, 1, 1), "replicate"),
    "avg_pool1d": lambda t, x, m, image, *_: functional(t).avg_pool1d(image[0], 2),
    "max_pool1d": lambda t, x, m, image, *_: functional(t).max_pool1d(image[0], 2),
    "adaptive_max_pool2d": lambda t, x, m, image, *_: functional(t).adaptive_max_pool2d(image, 2),
    "grid_sample": lambda t, x, m, image, *_: functional(t).grid_sample(
        image, image.detach()[:, :, :, :2].permute(0, 2, 1, 3), mode="nearest", align_corners=False
    ),
    "lerp by a weight that requires grad": lambda t, x, *_: t.lerp(t.zeros_like(x), t.ones_like(x), x),
    "copysign of a constant": lambda t, x, *_: t.copysign(t.ones_like(x), x),
    "ldexp by a constant": lambda t, x, *_: t.ldexp(x, t.ones_like(x)),
    "addcdiv of constants": lambda t, x, *_: t.addcdiv(x, t.ones_like(x), x.detach()),
    "bce with constant logits": lambda t, x, *_: functional(t).binary_cross_entropy_with_logits(t.ones_like(x), x),
    "complex with a constant": lambda t, x, m, image, *_: t.complex(x, corner(image)),
    "cosine_similarity with a constant": lambda t, x, m, image, *_: functional(t).cosine_similarity(x, corner(image)),
    "cross_entropy of probabilities": lambda t, x, m, image, *_: functional(t).cross_entropy(x, corner(image)),
}


def corner(image):
    """A constant [2, 3] that is changed with the image."""
    return image.detach()[0, 0, :2, :3]


@pytest.mark.parametrize("label", [*CALLS, *(f"{label} (composed)" for label in COMPOSED)])
def test_changes_that_spoil_backward(label):
    agree(spoils(CALLS[label] if label in CALLS else COMPOSED[label.removesuffix(" (composed)")]))


def saved_by_value(t):
    """What is kept by value keeps its history: a second derivative reaches the leaf it came from."""
    x = t.tensor([0.5, 2.0], dtype=t.float64, requires_grad=True)
    first = t.autograd.grad((2 / x).sum(), x, create_graph=True)[0]
    y = x * 3
    inner = t.autograd.grad((2 / y).sum(), y, create_graph=True)[0]
    inner.sum().backward()
    return [first, t.autograd.grad(first.sum(), x)[0], x.grad]


def test_second_derivative_of_what_is_kept_by_value():
    agree(saved_by_value)


# -- arguments of views ------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", VIEWS)
def test_arguments_of_views(label):
    agree(shows(VIEWS[label], label))


def remade(t):
    """A view whose base has changed since reads it anew, by strides."""
    x = t.ones(2, 3, requires_grad=True).clone()
    row = x[1]
    x.mul_(2)
    node = row.grad_fn
    return [node._saved_size, node._saved_stride, node._saved_storage_offset]


def test_arguments_of_a_remade_view():
    agree(remade)
