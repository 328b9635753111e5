"""3, 3.0 and True are one key of a dict, and so are 0.0 and -0.0: a call shows the number that it was given, whatever
an equal one before it was.
"""

import math

import pytest
from both import agree

import torchlike
from torchlike._decl.op import REGISTRY, exact

ONES = (1, 1.0, True)
ZEROS = (0, 0.0, -0.0, False)
TWOS = (2.0, 2)


def table(t, shape=(3, 4)):
    return (t.arange(math.prod(shape), dtype=t.float64).reshape(shape) / 8 - 0.5).requires_grad_()


def saved(y, *names):
    """The numbers that the node of a result shows, spelled with their types."""
    return [repr(getattr(y.grad_fn, f"_saved_{n}")) for n in names]


def told(f, *numbers):
    """What ``f(t, number)`` gives for each in turn, and once more the other way round."""
    agree(lambda t: [f(t, x) for x in (*numbers, *reversed(numbers))])


SAVED = {
    "linalg_vector_norm": (lambda t, p: saved(t.linalg.vector_norm(table(t), p), "ord"), (*TWOS, *ONES, *ZEROS)),
    "renorm": (lambda t, p: saved(t.renorm(table(t), p, 0, 1), "p", "maxnorm"), (*TWOS, *ONES)),
    "cdist": (lambda t, p: saved(t.cdist(table(t), table(t), p=p), "p"), (*TWOS, *ONES, *ZEROS)),
    "pdist": (lambda t, p: saved(t.nn.functional.pdist(table(t), p=p), "p"), (*TWOS, *ONES, *ZEROS)),
    "multi_margin_loss": (
        lambda t, p: saved(t.nn.functional.multi_margin_loss(table(t), t.tensor([0, 1, 2]), p=p), "p", "margin"),
        (*TWOS, *ONES),
    ),
    "pairwise_distance": (
        lambda t, p: saved(t.nn.functional.pairwise_distance(table(t), table(t), p=p), "p"),
        (*TWOS, *ONES, *ZEROS),
    ),
    "_pow_special": (lambda t, p: saved(t.pow(table(t), p), "exponent"), (*TWOS, *ONES, *ZEROS)),
    "var.correction": (lambda t, c: saved(t.var(table(t), 1, correction=c), "correction"), (*ONES, *ZEROS)),
    "std.correction": (lambda t, c: saved(t.std(table(t), 1, correction=c), "correction"), (*ONES, *ZEROS)),
    "var_mean.correction": (lambda t, c: saved(t.var_mean(table(t), 1, correction=c)[0], "correction"), ONES + ZEROS),
    "std_mean.correction": (lambda t, c: saved(t.std_mean(table(t), 1, correction=c)[0], "correction"), ONES + ZEROS),
    "_upsample_nearest1d": (
        lambda t, s: saved(
            t.nn.functional.interpolate(table(t, (1, 3, 4)), scale_factor=s, recompute_scale_factor=False), "scales"
        ),
        (*ONES, *TWOS),
    ),
}


@pytest.mark.parametrize("name", SAVED)
def test_nodes_show_the_number_they_were_given(name):
    told(SAVED[name][0], *SAVED[name][1])


def test_every_operator_with_such_an_argument_is_asked():
    # No node of the triplets shows it, powers of a list and renorm have no derivative; one of the resizings is asked.
    alike = ("_triplet_margin_loss", "_powsum", "embedding_renorm", "_upsample")
    missing = [op.full_name for op in REGISTRY.values() if op.inexact and op.full_name not in SAVED]
    assert [name for name in missing if not name.startswith(alike)] == []


@pytest.mark.parametrize("name", [op.full_name for op in REGISTRY.values() if op.inexact])
def test_equal_numbers_are_other_keys(name):
    op = REGISTRY[name]
    keys = {op.exactly((x,) * len(op.static)) for x in (*ONES, *ZEROS, None, (1.0,), (1,), (0.0,), (-0.0,))}
    assert len(keys) == 12, keys


def test_exact_of_a_tuple_is_that_of_its_elements():
    assert exact((2, 0.0, (True, -0.0), None)) == (int, "0.0", (bool, "-0.0"), "None")


VALUES = {
    "pad": lambda t, v: t.nn.functional.pad(t.ones(2), (1, 1), value=v),
    "full": lambda t, v: t.full((2,), v),
    "mul": lambda t, v: t.arange(3) * v,
    "where": lambda t, v: t.where(t.tensor([True, False]), v, 2),
    "index_fill": lambda t, v: t.ones(2).index_fill(0, t.tensor([0]), v),
    "masked_fill": lambda t, v: t.ones(2).masked_fill(t.tensor([True, False]), v),
    "quantile": lambda t, v: t.quantile(table(t), v),
    "pow": lambda t, v: t.tensor([2, 3]).pow(v),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_and_dtypes_are_of_the_number_given(name):
    def signed(t, v):
        got = VALUES[name](t, v).detach()
        return str(got.dtype), got.tolist(), t.signbit(got).tolist()

    told(signed, *ONES, *ZEROS)


def compiled_tells(f, *given):
    """A compiled function gives what the function itself does, for arguments that equal each other."""
    g = torchlike.compile(f)
    for x in (*given, *reversed(given)):
        ours, plain = g(torchlike.arange(3), x), f(torchlike.arange(3), x)
        assert repr(ours) == repr(plain), (x, ours, plain)


COMPILED = {
    "number": (lambda x, v: (x * v, str(v)), (*ONES, *ZEROS)),
    "tuple": (lambda x, v: (x * v[0], str(v)), ((1,), (1.0,), (True,), (0.0,), (-0.0,))),
    "values": (lambda x, v: (x * v["a"], str(v)), ({"a": 1}, {"a": 1.0}, {"a": 0.0}, {"a": -0.0})),
    "keys": (lambda x, v: (x * next(iter(v)), str(v)), ({1: 5}, {1.0: 5}, {True: 5}, {0.0: 5}, {-0.0: 5})),
    "keys in tuples": (lambda x, v: (x * v[1, 2], str(v)), ({(1, 2): 5}, {(1.0, 2): 5}, {(True, 2): 5})),
    "set": (lambda x, v: (x * next(iter(v)), str(v)), (frozenset((1,)), frozenset((1.0,)), frozenset((True,)))),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_functions_tell_equal_arguments_apart(name):
    compiled_tells(COMPILED[name][0], *COMPILED[name][1])
