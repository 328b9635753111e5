"""Pruning, and modules called with other tensors, on both libraries."""

import copy
import pickle

import pytest
import torch.nn.utils.prune  # noqa: F401  (PyTorch imports it for nobody)
from both import agree, agree_error
from story_kit import said, story, warned

import torchlike


def layer(t, kind="Linear"):
    """A layer with values of different magnitude."""
    m = {"Linear": lambda: t.nn.Linear(4, 3), "Conv2d": lambda: t.nn.Conv2d(2, 3, 2)}[kind]()
    with t.no_grad():
        for p in m.parameters():
            p.copy_(
                ((t.arange(p.numel(), dtype=t.float64) * 7) % (p.numel() + 1) / (5 + p.numel() / 100) - 1.03).reshape(
                    p.shape
                )
            )
    return m


def told(t, m, name="weight"):
    prune = t.nn.utils.prune
    hooks = [
        (type(h).__name__, h._tensor_name, [type(x).__name__ for x in h] if hasattr(h, "__iter__") else None)
        for h in m._forward_pre_hooks.values()
    ]
    return getattr(m, name), m.state_dict(), hooks, [n for n, _ in m.named_parameters()], prune.is_pruned(m), repr(m)


STEPS = {
    "l1": lambda P, m: P.l1_unstructured(m, "weight", 4),
    "l1 share": lambda P, m: P.l1_unstructured(m, "weight", 0.3),
    "l1 nothing": lambda P, m: P.l1_unstructured(m, "weight", 0),
    "ln": lambda P, m: P.ln_structured(m, "weight", 1, 2, 0),
    "ln share": lambda P, m: P.ln_structured(m, "weight", 0.5, 1, -1),
    "ln most": lambda P, m: P.ln_structured(m, "weight", 1, float("inf"), 1),
    "identity": lambda P, m: P.identity(m, "weight"),
    "mask": lambda P, m: P.custom_from_mask(m, "weight", (m.weight.detach() > 0).int()),
}


@pytest.mark.parametrize("kind", ["Linear", "Conv2d"])
@pytest.mark.parametrize("second", [None, "l1", "ln", "mask", "ln share"])
@pytest.mark.parametrize("first", STEPS)
def test_pruning(first, second, kind):
    def run(t):
        P, m = t.nn.utils.prune, layer(t, kind).double()
        out = [STEPS[first](P, m) is m, told(t, m)]
        if second is not None:
            out += [said(lambda: STEPS[second](P, m) and None), told(t, m)]
        x = t.ones((1, 4) if kind == "Linear" else (1, 2, 3, 3), dtype=t.float64)
        m(x).square().sum().backward()
        out += [[(n, p.grad) for n, p in m.named_parameters()], m.weight.grad_fn]
        parameter = m.weight_orig
        P.remove(m, "weight")
        return *out, told(t, m), m.weight is parameter

    agree(run)


@pytest.mark.parametrize("amount", [-1, 13, 1.5, -0.5, "a", None, 12, 1.0, 0.0])
def test_amounts(amount):
    agree(lambda t: said(lambda: t.nn.utils.prune.l1_unstructured(layer(t), "weight", amount).weight_mask))
    agree(lambda t: said(lambda: t.nn.utils.prune.ln_structured(layer(t), "weight", amount, 2, 0).weight_mask))
    agree(lambda t: said(lambda: t.nn.utils.prune.random_structured(layer(t), "weight", amount, 0).weight_mask.sum()))
    agree(lambda t: said(lambda: t.nn.utils.prune.random_unstructured(layer(t), "weight", amount).weight_mask.sum()))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
def test_random_slices_are_those_of_float32(dtype):
    def run(t):
        m = layer(t).to(getattr(t, dtype))
        t.manual_seed(2)
        return t.nn.utils.prune.random_structured(m, "weight", 2, 1).weight_mask.abs(), t.rand(1)

    agree(run)


@story
def test_random_pruning_takes_as_many(t):
    P, m = t.nn.utils.prune, layer(t)
    sums = [
        P.random_unstructured(m, "weight", 5).weight_mask.sum(),
        P.random_unstructured(m, "weight", 0.5).weight_mask.sum(),
    ]
    n = layer(t)
    P.random_structured(n, "weight", 1, 1)
    return sums, n.weight_mask.sum(), n.weight_mask.sum(0).sort()[0], told(t, n)[2:]


@story
def test_scores(t):
    P, m = t.nn.utils.prune, layer(t)
    scores = t.arange(12.0).reshape(3, 4).flip(0)
    P.l1_unstructured(m, "weight", 3, importance_scores=scores)
    mask = m.weight_mask
    P.ln_structured(m, "weight", 1, 2, 1, importance_scores=scores)
    x = t.tensor([1.0, -3.0, 0.5, 4.0])
    one = P.L1Unstructured(2)
    alone = one.prune(x), one.prune(x, default_mask=t.tensor([1.0, 0, 1, 1])), one.prune(x, importance_scores=-x + 9)
    return mask, m.weight_mask, alone


@story
def test_several_modules(t):
    P, a, b = t.nn.utils.prune, layer(t), layer(t, "Conv2d")
    pairs = [(a, "weight"), (b, "weight"), (a, "bias")]
    P.global_unstructured(pairs, pruning_method=P.L1Unstructured, amount=0.4)
    out = [told(t, a), told(t, b), told(t, a, "bias")]
    scores = {(a, "weight"): t.arange(12.0).reshape(3, 4)}
    P.global_unstructured(pairs, pruning_method=P.L1Unstructured, importance_scores=scores, amount=6)
    return *out, told(t, a), told(t, b), P.is_pruned(t.nn.Sequential(b)), P.is_pruned(t.nn.Sequential(t.nn.ReLU()))


@pytest.mark.parametrize("kind", ["unstructured", "global", "structured"])
def test_methods_of_users(kind):
    def run(t):
        class Mine(t.nn.utils.prune.BasePruningMethod):
            PRUNING_TYPE = kind
            dim = 0

            def compute_mask(self, x, default_mask):
                mask = default_mask.clone()
                mask.view(-1)[::2] = 0
                return mask

        m = layer(t)
        first = Mine.apply(m, "weight")
        second = Mine.apply(m, "weight")
        return type(first).__name__, type(second).__name__, len(second), second[0] is first, told(t, m)

    agree(run)


@story
def test_copies(t):
    m = t.nn.utils.prune.l1_unstructured(layer(t), "weight", 4)
    m(t.ones(1, 4))
    told_off = said(lambda: copy.deepcopy(m), "Only Tensors created explicitly by the user")
    with t.no_grad():
        m(t.ones(1, 4))
    twin = copy.deepcopy(m)
    t.nn.utils.prune.remove(twin, "weight")
    other = t.nn.utils.prune.identity(t.nn.Linear(4, 3), "weight")
    other.load_state_dict(m.state_dict())
    return (
        told_off,
        told(t, twin),
        told(t, m),
        other(t.ones(1, 4)),
        isinstance(pickle.dumps(m._forward_pre_hooks), bytes),
    )


def test_what_fails_changes_nothing():
    P = torchlike.nn.utils.prune
    m = layer(torchlike)
    with pytest.raises(ValueError, match="number of parameters to prune=3"):
        P.ln_structured(m, "weight", 9, 2, 0)
    assert list(m.state_dict()) == ["weight", "bias"] and not P.is_pruned(m)
    P.l1_unstructured(m, "weight", 2)
    with pytest.raises(ValueError, match="number of parameters to prune=3"):
        P.ln_structured(m, "weight", 9, 2, 0)
    assert P.is_pruned(m) and m.weight_mask.sum() == 10  # PyTorch has taken the hook away


def test_compiled():
    m = torchlike.nn.utils.prune.l1_unstructured(layer(torchlike), "weight", 4)
    expected = m(torchlike.ones(2, 4)).tolist()
    f = torchlike.compile(lambda x: m(x), fullgraph=True)
    assert [f(torchlike.ones(2, 4)).tolist() for _ in range(2)] == [expected] * 2


ERRORS = {
    "name": (lambda t, P: P.identity(layer(t), "foo"), "no attribute 'foo'"),
    "None": (lambda t, P: P.identity(t.nn.Linear(1, 1, bias=False), "bias"), "must be Tensor, not NoneType"),
    "int": (lambda t, P: P.identity(layer(t), "in_features"), "int"),
    "mask": (lambda t, P: P.custom_from_mask(layer(t), "bias", t.ones(2)), "must match self.mask shape"),
    "dim": (lambda t, P: P.random_structured(layer(t), "weight", 1, 5), "Invalid index 5 for tensor of size"),
    "vector": (lambda t, P: P.random_structured(layer(t), "bias", 1, 0), "multidimensional tensors. Found tensor"),
    "vector ln": (lambda t, P: P.ln_structured(layer(t), "bias", 1, 2, 0), "Structured pruning can only be applied"),
    "scores": (
        lambda t, P: P.l1_unstructured(layer(t), "weight", 1, importance_scores=t.ones(2)), "should have the same",
    ),
    "scores int": (lambda t, P: P.l1_unstructured(layer(t), "weight", 1, importance_scores=3), "int"),
    "scores prune": (lambda t, P: P.L1Unstructured(1).prune(t.ones(3), importance_scores=t.ones(2)), "same shape as"),
    "not pruned": (lambda t, P: P.remove(layer(t), "weight"), "has to be pruned before pruning can be removed"),
    "global kind": (
        lambda t, P: P.global_unstructured([(layer(t), "weight")], P.LnStructured, amount=1, n=2),
        'Only "unstructured" PRUNING_TYPE supported',
    ),
    "global int": (lambda t, P: P.global_unstructured(3, P.L1Unstructured, amount=1), "is not an Iterable"),
    "global scores": (
        lambda t, P: P.global_unstructured([(layer(t), "weight")], P.L1Unstructured, importance_scores=3, amount=1),
        "must be of type dict",
    ),
    "container": (lambda t, P: P.PruningContainer().add_pruning_method(3), "is not a BasePruningMethod subclass"),
    "abstract": (lambda t, P: P.BasePruningMethod(), "abstract"),
    "amount": (lambda t, P: P.RandomUnstructured("a"), "Invalid type for amount: a. Must be int or float."),
    "no name": (lambda t, P: P.L1Unstructured(1).apply_mask(layer(t)), "_tensor_name"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    run, match = ERRORS[case]
    agree_error(lambda t: run(t, t.nn.utils.prune), match)


@pytest.mark.parametrize("kind", ["unknown"])
def test_unknown_kinds(kind):
    def run(t):
        class Mine(t.nn.utils.prune.BasePruningMethod):
            PRUNING_TYPE = kind

            def compute_mask(self, x, default_mask):
                return default_mask

        m = layer(t)
        Mine.apply(m, "weight")
        Mine.apply(m, "weight")

    agree_error(run, "Unrecognized PRUNING_TYPE unknown")


# -- modules called with other tensors -------------------------------------------------------------


def tied(t):
    class Tied(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = t.nn.Linear(2, 2), t.nn.Linear(2, 2)
            self.b.weight = self.a.weight
            self.register_buffer("count", t.ones(2))

        def forward(self, x, scale=1):
            self.count = self.count + 1
            return self.b(self.a(x)) * scale, self.count

    m = Tied()
    with t.no_grad():
        for i, p in enumerate(m.parameters()):
            p.fill_(i + 1.0)
    return m


GIVEN = {
    "one": lambda t: {"a.weight": t.eye(2)},
    "both": lambda t: dict.fromkeys(["a.weight", "b.weight"], t.eye(2)),
    "two": lambda t: {"a.weight": t.eye(2), "b.weight": t.ones(2, 2)},
    "buffer": lambda t: {"count": t.zeros(2)},
    "none": lambda t: {"a.bias": None},
    "list": lambda t: ({"a.bias": t.ones(2)}, {"b.bias": t.zeros(2)}),
    "twice": lambda t: ({"a.bias": t.ones(2)}, {"a.bias": t.zeros(2)}),
    "unknown": lambda t: {"other": t.ones(2)},
    "no module": lambda t: {"c.weight": t.ones(2)},
    "of a tensor": lambda t: {"count.weight": t.ones(2)},
    "attribute": lambda t: {"a.in_features": t.ones(2)},
    "int": lambda t: {"a.bias": 3},
    "no dict": lambda t: 3,
    "no dicts": lambda t: (3,),
    "all": lambda t: {"a.weight": t.eye(2), "a.bias": t.ones(2), "b.bias": t.ones(2), "count": t.ones(2)},
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("given", GIVEN)
def test_functional_call(given, tie, strict):
    def run(t):
        m, tensors = tied(t), GIVEN[given](t)
        before = m.state_dict(keep_vars=True)
        x = t.ones(1, 2)
        got = said(
            lambda: t.func.functional_call(m, tensors, x, {"scale": 2}, tie_weights=tie, strict=strict),
            r"[^\n]{0,30}",
        )
        after = m.state_dict(keep_vars=True)
        kept = [after[k] is before[k] for k in before]
        return got, kept if given == "buffer" or isinstance(got, str) else kept[:1], m.b.weight is m.a.weight, tensors

    agree(run)


@story
def test_functional_call_differentiated(t):
    m = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Tanh())
    given = {"0.weight": t.eye(2, requires_grad=True), "0.bias": t.zeros(2, requires_grad=True)}
    out = t.func.functional_call(m, given, (t.ones(1, 2),))
    out.sum().backward()
    failed = said(lambda: t.func.functional_call(m, given, t.ones(3)) and None, "mat1 and mat2|size mismatch")
    return out, [v.grad for v in given.values()], [p.grad for p in m.parameters()], failed, m[0].bias is given["0.bias"]


@story
def test_the_older_name(t):
    m = t.nn.Linear(2, 2)
    given = {"weight": t.eye(2), "bias": t.zeros(2)}
    call = t.nn.utils.stateless.functional_call
    return warned(lambda: call(m, given, t.ones(1, 2))), call(m, given, t.ones(1, 2))


# -- memory formats --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "ConvTranspose3d"])
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("wanted", ["channels_last", "channels_last_3d", "contiguous_format"])
def test_memory_formats(wanted, n, name):
    def run(t):
        m = t.nn.Sequential(t.nn.ReLU(), getattr(t.nn, name)(2, 3, 3))
        parameter = m[1].weight
        convert = getattr(t.nn.utils, f"convert_conv{n}d_weight_memory_format")
        got = said(lambda: convert(m, getattr(t, wanted)) is m, "required rank .")
        return got, m[1].weight.stride(), m[1].weight is parameter

    agree(run)
