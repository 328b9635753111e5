"""``MaskedTensor`` against PyTorch: the elements that count, the mask, the text, gradients, errors."""

import copy
import importlib
import pickle

import pytest
import torch
from both import agree, agree_error
from story_kit import said, story

import torchlike

UNARY = "abs neg exp log sqrt sin tanh sigmoid isnan floor sign reciprocal erf positive nan_to_num signbit conj real"
BINARY = "add sub mul div eq lt ge maximum minimum atan2 fmod remainder fmax true_divide floor_divide logaddexp"
REDUCED = "sum mean amin amax argmin argmax prod all var std"
LACKING = "relu logical_not isinf hypot logical_and copysign dot median nansum count_nonzero sort mode norm".split()
VIEWS = {
    "t": lambda x: x.t(),
    "mT": lambda x: x.mT,
    "transpose": lambda x: x.transpose(0, 1),
    "view": lambda x: x.view(6),
    "reshape": lambda x: x.reshape(3, 2),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "row": lambda x: x[0],
    "slice": lambda x: x[:, 1:],
    "expand": lambda x: x.unsqueeze(0).expand(2, 2, 3),
    "flatten": lambda x: x.flatten(),
    "narrow": lambda x: x.narrow(1, 0, 2),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "split": lambda x: x.split(1)[1],
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "double": lambda x: x.double(),
    "to": lambda x: x.to(x.get_data().double().dtype),
    "half": lambda x: x.half(),
    "clamp": lambda x: x.clamp(0, 3),
    "pow": lambda x: x**2,
    "copy_": lambda x: x.copy_(x * 2),
    "mul_": lambda x: x.mul_(3),
    "iadd": lambda x: x.__iadd__(x),
}


def masked(t, grad=False, mask=None, data=None):
    data = t.tensor([[1.0, -2, 3], [4, 5, 6]]) if data is None else data
    mask = t.tensor([[True, False, True], [False, True, True]]) if mask is None else mask
    return importlib.import_module(t.__name__ + ".masked").masked_tensor(data, mask, requires_grad=grad)


def told(x):
    """What is compared: the class, the mask, and the elements that count."""
    return type(x).__name__, x.get_mask(), x.get_data().detach()[x.get_mask()], x.requires_grad, repr(x)


@pytest.mark.parametrize("name", UNARY.split())
def test_functions_of_each_element(name):
    agree(lambda t: told(getattr(t, name)(masked(t))))


@pytest.mark.parametrize("name", BINARY.split())
def test_functions_of_two(name):
    def run(t):
        a, f = masked(t), getattr(t, name)
        other = masked(t, mask=~a.get_mask())
        return told(f(a, a * 2)), told(f(a, a.get_data())), told(f(a.get_data(), a)), said(lambda: f(a, other), "masks")

    agree(run)


@pytest.mark.parametrize("name", REDUCED.split())
def test_reductions(name):
    def run(t):
        f, empty = getattr(t, name), masked(t, mask=t.zeros(2, 3, dtype=t.bool))
        a = masked(t)
        found = [f(a), f(a, 1), f(a, dim=0, keepdim=True), getattr(a, name)(dim=-1), f(empty), f(empty, 1)]
        return [*map(told, found), said(lambda: f(a, 5), "out of range")]

    agree(run)


@pytest.mark.parametrize("name", REDUCED.split())
def test_reductions_of_integers(name):
    def run(t):
        x = masked(t, data=t.tensor([[1, 2, 3], [4, 5, 6]]))
        return said(lambda: told(getattr(t, name)(x)), "Could not infer output dtype")

    agree(run)


@pytest.mark.parametrize("name", VIEWS)
def test_both_data_and_mask(name):
    agree(lambda t: told(VIEWS[name](masked(t))))


@pytest.mark.parametrize("name", LACKING)
def test_what_is_not_made_for_masks_is_refused(name):
    def run(t):
        more = [masked(t)] if name in ("hypot", "logical_and", "copysign", "dot") else []
        getattr(t, name)(masked(t), *more)

    agree_error(run, "MaskedTensor|unexpected keyword argument 'p'")


GRADIENTS = {
    "sum": lambda a: a.sum(),
    "squares": lambda a: (a * a).sum(),
    "mean": lambda a: a.mean(),
    "rows": lambda a: a.mean(1).sum(),
    "amax": lambda a: a.amax(1).sum(),
    "prod": lambda a: a.prod(),
    "sqrt": lambda a: a.sqrt().sum(),
    "softmax": lambda a: (a.softmax(1) * a.get_data()).sum(),
    "std": lambda a: a.std(),
    "view": lambda a: a.view(6).sum(),
    "ordinary": lambda a: (a.to_tensor(0.0) * 3).sum(),
    "data": lambda a: (a.get_data() * 2).sum(),
    "log": lambda a: (a.log() / 2).sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    def run(t):
        a = masked(t, grad=True)
        for _ in range(2):
            GRADIENTS[name](a).backward()
        kept = a.grad.get_mask()
        return type(a.grad).__name__, kept, a.grad.get_data()[kept]

    agree(run)


@story
def test_where_the_masks_differ(t):
    """The tutorial's way out of NaN in gradients."""
    x = t.tensor([-10.0, -5, 0, 5, 10, 50, 60, 70, 80, 90, 100])
    mask = x < 0
    a, b = masked(t, True, mask, x), masked(t, True, ~mask, t.ones_like(x))
    y = t.where(mask, t.exp(a), b)
    y.sum().backward()
    return told(y), told(a.grad), told(b.grad)


@story
def test_texts(t):
    cube = masked(t, mask=t.ones(2, 2, 2, dtype=t.bool), data=t.arange(8.0).reshape(2, 2, 2))
    one = [
        masked(t, mask=t.tensor(m), data=t.tensor(v)) for m, v in ((True, 1.0), (False, 1.0), (True, 3), (True, True))
    ]
    row = masked(t, mask=t.tensor([True, False]), data=t.tensor([1e6, 2]))
    whole = masked(t, data=t.tensor([[1, 20, 3], [4, 5, 6]]))
    return [repr(x) for x in (cube, *one, row, whole, masked(t).isnan(), masked(t, grad=True))]


@story
def test_what_it_is(t):
    a, m = masked(t), importlib.import_module(t.__name__ + ".masked")
    scalar = [masked(t, mask=t.tensor(k), data=t.tensor(2.0)) for k in (True, False)]
    return (
        m.is_masked_tensor(a), m.is_masked_tensor(a.get_data()), isinstance(a, t.Tensor), a.shape, len(a), a.dim(),
        a.is_sparse_coo(), sorted(m.__all__), told(copy.deepcopy(a)), scalar[0].item(), said(scalar[1].item, ""),
        said(a.tolist, "not supported for tensor subclasses"), said(a.numpy, "not supported for tensor subclasses"),
        told(m.as_masked_tensor(a.get_data(), a.get_mask())), a.to_tensor(float("nan")), told(t.ones_like(a)),
        told(t.stack([a, a])), told(t.cat([a, a])), m.sum(a, 1), m.amax(a, 1), m.softmax(a, 1),
        said(lambda: a.requires_grad_().add_(1), "leaf"), told((masked(t, True) * 2).add_(1)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda t, m: m([1.0], t.ones(1, dtype=t.bool)), "data must be a Tensor"),
        (lambda t, m: m(t.ones(1), [True]), "mask must be a Tensor"),
        (lambda t, m: m(masked(t), t.ones(2, 3, dtype=t.bool)), "data must be a Tensor"),
        (lambda t, m: m(t.ones(1), t.ones(1)), "dtype bool"),
        (lambda t, m: m(t.ones(2, 3), t.ones(3, dtype=t.bool)), r"data.dim\(\) must equal mask.dim\(\)"),
        (lambda t, m: m(t.ones(2), t.ones(3, dtype=t.bool)), r"data.size\(\) must equal mask.size\(\)"),
        (lambda t, m: m(t.ones(2).to_sparse(), t.ones(2, dtype=t.bool)), "same layout"),
        (lambda t, m: m(t.ones(2, dtype=t.uint8), t.ones(2, dtype=t.bool)), "uint8 is not supported"),
        (lambda t, m: m(t.ones(2, dtype=t.bfloat16), t.ones(2, dtype=t.bool)), "bfloat16 is not supported"),
        (lambda t, m: m(t.tensor([1]), t.tensor([True]), True), "floating point"),
        (lambda t, m: t.pow(masked(t), masked(t)), "additional Tensor arguments"),
    ],
)
def test_wrong_calls(make, match):
    agree_error(lambda t: make(t, importlib.import_module(t.__name__ + ".masked").masked_tensor), match)


def test_more_than_pytorch_does():
    a = masked(torchlike)
    assert masked(torchlike, mask=a.get_mask(), data=a.get_data() * 0).sub(a, alpha=2).sum().item() == -30
    assert torchlike.masked.mean(a, 1).tolist() == [2.0, 5.5]  # PyTorch sums under the mask and counts without it
    x = torchlike.tensor([-1.0, 4.0], requires_grad=True)
    torchlike.masked.as_masked_tensor(x, torchlike.tensor([False, True])).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]  # PyTorch puts a MaskedTensor there
    again = pickle.loads(pickle.dumps(a))
    assert repr(again) == repr(a)
    sparse = torchlike.ones(2).to_sparse()
    with pytest.raises(NotImplementedError, match="layout"):
        torchlike.masked.masked_tensor(sparse, sparse.bool())
    assert torch.masked.MaskedTensor is not torchlike.masked.MaskedTensor
