"""Names of arguments: all that PyTorch declares, and numpy's, for every function and method."""

import ast
import inspect
from pathlib import Path

import pytest
import torch
from both import agree, agree_error

import torchlike
from torchlike._core.overrides import doors
from torchlike._core.overrides.spellings import spellings

ROOT = Path(torch.__file__).parent / "_C"
PLACES = {
    "torch": (torchlike, ROOT / "_VariableFunctions.pyi", None),
    "Tensor": (torchlike.Tensor, ROOT / "__init__.pyi", "TensorBase"),
}
# What is not taken, and why: (function, names).
OTHERS = {
    "no product in another dtype, which PyTorch has for CUDA alone": {
        (n, "out_dtype") for n in ("addmm", "baddbmm", "bmm", "mm")
    },
    "packed sequences are recognised by position": {
        (n, a) for n in ("gru", "lstm", "rnn_relu", "rnn_tanh") for a in ("data", "batch_sizes")
    },
    "two arguments of any kind, whose names depend on the kind": {
        ("result_type", a) for a in ("tensor", "other", "scalar", "scalar1", "scalar2")
    },
    "no dimensions with names": {("full", "names")},
    "no sparse results in tensors that are given": {("hspmm", "out"), ("sspaddmm", "out")},
    "refused whatever they are given": {("batch_norm_elemt", "out"), ("batch_norm_backward_elemt", "count")},
    "no function of tensors": {("new", a) for a in ("cls", "storage", "other", "size")},
}
KNOWN = set().union(*OTHERS.values())


def declared(place):
    """{function: the names of arguments that PyTorch's own stubs tell of}."""
    _, path, cls = PLACES[place]
    body = ast.parse(path.read_text()).body
    if cls:
        body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == cls).body
    found = {}
    for n in body:
        if isinstance(n, ast.FunctionDef) and not n.name.startswith("_"):
            names = [a.arg for a in (*n.args.posonlyargs, *n.args.args, *n.args.kwonlyargs)]
            found.setdefault(n.name, set()).update(names)
    return found


def taken(door):
    """The names that a function takes; None where it takes any and looks at them itself."""
    if ops := door.behind.ops:
        return {n for op in ops for a in op.schema.args for n in (a.name, a.public_name)} | {"out"}
    parameters = inspect.signature(doors.behind(door)).parameters.values()
    return None if any(p.kind is p.VAR_KEYWORD for p in parameters) else {p.name for p in parameters}


def own_functions(place):
    space, _, _ = PLACES[place]
    for name, names in sorted(declared(place).items()):
        found = inspect.getattr_static(space, name, None)
        if found is not None and doors.is_door(found) and (mine := taken(found)) is not None:
            yield name, found, names - {"self"} if place == "Tensor" else names, mine


@pytest.mark.parametrize("place", PLACES)
def test_every_declared_name(place):
    missing = set()
    for name, door, names, mine in own_functions(place):
        for n in names - mine:
            if not any(set(other) <= mine for other in spellings(door, {n: None})):
                missing.add((name, n))
    assert missing - KNOWN == ({("add", "out"), ("sub", "out")} if place == "Tensor" else set())


@pytest.mark.parametrize("place", PLACES)
def test_numpy_names_lead_to_pytorch_names(place):
    counted = 0
    for name, door, names, mine in own_functions(place):
        for theirs, numpys in (("dim", "axis"), ("keepdim", "keepdims"), ("other", "x2")):
            plain = theirs in names and not door.behind.entry.python and (name, theirs) not in KNOWN
            if plain and numpys not in mine:
                counted += 1
                assert any(set(other) <= mine for other in spellings(door, {numpys: None})), (name, numpys)
    assert counted > 50


CALLS = (
    """
t.add(x1=y, x2=y)|t.stack([y, y], axis=1)|t.cat([y, y], axis=1)|y.split(split_size=2, dim=1)
t.swapdims(y, dim0=0, dim1=1)|y.swapdims(dim0=0, dim1=1)|y.mT.split(split_size=2, dim=0)|t.sum(x=y)|t.sin(x=y)
t.maximum(x1=y, x2=y)|t.clip(x=y, min=2)|t.matmul(x1=y, x2=y.T)|t.gather(y, axis=0, index=i)
t.index_select(y, axis=0, index=i[0])|t.unbind(y, axis=1)|t.linalg.norm(y, axis=0)
y.index_add(axis=0, index=i[0], source=y[:1])|t.atan2(x1=y, x2=y)|t.div(x1=y, x2=2)|t.eq(x1=y, x2=y)|y.add(x2=y)
t.repeat_interleave(y, repeats=2, axis=0)|t.tensor_split(y, 2, axis=1)|t.abs(a=y)|t.take_along_dim(y, i, axis=0)
t.bincount(x=i[0])|t.quantile(y, 0.5, axis=0)|t.tensor_split(y, sections=2)|t.vsplit(y, sections=2)
t.hsplit(y, indices=[1])|t.isin(element=1, test_elements=i)|t.where(y > 2, self=1.0, other=y)|y.clone().copy_(other=y)
t.pow(self=2, exponent=y)|t.sum(y, axis=0, keepdims=True)|t.amax(x=y, axis=1)|t.abs_(input=y.clone())
t.cosine_similarity(x1=y, x2=y, axis=1)|t.pairwise_distance(x1=y, x2=y, keepdims=True)
t.nn.functional.cosine_similarity(x1=y, x2=y, axis=0)|t.nn.functional.one_hot(input=i, num_classes=2)
t.full_like(y, fill_value=2)|t.argmax(x=y, axis=0, keepdims=True)|t.std(y, axis=0)|t.cumsum(x=y, axis=1)
""".strip()
    .replace("\n", "|")
    .split("|")
)


@pytest.mark.parametrize("script", CALLS)
def test_calls(script):
    def run(t):
        y = t.arange(6.0).reshape(2, 3)
        return eval(script, {"t": t, "y": y, "i": t.tensor([[0]])})

    agree(run)


@pytest.mark.parametrize("script", CALLS[:4])
def test_calls_once_something_overrides(script):
    doors.arm()
    test_calls(script)


@pytest.mark.parametrize("script", ["t.add(y, y, foo=1)", "t.sum(y, axes=0)", "t.sum(y, dim=0, axis=0)",
                                    "t.unique(y, axis=0)", "t.cat([y], axis=5)"])  # fmt: skip
def test_refusals(script):
    agree_error(lambda t: eval(script, {"t": t, "y": t.ones(2, 3)}), ".")


DTYPES = "t.mm(x, x, out_dtype=t.float)|t.bmm(b, b, t.float)|t.addmm(x, x, x, out_dtype=t.float, beta=2)"


@pytest.mark.parametrize("script", [*DTYPES.split("|"), "t.ops.aten.mm.dtype(x, x, t.float)"])
def test_products_in_another_dtype(script):
    x = lambda t: t.eye(2, dtype=t.bfloat16)  # noqa: E731
    agree_error(lambda t: eval(script, {"t": t, "x": x(t), "b": x(t)[None]}), "mm.*(out_dtype|dtype)")


FACTORS_FIRST = (
    """
t.addmm(2, x, 3, y, y.T)|t.addmm(2, x, y, y.T)|x.addmm(2, 3, y, y.T)|x.addmm(2, y, y.T)|x.clone().addmm_(2, 3, y, y.T)
t.addmm(2, x, 3, y, y.T, out=t.empty(2, 2))|t.addmm(2, x, 3, mat1=y, mat2=y.T)|t.addmv(2, x[0], 3, x, x[1])
x[0].clone().addmv_(2, x, x[1])|t.addr(2, x, 3, x[0], x[1])|x.addr(2, x[0], x[1])|t.addbmm(2, x, 3, b, b)
x.clone().addbmm_(2, b, b)|t.baddbmm(2, b, 3, b, b)|b.baddbmm(2, b, b)|b.clone().baddbmm_(2, 3, b, b)
""".strip()
    .replace("\n", "|")
    .split("|")
)


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize("script", FACTORS_FIRST)
def test_factors_before_the_tensors(script):
    def run(t):
        y = t.arange(6.0).reshape(2, 3)
        return eval(script, {"t": t, "y": y, "x": y[:, :2], "b": y[:, :2].expand(3, 2, 2)})

    agree(run)


@pytest.mark.parametrize("script", ["t.addmm(x, 3, x, x)", "t.addmm(2, x, 3, x)", "t.addmm(2, x, x, x, beta=1)"])
def test_factors_in_other_places(script):
    agree_error(lambda t: eval(script, {"t": t, "x": t.ones(2, 2)}), ".")


def test_the_first_refusal_is_what_is_said():
    with pytest.raises(TypeError, match="'axes'"):
        torchlike.sin(torchlike.ones(1), axes=1)
