"""``torch.embedding_bag``: the bags, and what PyTorch's kernel notes of them."""

import pytest
from both import agree, agree_error

import torchlike


def given(t, dtype="float32"):
    weight = t.arange(12.0, dtype=getattr(t, dtype)).reshape(4, 3)
    return weight, t.tensor([0, 2, 1, 3, 1]), t.tensor([0, 2, 2])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_all_four(mode, dtype):
    def run(t):
        w, i, o = given(t, dtype)
        found = [t.embedding_bag(w, i, o, mode=mode), t.embedding_bag(w, i.int(), o.int(), mode=mode)]
        found += [t.embedding_bag(w, i, t.tensor([0, 2, 5]), False, mode, False, None, True)]
        found += [t.embedding_bag(w, i, o, False, mode, False, None, False, p) for p in (1, -1, None)]
        return [*found, t.embedding_bag(w, i[:0], o * 0, mode=mode)]

    agree(run)


@pytest.mark.parametrize("last", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_last_offset_before_the_end(mode, dtype, last):
    """Sums end there, but those of float64; counts do not."""

    def run(t):
        w, i, _ = given(t, dtype)
        offsets = t.tensor([0, 2, last])
        bag = t.nn.functional.embedding_bag
        found = [bag(i, w, offsets, mode=mode, include_last_offset=True)]
        if mode == "sum":
            found += [bag(i, w, offsets, mode=mode, include_last_offset=True, per_sample_weights=w.reshape(-1)[:5])]
        return found

    agree(run)


def test_gradient_before_the_last_offset():
    """PyTorch leaves what was in memory where zeros are to be."""

    def run(f):
        weight, places, _ = given(torchlike)
        weight.requires_grad_()
        f(lambda: torchlike.nn.functional.embedding_bag(
            places, weight, torchlike.tensor([0, 2, 3]), mode="sum", include_last_offset=True
        ).sum())  # fmt: skip
        return weight.grad.tolist()

    def eager(loss):
        loss().backward()

    assert run(eager) == run(lambda loss: torchlike.compile(lambda: loss().backward())()) == [[1] * 3] * 3 + [[0] * 3]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_no_bags(mode):
    """PyTorch reads memory that is not its own here, and may end the process."""
    weight, places = torchlike.ones(3, 2, requires_grad=True), torchlike.tensor([1, 2])
    out = torchlike.nn.functional.embedding_bag(places, weight, places[:0], mode=mode)
    out.sum().backward()
    assert out.shape == (0, 2)
    assert weight.grad.tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_without_elements_have_gradients(sparse):
    def run(t):
        found = []
        for rows, at in ((0, []), (10, [[0, 2], [4, 3]]), (10, [])):
            layer = t.nn.Embedding(rows, 0, sparse=sparse)
            layer(t.tensor(at, dtype=t.int64)).sum().backward()
            found += [layer.weight.grad.is_sparse, layer.weight.grad.to_dense()]
        return found

    agree(run)


def test_weights_and_gradients():
    def run(t):
        w, i, o = given(t, "float64")
        w.requires_grad_()
        factors = t.tensor([1.0, 2, 3, 4, 5], dtype=t.float64, requires_grad=True)
        out = t.embedding_bag(w, i, o, per_sample_weights=factors)
        (out[0] * out[0]).sum().backward()
        t.embedding_bag(w, i, o, mode=2)[0].sum().backward()
        sparse = given(t)[0].requires_grad_()
        t.embedding_bag(sparse, i, o, sparse=True)[0].sum().backward()
        return *out, w.grad, factors.grad, str(sparse.grad.layout), sparse.grad.to_dense(), str(out[0].grad_fn.name())

    agree(run)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda t, w, i, o: t.embedding_bag(w, i, o, mode=3), "mode. must be sum, mean, or max"),
        (lambda t, w, i, o: t.embedding_bag(w, i, o, mode="sum"), "'mode' must be int"),
        (lambda t, w, i, o: t.embedding_bag(w, i, o, per_sample_weights=i, mode=1), "only supported with mode='sum'"),
        (lambda t, w, i, o: t.embedding_bag(w, i, t.tensor([1, 2])), "has to be 0"),
        (lambda t, w, i, o: t.embedding_bag(w, i, t.tensor([0, 9])), "offsets"),
        (lambda t, w, i, o: t.embedding_bag(w, i + 9, o), "Index 0 of input takes value 9"),
        (lambda t, w, i, o: t.embedding_bag(w[0], i, o), "weight has to be a 2D Tensor"),
        (lambda t, w, i, o: t.embedding_bag(w.int(), i, o), "scalar types"),
        (lambda t, w, i, o: t.embedding_bag(w, i.float(), o), "scalar types"),
        (lambda t, w, i, o: t.embedding_bag(w, i, o, False, 0, False, None, False, 9), "padding_idx must be within"),
        (lambda t, w, i, o: t.embedding_bag(w, i), "offsets|combination"),
        (lambda t, w, i, o: t.embedding_bag(w, i, o, nonsense=1), "nonsense"),
    ],
)
def test_wrong_calls(call, match):
    agree_error(lambda t: call(t, *given(t)), match)
