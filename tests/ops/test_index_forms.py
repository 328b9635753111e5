"""Forms of indices, fills of expanded tensors and missing arguments, against PyTorch."""

import numpy as np
import pytest
from both import agree, agree_error
from story_kit import warned

DTYPES = "int8", "int16", "int32", "int64", "uint8", "uint16", "bool"


def grid(t):
    return t.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_index_of_no_dimensions_has_any_integer_dtype(dtype):
    agree(lambda t: [grid(t)[t.tensor(1, dtype=getattr(t, dtype))], grid(t)[:, t.tensor(1, dtype=getattr(t, dtype))]])
    agree(lambda t: [x := grid(t), x.__setitem__(t.tensor(0, dtype=getattr(t, dtype)), 7.0)])


@pytest.mark.parametrize("dtype", [*DTYPES, "float32"])
def test_an_array_is_a_sequence_of_indices(dtype):
    agree(lambda t: grid(t)[np.array([1, 0], dtype)])


MASKED = [
    lambda t, x, m: x.index_put_((m,), t.tensor(5.0)),
    lambda t, x, m: x.index_put((m,), x[m] + 1, accumulate=True),
    lambda t, x, m: x.__setitem__(m, 3.0),
    lambda t, x, m: x.__setitem__(m, x[m] * 2),
    lambda t, x, m: x.__setitem__(m, t.ones(1, 1, 3)),
    lambda t, x, m: x.index_put_((t.tensor(True),), t.tensor(5.0)),
]


@pytest.mark.parametrize("f", MASKED)
def test_masks(f):
    agree(lambda t: [x := grid(t), f(t, x, t.tensor([True, False]))])


def test_a_value_is_fitted_before_its_dtype_is_asked_for():
    agree_error(lambda t: t.arange(4).__setitem__(t.arange(4) > 1, t.tensor([])), "shape mismatch")
    agree_error(lambda t: t.arange(4).__setitem__(t.arange(4) > 1, t.ones(2)), "source and destination dtypes match")
    agree_error(lambda t: t.arange(4).index_put_((t.arange(4) > 1,), t.ones(1, 2).long()), "shape mismatch")


def test_byte_masks():
    byte = lambda t: t.tensor([1, 0], dtype=t.uint8)  # noqa: E731
    agree(lambda t: warned(lambda: grid(t).index_put((byte(t),), t.ones(1, 3)), "indexing with dtype torch.uint8"))
    agree_error(lambda t: grid(t).__setitem__(byte(t), 0.0), "only supports boolean masks")
    agree_error(lambda t: grid(t).index_put_((byte(t),), t.tensor(1.0)), "only supports boolean masks")


EXPANDED = [
    lambda t, x: x.index_fill_(0, t.tensor([1]), 1.0),
    lambda t, x: x.index_fill_(1, t.tensor([2]), t.tensor(4.0)),
    lambda t, x: x.masked_fill_(t.tensor([[False, False, True], [True, False, False]]), 1.0),
    lambda t, x: x.masked_fill_(t.tensor([True, False, True]), t.tensor(2.0)),
    lambda t, x: x.index_put_((t.tensor([1]), t.tensor([0])), t.tensor(6.0)),
    lambda t, x: x.index_put_((t.tensor([False, True]),), t.tensor(6.0)),
    lambda t, x: x.__setitem__(t.tensor([1]), 3.0),
    lambda t, x: x.__setitem__(t.tensor([False, True]), float("nan")),
]


@pytest.mark.parametrize("f", EXPANDED)
def test_one_value_fills_expanded_tensors(f):
    agree(lambda t: [row := t.arange(3.0).reshape(1, 3), f(t, row.expand(2, 3)), row + 0])


def test_what_expanded_tensors_refuse():
    expanded = lambda t: t.zeros(1, 3).expand(2, 3)  # noqa: E731
    agree_error(lambda t: expanded(t).index_add_(0, t.tensor([0]), t.ones(1, 3)), "single memory location")
    agree_error(lambda t: expanded(t).index_fill_(0, t.tensor([2]), 1.0), "out of (range|bounds)")


UNGIVEN = "flip view reshape permute repeat tile expand resize_".split()


@pytest.mark.parametrize("name", UNGIVEN)
def test_sizes_are_to_be_given(name):
    agree_error(lambda t: getattr(t.tensor(1.0), name)(), f"{name}\\(\\)")
    agree(lambda t: getattr(t.tensor(1.0), name)(()))


NONE = [
    lambda t: t.roll(grid(t), 1, None),
    lambda t: grid(t).roll(1, dims=None),
    lambda t: [t.amax(grid(t), None), grid(t).amin(dim=None)],
    lambda t: t.nn.functional.avg_pool2d(grid(t)[None], (1, 3), stride=None),
]


@pytest.mark.parametrize("f", NONE)
def test_none_is_an_empty_list_where_that_is_the_default(f):
    agree(f)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "int64"])
@pytest.mark.parametrize("tolerance", [{"atol": 1}, {"rtol": 0.4}, {"atol": 300}])
def test_closeness_of_integers(dtype, tolerance):
    def f(t):
        low, high = t.iinfo(getattr(t, dtype)).min, t.iinfo(getattr(t, dtype)).max
        x, y = [0, high, 2, 3, low, high, high - 1, 100], [high, 0, 3, 2, high, low, high, 101]
        return t.isclose(t.tensor(x, dtype=getattr(t, dtype)), t.tensor(y, dtype=getattr(t, dtype)), **tolerance)

    agree(f)


MASKED_ON_META = {
    "a number": lambda t, x, m: x.__setitem__(m, 0.0),
    "a row": lambda t, x, m: x.__setitem__(m[0], t.ones(5, device="meta")),
    "some": lambda t, x, m: x.__setitem__(m, t.ones(3, device="meta")),
    "beside a number": lambda t, x, m: x.__setitem__((m[0], 1), 2.0),
    "index_put_": lambda t, x, m: x.index_put_((m[0],), t.ones(5, device="meta"), accumulate=True),
    "index_put": lambda t, x, m: x.index_put((m,), t.ones(7, device="meta")),
    "repeat": lambda t, x, m: t.repeat_interleave(x, t.ones(5, dtype=t.int64, device="meta"), 0, output_size=7),
    "ctc": lambda t, x, m: t.nn.functional.ctc_loss(
        x[:, None].expand(5, 2, 5), t.ones(2, 3, dtype=t.int64, device="meta"), (5, 5), (3, 3)),
    "derived": lambda t, x, m: x.clone().requires_grad_().clone().index_put_((m[0],), t.ones(5, device="meta")).sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKED_ON_META)
def test_values_that_meta_tensors_lack(name):
    def shapes(t):
        x, mask = t.empty(5, 5, device="meta"), t.empty(5, 5, device="meta", dtype=t.bool)
        out = MASKED_ON_META[name](t, x, mask)
        return x._version, None if out is None else (tuple(out.shape), str(out.device), out.requires_grad)

    agree(shapes)
