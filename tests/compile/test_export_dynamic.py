"""Dynamic shapes of exported programs: which lengths are taken, which are refused, and what derives from them."""

import numpy as np
import pytest
from both import agree, agree_error
from export_kit import filled, module, numbers

import torchlike as torch
from torchlike import nn
from torchlike.export import ConstraintViolationError, Dim, UserError, dims

pytestmark = pytest.mark.compilers

F = nn.functional


def _lengths(t, spec, *lengths):
    m = filled(t, t.nn.Linear(3, 2))
    ep = t.export.export(m, (numbers(t, 4, 3),), dynamic_shapes=spec)
    return [ep.module()(numbers(t, n, 3)) for n in lengths]


def test_lengths():
    agree(lambda t: _lengths(t, {"input": {0: t.export.Dim("b")}}, 1, 4, 7))
    agree(lambda t: _lengths(t, ({0: t.export.Dim("b", min=2, max=9)},), 2, 9))
    agree(lambda t: _lengths(t, ((t.export.Dim("b"), None),), 5))
    agree(lambda t: _lengths(t, [{0: t.export.Dim.AUTO}], 3))
    agree(lambda t: _lengths(t, [{0: t.export.Dim.DYNAMIC, 1: t.export.Dim.STATIC}], 3))
    agree(lambda t: _lengths(t, {"input": None}, 4))


def test_lengths_out_of_range():
    agree_error(lambda t: _lengths(t, ({0: t.export.Dim("b", max=9)},), 10), r"Guard failed: input.size\(\)\[0\] <= 9")
    agree_error(lambda t: _lengths(t, ({0: t.export.Dim("b", min=3)},), 2), r"Guard failed: input.size\(\)\[0\] >= 3")
    agree_error(lambda t: _lengths(t, None, 5), r"Guard failed: input.size\(\)\[0\] == 4")


SPECS = {
    "name": (lambda t: {"y": {0: t.export.Dim("b")}}, "top-level keys must be the arg names"),
    "number of arguments": (lambda t: ({0: t.export.Dim("b")}, None), "structure of `inputs` and `dynamic_shapes`"),
    "dimension": (lambda t: ({5: t.export.Dim("b")},), ""),
    "example": (lambda t: ({0: t.export.Dim("b", max=3)},), "4.* not in range|4 is not in range"),
    "fixed length": (lambda t: ({1: t.export.Dim("b")},), ""),
}


@pytest.mark.parametrize("name", SPECS)
def test_wrong_specs(name):
    spec, match = SPECS[name]
    agree_error(lambda t: _lengths(t, spec(t), 4), match)


def test_dims():
    def script(t):
        b = t.export.Dim("b", min=3, max=8)
        return (
            str(b), b.__name__, b.min, b.max, str(2 * b), str(b + 1), str(b * 3 + 1), str(t.export.Dim("c", min=2)),
            str(t.export.Dim.AUTO), str(t.export.Dim.DYNAMIC(min=2, max=5)), str(t.export.dims("x", "y", max=9)),
        )  # fmt: skip

    agree(script)
    agree_error(lambda t: t.export.Dim("b", min=5, max=2), "inconsistent min=5, max=2")
    agree_error(lambda t: t.export.Dim("1b"), "must be a valid identifier, got 1b")
    agree_error(lambda t: -1 * t.export.Dim("b"), "Attempted to multiply -1 with b")
    agree_error(lambda t: t.export.Dim("b") + t.export.Dim("c"), "Attempted to add")


def test_derived_and_shared_lengths():
    b, c = dims("b", "c", min=2)
    f = lambda x, y, z: (x.sum() + y.sum(), torch.cat([x, x]) - y, z @ z.mT)  # noqa: E731
    args = torch.ones(4, 3), torch.ones(8, 3), torch.ones(4, 5)
    ep = torch.export(f, args, dynamic_shapes=({0: b}, {0: 2 * b}, {0: b, 1: c}))
    g = ep.module()
    assert [list(x.shape) for x in g(torch.ones(3, 3), torch.ones(6, 3), torch.ones(3, 9))] == [[], [6, 3], [3, 3]]
    with pytest.raises(AssertionError, match=r"y.size\(\)\[0\] == 2\*b for an integer b, but it is 7"):
        g(torch.ones(3, 3), torch.ones(7, 3), torch.ones(3, 9))
    with pytest.raises(AssertionError, match=r"z.size\(\)\[0\] == b, but it is 4 where elsewhere b is 3"):
        g(torch.ones(3, 3), torch.ones(6, 3), torch.ones(4, 9))
    with pytest.raises(UserError, match=r"Constraints violated \(b\)"):
        torch.export(f, args, dynamic_shapes=({0: b}, {0: b}, None))
    assert str(ep.range_constraints) == "{'b': VR[2, int_oo], 'c': VR[2, int_oo]}"


def _mlp():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 2), nn.Softmax(-1))


def _cnn():
    convolution = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*convolution, nn.Flatten(), nn.Linear(27, 2))


PROGRAMS = {
    "mlp": (_mlp, [("b", 3)]),
    "cnn": (_cnn, [("b", 2, 8, 8)]),
    "transformer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), [("b", 5, 4)]),
    "loss": (lambda: F.cross_entropy, [("b", 3), ("b", 3)]),
    "lstm": (lambda: nn.LSTM(3, 4, batch_first=True), [("b", 5, 3)]),
    "attention": (lambda: lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), [("b", 2, 5, 4)]),
    "sequence": (lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), [(2, "b", 4)]),
    "view": (lambda: lambda x: x.view(x.shape[0], -1) * 2, [("b", 3, 4)]),
    "heads": (
        lambda: lambda x: x.view(x.size(0), x.size(1), 2, 2).transpose(1, 2).reshape(x.size(0), -1), [("b", 5, 4)]
    ),
    "expand": (lambda: lambda x: x.expand(5, x.shape[0], 3), [("b", 3)]),
    "zeros": (lambda: lambda x: torch.zeros(x.shape[0], 3) + x, [("b", 3)]),
    "random": (lambda: lambda x: torch.rand(x.shape) + x, [("b", 3)]),
    "slice of one": (lambda: lambda x: x[1:] * 2, [("b", 3)]),
    "dropout": (lambda: nn.Dropout(0.5), [("b", 3)]),
    "flatten": (lambda: lambda x: x.flatten(1).relu(), [("b", 2, 3)]),
    "product": (lambda: lambda x: x.mT @ x, [("b", 3)]),
    "mean": (lambda: lambda x: x.mean(0), [("b", 3)]),
    "slice": (lambda: lambda x: x[1:, 1:] * 2, [("s", 3)]),
    "element": (lambda: lambda x: x[0], [("b", 3)]),
    "sort": (lambda: lambda x: x.sort(0)[0], [("b", 3)]),
    "cumsum": (lambda: lambda x: x.cumsum(0), [("b", 3)]),
    "cat": (lambda: lambda x: torch.cat([x, x]), [("b", 3)]),
    "like": (lambda: lambda x: torch.zeros_like(x) + x.exp(), [("b", 3)]),
    "in place": (lambda: lambda x: x.clone().mul_(2).add_(x), [("b", 3)]),
    "assignment": (lambda: lambda x: _assigned(x.clone()), [("b", 3)]),
    "einsum": (lambda: lambda x: torch.einsum("bi,bj->bij", x, x), [("b", 3)]),
    "length of two": (lambda: lambda x, y: x.sum(1) * y.sum(1), [("b", 3), ("b", "c")]),
}  # fmt: skip


def _assigned(x):
    x[:, 0] = 5.0
    return x


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_with_eager(name):
    make, shapes = PROGRAMS[name]
    symbols, f = {"b": Dim("b"), "c": Dim("c"), "s": Dim("s", min=3)}, make()
    spec = tuple({d: symbols[n] for d, n in enumerate(shape) if isinstance(n, str)} for shape in shapes)

    def args(i, grad=False):
        torch.manual_seed(i)
        lengths = {"b": 4 + 3 * i, "c": 3 - i, "s": 3 + i}
        return tuple(torch.rand(*[lengths.get(n, n) for n in shape]).requires_grad_(grad) for shape in shapes)

    g = torch.export(f, args(0), dynamic_shapes=spec, vjp_order=1).module()
    for i in (0, 1):
        a, b = args(i, True), args(i, True)
        torch.manual_seed(9)
        eager = _sum(f(*a))
        torch.manual_seed(9)
        exported = _sum(g(*b))
        np.testing.assert_allclose(eager.item(), exported.item(), rtol=1e-4)
        eager.backward()
        exported.backward()
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-3, atol=1e-5)


def _sum(out):
    leaves = [x for x in torch.utils._pytree.tree_leaves(out) if x.is_floating_point()]
    return sum((x * torch.arange(x.numel()).reshape(x.shape)).sum() for x in leaves)


def test_nested_arguments():
    b = Dim("b")
    f = lambda d, *rest, scale: d["k"][0] * scale + rest[0]  # noqa: E731
    args, kwargs = ({"k": [torch.ones(4, 3)]}, torch.ones(4, 3)), {"scale": torch.ones(3)}
    spec = {"d": {"k": [{0: b}]}, "rest": ({0: b},), "scale": None}
    g = torch.export(f, args, kwargs, dynamic_shapes=spec).module()
    assert g({"k": [torch.ones(6, 3)]}, torch.ones(6, 3), scale=torch.ones(3)).shape == (6, 3)
    with pytest.raises(UserError, match=r"inputs\[0\] has the keys \['k'\]"):
        torch.export(f, args, kwargs, dynamic_shapes={"d": {"j": None}, "rest": None, "scale": None})


def test_automatic_lengths_are_fixed_where_they_must_be():
    f = lambda x: x @ torch.ones(3, 2)  # noqa: E731
    ep = torch.export(f, (torch.ones(4, 3),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    with pytest.raises(AssertionError, match=r"x.size\(\)\[1\] == 3"):
        ep.module()(torch.ones(4, 5))


def test_what_cannot_be_dynamic_names_the_operator():
    with pytest.raises(RuntimeError, match=r"nonzero\(\) gives a tensor whose shape depends on the input's values"):
        torch.export(lambda x: x.nonzero(), (torch.ones(4),), dynamic_shapes=({0: Dim("b")},))
    with pytest.raises(UserError, match=r"linspace\(\) cannot take the dynamic lengths b: .*_dynamic.py:\d+: "):
        torch.export(lambda x: torch.linspace(0, 1, x.shape[0]), (torch.ones(4),), dynamic_shapes=({0: Dim("b")},))
    with pytest.raises(UserError, match="returns a dynamic length"):
        torch.export(lambda x: (x, x.shape[0]), (torch.ones(4),), dynamic_shapes=({0: Dim("b")},))


def test_other_specs():
    x = torch.ones(4, 3)
    with pytest.raises(ConstraintViolationError, match=r"4 is not in range: inputs\[0\].size\(\)\[0\] = b"):
        torch.export(torch.clone, (x,), dynamic_shapes={"input": {0: Dim("b", min=5)}})
    for spec, match in (
        ({0: "b"}, "has 'b' for"),
        ({0: 5}, "fixes .* to 5, but the example has 4"),
        ([None], "a dict or 2 entries"),
    ):
        with pytest.raises(UserError, match=match):
            torch.export.export(nn.ReLU(), (x,), dynamic_shapes=(spec,))
    with pytest.raises(UserError, match="two Dims are called b"):
        spec = ({0: Dim("b", max=9)}, {0: Dim("b", max=8)})
        torch.export(lambda x, y: x + y, (x, x), dynamic_shapes=spec)
    with pytest.raises(UserError, match="which is int, not a tensor"):
        torch.export(lambda x, n: x, (x, 2), dynamic_shapes=(None, {0: Dim("b")}))


def test_the_same_tensor_twice():
    x = torch.ones(4, 3)
    g = torch.export(lambda x, y: x + y, (x, x), dynamic_shapes=({0: Dim("b")}, {0: Dim("b")})).module()
    assert g(torch.ones(2, 3), torch.zeros(2, 3)).sum().item() == 6


def test_module_with_a_method():
    m = module(torch, lambda self, x: x * 2)
    g = torch.export(m.forward, (torch.ones(4),), dynamic_shapes=({0: Dim("n")},)).module()
    assert g(torch.ones(9)).shape == (9,)


ORDERED = {
    "sort": lambda x: x.sort(1)[0], "median": lambda x: x.median(0)[0], "topk": lambda x: x.topk(3, 1)[0],
    "mode": lambda x: x.mode(1)[0], "margins": lambda x: F.multilabel_margin_loss(x, (x * 0).long()),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERED)
def test_kernels_that_ask_how_many_elements_there_are(name):
    f = ORDERED[name]
    m = torch.nn.Module()
    m.forward = f
    ep = torch.export.export(m, (torch.rand(7, 8),), dynamic_shapes=({0: Dim("n", min=4), 1: Dim("m", min=4)},))
    x = torch.rand(70, 80)
    torch.testing.assert_close(ep.module()(x), f(x))
