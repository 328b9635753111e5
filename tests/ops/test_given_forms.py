"""Forms of arguments that PyTorch takes or refuses: sizes, starts, sections, factors first, outputs on meta."""

import pickle
import random

import pytest
from both import agree
from story_kit import said

import torchlike

NAN = float("nan")
CASES = {
    "a size of floats": (lambda t: t.Size(t.ones(3)), "takes an iterable of 'int' .item 0"),
    "a size of ints": lambda t: [type(n) for n in t.Size(t.ones(3, dtype=t.int64))],
    "a size of bools": lambda t: (*t.Size([True]), t.Size(range(3)) == (0, 1, 2)),
    "a size of text": (lambda t: t.Size("12"), "takes an iterable of 'int' .item 0 is 'str'"),
    "a size and floats": (lambda t: t.Size((1,)) + (3.0,), "takes an iterable of 'int' .item 1"),
    "a size and a list": (lambda t: t.Size((1,)) + [3], "can only concatenate tuple .not list. to torch.Size"),
    "kept sizes": lambda t: (tuple(pickle.loads(pickle.dumps(t.Size((1, 2))))), type(t.Size((1,)) * 2) is t.Size),
    "narrow at a float": (lambda t: t.ones(3).narrow(0, t.tensor(0.0), 1), "start must be an 0-dim integral Tensor."),
    "narrow at a vector": (lambda t: t.ones(3).narrow(0, t.tensor([0]), 1), "start must be an 0-dim integral Tensor."),
    "narrow at a bool": (lambda t: t.ones(3).narrow(0, t.tensor(True), 1), "start must be an 0-dim integral Tensor."),
    "narrow at a tensor": lambda t: t.arange(3).narrow(0, start=t.tensor(-1, dtype=t.int32), length=1),
    "split of a scalar": (lambda t: t.tensor_split(t.ones(()), 10), "at least a 1-dimensional tensor, .* 0 dims"),
    "split at floats": (lambda t: t.tensor_split(t.ones(3), t.tensor(1.1)), "to have dtype of long, but got Float"),
    "split at ints": (lambda t: t.tensor_split(t.ones(3), t.tensor(2).int()), "to have dtype of long, but got Int"),
    "split at a matrix": (lambda t: t.tensor_split(t.ones(3), t.tensor([[1]])), "zero-dimensional or one-.* 2 dims"),
    "split at a float": (lambda t: t.tensor_split(t.ones(3), 1.5), "tensor_split"),
    "split at a tensor": lambda t: (t.ones(6).tensor_split(t.tensor([2, 3])), t.ones(5).tensor_split(t.tensor(2))),
    "nonzero twice": (
        lambda t: t.nonzero(t.ones(2), as_tuple=True, out=t.empty(2, 1).long()),
        "does not support the out",
    ),
    "t of three": (lambda t: t.ones(2, 2, 2).to_sparse().t(), "<= 2 sparse and 0 dense dimensions, but got 3 sparse"),
    "t of rows": (lambda t: t.ones(2, 2).to_sparse(1).t(), "but got 1 sparse and 1 dense dimensions"),
    "sums of bools": lambda t: t.add(t.tensor(True), t.tensor(True), True),
    "a tensor as factor": lambda t: (t.add(t.tensor(1), t.tensor(3), 2), t.tensor(1).sub(t.tensor(3), 2)),
    "out on meta": lambda t: t.add(t.empty(2, device="meta"), 1, out=t.empty(0, device="meta")).shape,
    "out of two": lambda t: [tuple(x.shape) for x in t.max(nothing(t, 2, 3), 0, out=(nothing(t), nothing(t).long()))],
    "out from meta": (lambda t: t.add(t.empty(2, device="meta"), 1, out=t.empty(2)), "meta to device cpu"),
    "out of upsampling": lambda t: t._C._nn.upsample_nearest1d(t.ones(1, 1, 2), (4,), 2, out=t.empty(0)),
    "its schema": lambda t: str(t.ops.aten.upsample_bilinear2d.out._schema),
    "unique rows of NaN": lambda t: [
        t.unique(rows, dim=d, return_inverse=True, return_counts=True) for rows in tables(t) for d in (0, 1)
    ],
    "unique bfloat16": lambda t: t.unique(t.tensor([3.0, 1, NAN, 2, NAN, 3]).bfloat16(), dim=0, return_counts=True),
}


def nothing(t, *size):
    return t.empty(size or (0,), device="meta")


def tables(t):
    draw = random.Random(3)
    for n in range(2, 17):
        yield t.tensor([[draw.choice([0.0, 1.0, 2.0, NAN]) for _ in range(2)] for _ in range(n)])


@pytest.mark.filterwarnings("ignore:This overload")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_as_pytorch(case):
    if isinstance(case, tuple):
        agree(lambda t: said(lambda: case[0](t), case[1]))
    else:
        agree(case)


@pytest.mark.skipif(torchlike.cuda.is_available(), reason="jax has a GPU here")
def test_no_gpu():
    """As a PyTorch without CUDA an AssertionError; as one with CUDA, but without a driver, a RuntimeError."""
    for kind in (AssertionError, RuntimeError):
        with pytest.raises(kind, match="Torch not compiled with CUDA enabled"):
            torchlike.ones(1).cuda()
