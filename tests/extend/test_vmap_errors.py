"""What torch.vmap refuses, with PyTorch's types of exception and messages; and what random operators do in it."""

from __future__ import annotations

import functools

import pytest
import torch
from both import agree_error

import torchlike


def refused(match, f, *shapes, **options):
    """``vmap(f, **options)`` of ones of these shapes raises the same on both libraries."""
    agree_error(lambda t: t.vmap(lambda *x: f(t, *x), **options)(*[t.ones(*s) for s in shapes]), match)


def same(t, *x):
    return x[0]


@pytest.mark.parametrize("dims", ["a", 1.0, None, [0, 0]])
def test_in_dims_of_a_wrong_type(dims):
    refused("expected `in_dims` to be int or a .*tuple matching the structure", same, (2,), in_dims=dims)


@pytest.mark.parametrize("dims", [(0,), (0, 0, 0), ((0, 0), 0)])
def test_in_dims_of_another_structure(dims):
    refused("in_dims is not compatible with the structure of `inputs`", same, (2,), (2,), in_dims=dims)


def test_in_dims_of_a_dict():
    agree_error(
        lambda t: t.vmap(lambda d: d["a"], in_dims=({"b": 0},))({"a": t.ones(2)}), "in_dims is not compatible.*TreeSpec"
    )


def test_in_dims_that_are_no_ints():
    refused("Got in_dim=x for an input but in_dim must be either an integer dimension or None", same, (2,), (2,),
            in_dims=(0, "x"))  # fmt: skip


@pytest.mark.parametrize("dim", [2, -3])
def test_in_dims_out_of_range(dim):
    refused(f"Got in_dim={dim} for some input, but that input is a Tensor of dimensionality 2", same, (2, 3),
            in_dims=dim)  # fmt: skip


def test_a_number_cannot_be_mapped():
    agree_error(lambda t: t.vmap(lambda x, y: x)(t.ones(2), 2.0), "is of type <class 'float'>. We cannot vmap over")
    agree_error(lambda t: t.vmap(lambda x: x)(t.tensor(1.0)), "dimensionality 0")


def test_nothing_to_map():
    refused("got no inputs", same)
    refused("Expected at least one Tensor to vmap over", same, (2,), in_dims=(None,))
    agree_error(lambda t: t.vmap(lambda x: x)(()), "Expected at least one Tensor to vmap over")


def test_axes_of_unequal_length():
    refused(r"same size in the mapped dimension, got sizes \[2, 3\]", same, (2,), (3,))


@pytest.mark.parametrize("out", [1.0, None, "a", (3,)])
def test_results_that_are_no_tensors(out):
    refused("must only return Tensors, got type <class", lambda t, x: out, (2,))


@pytest.mark.parametrize("dims", ["a", 1.0])
def test_out_dims_of_a_wrong_type(dims):
    refused("`out_dims` must be an int, None or a python collection of ints", same, (2,), out_dims=dims)


def test_out_dims_that_do_not_fit():
    refused("out_dims is not compatible with the structure of `outputs`", same, (2,), out_dims=(0, 0))
    refused("out_dims is not compatible", lambda t, x: (x, x), (2,), out_dims=(0,))
    refused("can not return a BatchedTensor when out_dim is None", same, (2,), out_dims=None)
    refused("Dimension out of range", same, (2, 3), out_dims=2)


def test_options():
    agree_error(lambda t: t.vmap(t.sin, randomness="often"), "Only allowed values for randomness are")
    agree_error(lambda t: t.vmap(t.sin, chunk_size=0), "chunk_size should be None or greater than 0. .got 0")


def test_names_in_messages():
    agree_error(lambda t: t.vmap(functools.partial(t.add, t.ones(2)), in_dims=(0, 0, 0))(t.ones(2)),
                r"vmap\(functools.partial\(add, ...\), in_dims")  # fmt: skip


# -- inside ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x: x.sum().item(),
        lambda t, x: float(x.sum()),
        lambda t, x: int(x.sum()),
        lambda t, x: f"{x.sum():.3f}",
        lambda t, x: [1, 2][x[0].long()],
    ],
)
def test_numbers_cannot_be_read(f):
    refused(r"vmap: It looks like you're calling .item\(\) on a Tensor", f, (2, 3))


def test_arrays_cannot_be_read():
    refused("Cannot access data pointer of Tensor that doesn't have storage", lambda t, x: x.numpy(), (2, 3))
    refused("Cannot access data pointer of Tensor that doesn't have storage", lambda t, x: x.tolist(), (2, 3))
    refused("Cannot access data pointer of Tensor that doesn't have storage", lambda t, x: x.data_ptr(), (2, 3))


@pytest.mark.parametrize(
    "f",
    [lambda t, x: x if x.sum() > 0 else -x, lambda t, x: bool(x[0]), lambda t, x: t.is_nonzero(x[0])],
)
def test_values_cannot_decide(f):
    refused("attempting to use a Tensor in some data-dependent control flow", f, (2, 3))


def test_shapes_that_depend_on_values():
    refused("batching operators that can output dynamic shape", lambda t, x: x.nonzero(), (2, 3))
    refused("batching operators that can output dynamic shape", lambda t, x: x.unique(), (2, 3))
    refused("Attempting to batch over indexing with a boolean mask", lambda t, x: x[x > 0], (2, 3))
    refused("Attempted to vmap over `mask` in torch.masked_select", lambda t, x: x.masked_select(x > 0), (2, 3))


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x: t.zeros(3).mul_(x.sum()),
        lambda t, x: t.zeros(3).copy_(x),
        lambda t, x: t.zeros(3).__setitem__(0, x[0]),
        lambda t, x: t.zeros(3).index_add_(0, t.tensor([0]), x[:1]),
        lambda t, x: t.zeros(3).fill_(x[0]),
        lambda t, x: t.zeros(3).masked_fill_(x > 0, 1.0),
    ],
)
def test_a_shared_tensor_cannot_take_mapped_values(f):
    refused(r"is not possible because there exists a Tensor `other` in extra_args that has more elements than `self`",
            f, (2, 3))  # fmt: skip


def test_out_is_refused():
    refused("the fallback path doesn't work on out=", lambda t, x: t.add(x, 1, out=t.zeros(3)), (2, 3))
    refused("the fallback path doesn't work on out=", lambda t, x: t.add(x, 1, out=x), (2, 3))


def test_a_leaf_that_requires_grad_cannot_change():
    agree_error(lambda t: t.vmap(lambda x: x.add_(1))(t.ones(2, requires_grad=True)),
                "a leaf Variable that requires grad is being used in an in-place operation")  # fmt: skip


def test_autograd_of_the_outside_stays_outside():
    refused("requires_grad_.* inside of a function being transformed", lambda t, x: x.requires_grad_(), (2,))
    refused("inside a functorch transform", lambda t, x: x.sum().backward(), (2,))
    w = {t: t.ones(3, requires_grad=True) for t in (torchlike, torch)}
    refused("does not require grad", lambda t, x: t.autograd.grad((x * w[t]).sum(), w[t]), (2, 3))
    refused("accessing `data` under vmap transform is not allowed", lambda t, x: x.data, (2,))


def test_storages():
    refused("Cannot access storage of BatchedTensorImpl", lambda t, x: x.untyped_storage(), (2,))
    refused("Cannot access storage of BatchedTensorImpl", lambda t, x: __import__("copy").deepcopy(x), (2,))


def test_running_statistics():
    refused("Batch norm got a batched tensor as input while the running_mean",
            lambda t, x: t.nn.BatchNorm1d(3)(x), (2, 4, 3))  # fmt: skip


def test_value_checks_of_one_example():
    with pytest.raises(IndexError, match="index out of range in self: 5 in dimension 0 with size 3"):
        torchlike.vmap(lambda i: torchlike.ones(3).index_select(0, i))(torchlike.tensor([[0], [5]]))
    with pytest.raises(torchlike.linalg.LinAlgError, match="singular"):
        torchlike.vmap(torchlike.linalg.inv)(torchlike.stack([torchlike.eye(2), torchlike.zeros(2, 2)]))


# -- random operators --------------------------------------------------------------------------------

RANDOM = {
    "rand": lambda t, x: t.rand(30),
    "randn": lambda t, x: t.randn(30) + x[0],
    "randint": lambda t, x: t.randint(0, 100, (30,)),
    "randperm": lambda t, x: t.randperm(30),
    "rand_like": lambda t, x: t.rand_like(x),
    "bernoulli": lambda t, x: t.bernoulli(t.full((30,), 0.5)),
    "dropout": lambda t, x: t.nn.functional.dropout(x),
    "in place": lambda t, x: x.clone().uniform_(),
    "generator": lambda t, x: t.rand(30, generator=t.default_generator),
}


def drawn(t, f, randomness):
    out = t.vmap(lambda x: f(t, x), randomness=randomness)(t.full((4, 30), 0.5))
    return tuple(out.shape), bool((out == out[:1]).all())


@pytest.mark.parametrize("name", RANDOM)
def test_randomness(name):
    agree_error(lambda t: drawn(t, RANDOM[name], "error"), "called random operation while in randomness error mode")
    for t in (torchlike, torch):
        assert drawn(t, RANDOM[name], "same") == ((4, 30), True)
        assert drawn(t, RANDOM[name], "different") == ((4, 30), False)


@pytest.mark.parametrize(
    "f",
    [lambda t, x: t.bernoulli(x), lambda t, x: t.normal(x, 1.0), lambda t, x: t.poisson(x),
     lambda t, x: t.multinomial(x, 2), lambda t, x: x.clone().bernoulli_(x)],
)  # fmt: skip
def test_the_same_draw_of_different_distributions(f):
    agree_error(lambda t: t.vmap(lambda x: f(t, x), randomness="same")(t.full((2, 3), 0.5)),
                "does not currently support same randomness with a batched tensor input")  # fmt: skip


def test_different_draws_into_one_tensor():
    agree_error(lambda t: t.vmap(lambda x: t.zeros(3).normal_(), randomness="different")(t.ones(2)),
                "Cannot ask for different inplace randomness on an unbatched tensor")  # fmt: skip


def test_draws_of_nested_vmaps_differ_for_each_pair():
    f = torchlike.vmap(torchlike.vmap(lambda x: torchlike.rand(()), randomness="different"), randomness="different")
    assert len(set(f(torchlike.ones(3, 4)).flatten().tolist())) == 12
    torchlike.manual_seed(3)
    first = f(torchlike.ones(3, 4))
    torchlike.manual_seed(3)
    assert torchlike.equal(f(torchlike.ones(3, 4)), first)


def test_dropout_and_its_gradient_agree():
    x = torchlike.ones(5, 40, requires_grad=True)
    y = torchlike.vmap(torchlike.nn.functional.dropout, randomness="different")(x)
    y.sum().backward()
    assert torchlike.equal(y, x.grad)


# -- what has no meaning for several tensors at once ---------------------------------------------------


def test_memory_cannot_be_exchanged():
    refused(r"vmap: aten::set_\(self", lambda t, x: t.zeros(3).set_(x), (2, 3))
    refused("Can't detach views in-place", lambda t, x: x.detach_(), (2, 3))
    with pytest.raises(NotImplementedError, match=r"resize_\(\) inside of vmap is not supported"):
        torchlike.vmap(lambda x: x.resize_(2))(torchlike.ones(2, 3))


def test_factories_need_numbers():
    refused(r"calling .item\(\) on a Tensor", lambda t, x: t.full((2,), x[0]), (2, 3))
    refused(r"calling .item\(\) on a Tensor", lambda t, x: t.arange(x[0]), (2, 3))


def test_functions_of_many_tensors_at_once():
    with pytest.raises(NotImplementedError, match="over several tensors at once is not supported inside of vmap"):
        clip = torchlike.nn.utils.clip_grads_with_norm_
        torchlike.vmap(lambda x: clip(_with_grad(x), 1.0, x.norm()))(torchlike.ones(2, 3))


def _with_grad(x):
    p = torchlike.nn.Parameter(x.detach())
    p.grad = x.clone()
    return [p]


REFUSED = {
    "randn into": (lambda t, x: t.randn(3, out=t.zeros(3)), "calling out variants of random operations"),
    "bernoulli into": (lambda t, x: t.bernoulli(x, out=x), "calling out variants of random operations"),
    "normal into": (lambda t, x: t.normal(0.0, 1.0, (3,), out=t.zeros(3)), "calling out variants of random operations"),
    "randperm into": (lambda t, x: t.randperm(3, out=t.zeros(3)), "calling out variants of random operations"),
    "equal": (lambda t, x: t.equal(x, x), "Batching rule not implemented for aten::equal"),
    "allclose": (lambda t, x: t.allclose(x, x), "vmap over torch.allclose isn't supported"),
    "where": (lambda t, x: t.where(x), "Attempted to vmap over aten::where"),
    "strides": (lambda t, x: x.as_strided([1, 1], [1]), "size and stride must have the same length"),
    "the next example": (lambda t, x: x.as_strided([4], [1]), "not supported inside of vmap"),
    "the example before": (lambda t, x: x[1:].as_strided([1], [1], 0), "not supported inside of vmap"),
    "channels_last": (lambda t, x: x.clone(memory_format=t.channels_last), "only supported with memory_format"),
    "contiguous": (lambda t, x: x.contiguous(memory_format=t.channels_last), "querying is_contiguous inside of vmap"),
    "is_contiguous": (lambda t, x: x.is_contiguous(memory_format=t.channels_last), "querying is_contiguous inside of"),
    "squeeze": (lambda t, x: x.sum().squeeze(1), "Dimension is out of range"),
    "binomial": (lambda t, x: t.binomial(t.ones(3, 4), t.ones(2, 4)), "must match the size of tensor b"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    f, match = REFUSED[name]
    agree_error(lambda t: t.vmap(lambda x: f(t, x), randomness="different")(t.ones(2, 3)), match)
