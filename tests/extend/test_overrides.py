"""torch.overrides: every overridable function dispatches, and the lists of names agree with PyTorch's."""

from __future__ import annotations

import inspect
import operator
import subprocess
import sys
import textwrap

import pytest
import torch
from agreement import agree
from both import agree_error

import torchlike
from torchlike._core.overrides import torch_function as core

OVERRIDES = torchlike.overrides.get_testing_overrides()
# Those that PyTorch does not list, too: setters, functions in place, the twins of those that it lists.
EVERY = OVERRIDES | {f: core.stand_in(entry) for f, entry in core.ENTRIES.items() if entry.looks}


ASKED: list = []  # what handlers were asked for


class Duck:
    """Notes the function it was asked for."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        assert cls in types
        ASKED.append(func)


class Seen(torchlike.Tensor):
    __torch_function__ = Duck.__dict__["__torch_function__"]


class TheirSeen(torch.Tensor):
    __torch_function__ = Duck.__dict__["__torch_function__"]


def called(function, x):
    """What handlers were asked for last when a function is called with ``x`` for each argument it needs."""
    parameters = inspect.signature(EVERY[function]).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    args = [x for p in needed if p.kind is not p.KEYWORD_ONLY]
    ASKED.clear()
    function(*args or [x], **{p.name: x for p in needed if p.kind is p.KEYWORD_ONLY})
    return ASKED[-1]


def title(function) -> str:
    return torchlike.overrides.resolve_name(function)


def wrong(x) -> list[str]:
    """The names of the overridable functions that, called with ``x``, do not ask a handler for themselves."""
    return [title(f) for f in EVERY if not is_of(f, called(f, x))]


def is_of(function, told) -> bool:
    """Whether ``told`` is ``function``, or the method that this operator of Python is in PyTorch too."""
    if told == function:
        return True
    name = title(function).rpartition(".")[2]
    ASKED.clear()
    getattr(torch.Tensor, name)(*[TheirSeen([1.0])] * len(inspect.signature(EVERY[function]).parameters))
    return title(told) == torch.overrides.resolve_name(ASKED[-1])


def test_a_duck_overrides_every_function():
    assert not wrong(Duck())


def test_a_subclass_overrides_every_function():
    assert not wrong(Seen([1.0]))


def test_a_mode_sees_every_function():
    class Mode(torchlike.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            ASKED.append(func)

    x = torchlike.ones(1)
    with Mode():
        assert not wrong(x)


# -- the names of PyTorch ---------------------------------------------------------------------------


def their_names() -> list[str]:
    found = []
    for functions in torch.overrides.get_overridable_functions().values():
        found += [torch.overrides.resolve_name(f) for f in functions]
    return sorted({name for name in found if name})


def ours(name):
    """What torchlike has under a name of PyTorch's, or None."""
    getter = name.endswith((".__get__", ".__set__"))
    path = name.split(".")[1 : -1 if getter else None]
    found = torchlike
    for i, part in enumerate(path):
        if isinstance(found, type):
            found = vars(found).get(part)
        else:
            try:
                found = getattr(found, part)
            except AttributeError:
                return None
        if found is None and i < len(path):
            return None
    if not getter:
        return found
    if not isinstance(found, property):
        return None
    has = found.fget if name.endswith("__get__") else found.fset
    return getattr(found, name.rpartition(".")[2]) if has else None


# What PyTorch lists under another name, or not at all, because it has the function there only.
SAME_AS_ANOTHER = {f"torch.{name}" for name in """
Tensor.embedding_renorm_ Tensor.threshold_ avg_pool1d cosine_similarity embedding_renorm hardshrink hsmm mm
native_channel_shuffle pairwise_distance pdist prelu saddmm sym_int
""".split()}  # fmt: skip

# torch.autocast is a class: PyTorch lists it, and nothing can override it.
COVERED = [name for name in their_names() if name != "torch.autocast" and ours(name) is not None]


def test_most_names_exist():
    assert len(COVERED) > 1000


def test_what_pytorch_lets_override_can_be():
    assert not [name for name in COVERED if ours(name) not in OVERRIDES]


def test_names_resolve_as_in_pytorch():
    own = {name: torchlike.overrides.resolve_name(ours(name)) for name in COVERED}
    assert not [(name, found) for name, found in own.items() if found != name and ours(found) is not ours(name)]


def test_names():
    agree(
        lambda t: [
            t.overrides.resolve_name(f)
            for f in (
                t.Tensor.add, t.add, t.Tensor.shape.__get__, t.Tensor.__add__, t.Tensor.grad.__set__, t.linalg.inv,
                t.nn.functional.relu, t.special.erf, len, t.ones, t.tensor, t.norm, t.nn.init.uniform_,
                t.nn.functional.conv1d, t.ops.aten.add, t.ops.aten.add.Tensor, 3,
            )
        ]
    )  # fmt: skip


def test_methods_and_properties():
    agree(
        lambda t: [
            t.overrides.is_tensor_method_or_property(f)
            for f in (
                t.Tensor.add,
                t.add,
                t.Tensor.shape.__get__,
                t.Tensor.__add__,
                t.Tensor.grad.__set__,
                t.nn.functional.relu,
            )
        ]
    )


def test_tensor_likes():
    agree(
        lambda t: [
            t.overrides.is_tensor_like(x)
            for x in (
                t.ones(1),
                3,
                t.Tensor,
                t.nn.Parameter(t.ones(1)),
                type("D", (), {"__torch_function__": 0})(),
                None,
            )
        ]
    )


def test_lists():
    functions = torchlike.overrides.get_overridable_functions()
    assert torchlike.add in functions[torchlike] and torchlike.Tensor.add in functions[torchlike.Tensor]
    assert torchlike.nn.functional.relu in functions[torchlike.nn.functional]
    names = {title(f) for found in functions.values() for f in found}
    others = ("torch.nn.init.", "torch.distributed.distributed_c10d.", "torch.segment_reduce", "torch._sym_")
    assert names == {name for f in OVERRIDES if not (name := title(f)).startswith(others)}
    assert names <= set(their_names()) | SAME_AS_ANOTHER
    ignored = torchlike.overrides.get_ignored_functions()
    assert {torchlike.zeros, torchlike.tensor, torchlike.is_grad_enabled, torchlike.save} <= ignored
    assert not ignored & {f for found in functions.values() for f in found}


def test_lists_need_no_import(monkeypatch):
    """Of modules that are loaded when they are used."""
    monkeypatch.setattr(torchlike, "functional", torchlike.functional)
    monkeypatch.delitem(sys.modules, "torchlike.functional")
    assert any(torchlike.einsum in found for found in torchlike.overrides.get_overridable_functions().values())


def test_the_stand_ins():
    assert torchlike.overrides.get_testing_overrides()[torchlike.matmul](1, other=2) == -1
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'other'"):
        OVERRIDES[torchlike.matmul](1)
    assert str(inspect.signature(OVERRIDES[torchlike.matmul])) == "(input, other, *, out=None)"
    assert str(inspect.signature(OVERRIDES[torchlike.flatten])) == "(input, start_dim=0, end_dim=-1)"


# -- functions keep their identity and signature ---------------------------------------------------------


SCRIPT = """
    import inspect
    import torchlike as torch
    from torchlike import add, flatten
    from torchlike.nn.functional import linear, relu
    x = torch.ones(2)
    before = {f: str(inspect.signature(f)) for f in (flatten, relu, linear, torch.Tensor.size)}
    add(x, x), torch.Tensor.add, flatten(x)
    held = torch.Tensor.shape
    class S(torch.Tensor): pass                      # arms
    assert add is torch.add and flatten is torch.flatten and relu is torch.nn.functional.relu
    assert torch.Tensor.shape is held
    assert {f: str(inspect.signature(f)) for f in before} == before, before
    s = S([1.0])
    assert type(add(s, s)) is type(flatten(s)) is type(relu(s)) is S
    from torchlike.overrides import resolve_name
    assert add.__name__ == "add" and flatten.__name__ == "flatten" and resolve_name(add) == "torch.add"
"""


def run(script):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_identity_and_signature():
    run(SCRIPT)


# Each is the first call in its process that anything overrides.
FIRST = """
    import os, sys, warnings
    import torchlike as torch
    warnings.simplefilter("ignore")
    class D:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            given = [type(a).__name__ for a in args], None if kwargs is None else sorted(kwargs)
            return torch.overrides.resolve_name(func), *given
        def __repr__(self): return "D"
    x, mask, layer = torch.ones(3), torch.ones(3) > 0, torch.nn.Linear(2, 2)  # a child must not compute
    F = torch.nn.functional
    for line in CALLS:
        sys.stdout.flush()
        if not os.fork():
            try: print(eval(line))
            except Exception as error: print(repr(error)[:100])
            sys.stdout.flush()
            os._exit(0)
        os.wait()
"""
CALLS = """
torch.sin(D())
torch.add(x, D())
torch.add(D(), x, alpha=2)
torch.add(x, x, alpha=D())
torch.add(x, x, out=D())
x.mul(D())
x.add_(D())
x + D()
D() - x
x ** D()
x // D()
x % D()
x @ D()
x & D()
x < D()
x[D()]
x[0, D()]
x.__iadd__(D())
torch.cumsum(x, D())
torch.softmax(x, D())
torch.sum(x, dim=D())
x.sum(D())
x.unsqueeze(D())
x.expand(D())
torch.unsqueeze(D(), 0)
torch.cat([x, D()])
torch.cat((x, D()), dim=0)
torch.stack([D()])
torch.where(mask, D(), 1)
torch.lerp(x, D(), 0.5)
x.lerp_(D(), 0.5)
x.index_select(0, D())
torch.gather(x, 0, D())
torch.max(D())
torch.mean(D(), 0, keepdim=True)
torch.zeros(D())
torch.full((2,), D())
torch.arange(D())
torch.flatten(D(), 1, end_dim=2)
torch.einsum("i", D())
torch.split(D(), 2)
torch.norm(D())
torch.linalg.inv(D())
torch.special.i0(D())
F.relu(D())
F.linear(D(), x)
F.conv2d(D(), x, None, stride=2)
F.embedding(x, D())
torch.nn.init.normal_(D())
layer(D())
x.copy_(D())
x.view_as(D())
x.view(D())
x.reshape(D(), 1)
x.to(D())
D() @ x
x.masked_fill(D(), 1)
x.where(D(), 1)
torch.isclose(D(), x)
torch.empty_like(D())
""".strip().splitlines()


@pytest.mark.once
def test_the_first_stranger_in_a_process():
    got = run(textwrap.dedent(FIRST).replace("CALLS", repr(CALLS))).splitlines()
    theirs = {
        "torch": torch, "x": torch.ones(3), "F": torch.nn.functional, "D": their_duck(), "mask": torch.ones(3) > 0,
        "layer": torch.nn.Linear(2, 2),
    }  # fmt: skip
    expected = [str(eval(line, theirs)) for line in CALLS]  # noqa: S307
    assert dict(zip(CALLS, got, strict=True)) == dict(zip(CALLS, expected, strict=True))


def their_duck():
    def handler(cls, func, types, args=(), kwargs=None):
        given = [type(a).__name__ for a in args], None if kwargs is None else sorted(kwargs)
        return torch.overrides.resolve_name(func), *given

    return type("D", (), {"__torch_function__": classmethod(handler), "__repr__": lambda self: "D"})


def test_resolve_name_of_what_has_no_hash():
    assert torchlike.overrides.resolve_name([]) is None and torchlike.overrides.resolve_name(operator.add) is None


def test_wrong_arguments():
    agree_error(lambda t: t.overrides.has_torch_function(3), "expected a sequence")


# -- collectives -------------------------------------------------------------------------------------


def handed(t):
    """What handlers are told of collectives: function, types, number of arguments, names of keywords."""
    told = []

    class Noting:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            told.append((func.__name__, len(types), len(args), sorted(kwargs)))
            return -1

    class Mode(t.overrides.TorchFunctionMode):
        __torch_function__ = Noting.__torch_function__.__func__

    x, d = Noting(), t.distributed
    calls = [
        lambda x: d.all_reduce(x), lambda x: d.all_gather([x], x), lambda x: d.broadcast(tensor=x, src=0),
        lambda x: d.scatter(x, [x]), lambda x: d.reduce(x, 0), lambda x: d.send(x, 1), lambda x: d.irecv(x),
        lambda x: d.all_to_all_single(x, x), lambda x: d.reduce_scatter(x, [x]), lambda x: d.gather(x),
    ]  # fmt: skip
    results = [call(x) for call in calls]
    y = t.ones(2)
    with Mode():
        results += [call(y) for call in calls]
    return told, results, d.all_reduce is d.distributed_c10d.all_reduce


def test_collectives_can_be_overridden():
    agree(handed)


PROPERTIES = [
    name
    for name in dir(torch.Tensor)
    if inspect.isgetsetdescriptor(getattr(torch.Tensor, name)) and hasattr(torchlike.Tensor, name) and name[:2] != "__"
]


@pytest.mark.skipif(not core.NAMED_PROPERTIES, reason="Python reads plain properties quicker")
@pytest.mark.parametrize("name", PROPERTIES)
def test_properties_have_the_names_of_pytorchs(name):
    ours, theirs = (getattr(t.Tensor, name) for t in (torchlike, torch))
    assert (ours.__name__, ours.__qualname__) == (theirs.__name__, theirs.__qualname__)


class Named(torchlike.Tensor):
    @property
    def half_as_long(self):
        return super().shape[0] // 2


def test_compiled_functions_read_properties_of_tensors():
    x = torchlike.ones(6, requires_grad=True).as_subclass(Named)
    assert torchlike.compile(lambda x: x.sum() * x.half_as_long * torchlike.Tensor.ndim.fget(x))(x) == 18
