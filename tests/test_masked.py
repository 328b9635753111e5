"""``torch.masked`` against PyTorch: values, dtypes, gradients and errors of each function under several masks."""

import pytest
import torch
from both import agree, agree_error
from story_kit import story

import torchlike

REDUCED = "sum prod amax amin argmax argmin mean median var std logsumexp norm".split()
ALONG = "cumsum cumprod softmax log_softmax softmin normalize".split()
DTYPES = "float64 float16 int64 uint8 bool complex64".split()


def made(t, dtype=None):
    x = t.tensor([[1.0, 2, 3], [4, 6, 5]], dtype=t.float64)
    return (x if dtype is None else x.to(getattr(t, dtype))), t.tensor([[True, False, True], [False, False, False]])


def call(t, name, x, dim, **named):
    first = {"norm": (2.0, dim), "normalize": (2.0, dim)}.get(name, (dim,))
    return getattr(t.masked, name)(x, *first, **named)


def test_the_names():
    assert set(torch.masked.__all__) == set(torchlike.masked.__all__)


@pytest.mark.parametrize("name", REDUCED + ALONG)
def test_values_and_shapes(name):
    def run(t):
        x, mask = made(t)
        found = [call(t, name, x, d, mask=m) for d in (0, 1) for m in (mask, mask[0], mask.int(), None)]
        if name not in ALONG:
            found += [call(t, name, x, 1, mask=mask, keepdim=True), call(t, name, x, -1, mask=~mask)]
        if name not in [*ALONG, "median", "argmax", "argmin"]:
            found += [call(t, name, x, d, mask=mask) for d in (None, (0, 1), ())]
        return *found, call(t, name, x.float(), 1, mask=mask, dtype=t.float64)

    agree(run)


@pytest.mark.parametrize("name", [n for n in REDUCED + ALONG if not n.startswith("arg")])
def test_gradients(name):
    def run(t):
        x, mask = made(t)
        x.requires_grad_()
        out = [call(t, name, x, 1, mask=m) for m in (~mask, mask[0], None)]
        return t.autograd.grad([(o * o * o).sum() for o in out], x)

    agree(run)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCED + ALONG)
def test_dtypes(name, dtype):
    def run(t):
        x, _ = made(t, dtype)
        mask = t.tensor([[True, False, True], [False, True, False]])
        try:
            out = call(t, name, x, 1, mask=mask)
            return (out.float().round(decimals=2), str(out.dtype)) if dtype == "float16" else out
        except Exception as error:
            return type(error).__name__

    agree(run)


@story
def test_pairs_corrections_and_limits(t):
    x, mask = made(t)
    m = t.masked
    return (
        m.logaddexp(x, x + 1, input_mask=mask, other_mask=~mask), m.logaddexp(x, x), m.var(x, 1, True, mask=mask),
        m.var(x, 1, correction=2, mask=mask), m.std(x, (0, 1), correction=0, mask=mask),
        m.norm(x, float("-inf"), 1, mask=mask),
        m.norm(x, float("inf"), 1, mask=mask), m.norm(x, 0, 1, mask=mask), m.normalize(x, 1, 0, eps=10.0, mask=mask),
        [getattr(m, n)(t.tensor(3.0), mask=t.tensor(False)) for n in ("sum", "amax", "mean", "var")],
        m.argmax(x, mask=mask),
    )  # fmt: skip


@story
def test_dim_none_is_the_first_dimension(t):
    x, mask = made(t)
    names = [n for n in ALONG if n != "normalize"] + ["median"]
    return [(f(x, None, mask=mask), f(x, (), mask=mask), f(x, (1,))) for f in [getattr(t.masked, n) for n in names]]


ERRORS = [
    (lambda t, x, k: t.masked.softmax(x[0, 0], None), "."), (lambda t, x, k: t.masked.cumsum(x, []), "."),
    (lambda t, x, k: t.masked.sum(x[0], 0, mask=k), "mask dimensionality higher than of the input"),
    (lambda t, x, k: t.masked.sum(x, mask=t.ones(3, 2).bool()), "expanded size|expand"),
    (lambda t, x, k: t.masked.sum(x, 5), "Dimension out of range"),
    (lambda t, x, k: t.masked.prod(x, (1, 1)), "multiple times"),
    (lambda t, x, k: t.masked.amax(x > 2, 1, mask=k), "identity of amax on torch.bool"),
    (lambda t, x, k: t.masked.mean(x.int(), 1), "Could not infer output dtype. Input dtype"),
    (lambda t, x, k: t.masked.mean(x, 1, dtype=t.int64), "Could not infer output dtype. Optional dtype"),
    (lambda t, x, k: t.masked.median(x.int(), 1, mask=k), "no fully masked out rows"),
    (lambda t, x, k: t.masked.var(x, 1, True, correction=2), "Only one of unbiased and correction"),
    (lambda t, x, k: t.masked.amax(t.ones(0, 3), 0), "non-zero size"),
    (lambda t, x, k: t.masked.cumsum(x > 2, 1, mask=k), "cumsum_out_cpu"),
    (lambda t, x, k: t.masked.softmax(x.int(), 1, mask=k), "softmax"),
]


@pytest.mark.parametrize("n", range(len(ERRORS)))
def test_errors(n):
    f, match = ERRORS[n]
    agree_error(lambda t: f(t, *made(t)), match)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_over_no_dimension(dtype):
    def run(t):
        x, mask = made(t, dtype)
        return [t.masked.prod(x, dim=d, mask=mask, keepdim=k) for d in ([], (), None) for k in (True, False)]

    agree(run)


@pytest.mark.parametrize("name", [*REDUCED, *ALONG, "logaddexp", "softmax"])
def test_numbers_that_change_nothing(name):
    """Of every dtype, by name; what has none, or no order, is refused."""

    def told(t, dtype, *args):
        try:
            found = t.masked._reduction_identity(f"masked.{name}", t.ones(2, dtype=getattr(t, dtype)), *args)
        except Exception as error:
            return type(error).__name__
        return None if found is None else (found.item(), found.dtype)

    kinds = ["float32", "int16", "uint8", "bool", "complex64", "bfloat16"]
    rest = [(), (float("-inf"),)] if name == "norm" else [()]
    agree(lambda t: [told(t, dtype, *args) for dtype in kinds for args in rest])


@story
def test_masks_of_results(t):
    x, mask = t.ones(2, 3), t.tensor([[True, False, True], [False, False, False]])
    made = [t.masked._output_mask(t.masked.sum, x, mask=mask, **given) for given in ({}, {"dim": 1}, {"dim": (0, -1)})]
    made += [t.masked._output_mask(t.masked.norm, x, 2.0, 0, keepdim=True, mask=mask)]
    made += [t.masked._output_mask(t.masked.cumsum, x, 0, mask=mask[0]), t.masked._input_mask(x, mask=mask[0])]
    return [*made, t.masked._where(mask, x, t.zeros(())), t.masked._canonical_dim((-1, 0), 3)]


def _entries(t, dtype):
    x = t.tensor([[0, 2.0, 0], [3, 0, 4]]).to(getattr(t, dtype))
    mask = t.tensor([[True, True, False], [True, False, False]])
    return x.to_sparse(), mask


def _parts(x):
    x = x.coalesce() if str(x.layout).endswith("coo") else x
    inner = x.indices() if str(x.layout).endswith("coo") else x.crow_indices()
    return str(x.layout).rpartition(".")[2], inner, x.values(), x.shape


@pytest.mark.parametrize("dtype", ["float64", "int32", "complex64"])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean"])
def test_entries_of_sparse_tensors(name, dtype):
    def run(t):
        x, mask = _entries(t, dtype)
        reduced = getattr(t.masked, name)
        masks = [mask, mask.to_sparse(), mask[0], ~mask & mask] + [None] * (name == "sum")
        coo = [reduced(x, d, mask=m, keepdim=k) for m in masks for d in (0, -1, None) for k in (True, False)]
        dims = [0, 1, (0, 1)] if dtype == "float64" else []
        csr = [reduced(x.to_sparse_csr(), d, mask=mask.to_sparse_csr(), keepdim=True) for d in dims]
        return [_parts(r) for r in coo + csr]

    if name == "mean":
        agree(lambda t: _parts(t.masked.mean(_entries(t, "float64")[0].to_sparse_csr(), 1, keepdim=True,
                                             mask=_entries(t, "float64")[1].to_sparse_csr())))  # fmt: skip
        agree_error(run, "masked mean expects strided or sparse_csr") if dtype == "float64" else None
    elif dtype != "complex64" or name in ("sum", "prod"):
        agree(run)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
def test_a_sparse_number(name):
    def run(t):
        x = t.tensor(2.0).to_sparse()
        masks = [t.tensor(True).to_sparse(), t.tensor(False)]
        return [_parts(getattr(t.masked, name)(x, d, mask=m)) for d in (None, 0, -1, ()) for m in masks]

    agree(run)


@pytest.mark.parametrize("layout", ["sparse", "sparse_csr"])
@pytest.mark.parametrize("name", REDUCED + ALONG)
def test_masks_that_are_sparse_and_tensors_that_are_not_reduced(name, layout):
    def dense(t):
        x, mask = made(t)
        return call(t, name, x, 1, mask=getattr(mask, f"to_{layout}")())

    agree(dense)
    if name not in ("sum", "prod", "amax", "amin", "mean"):
        agree_error(lambda t: call(t, name, getattr(made(t)[0], f"to_{layout}")(), 1), "expects strided")


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean"])
def test_sparse_tensors_that_are_refused(name):
    x, mask = (
        (lambda t: _entries(t, "float64")[0].to_sparse_csr()),
        (lambda t: _entries(t, "float64")[1].to_sparse_csr()),
    )
    agree_error(lambda t: getattr(t.masked, name)(x(t), 1, mask=mask(t)), "keepdim=False is unsupported")
    if name != "sum":
        agree_error(lambda t: getattr(t.masked, name)(x(t), 1, keepdim=True), "expects explicit mask")
