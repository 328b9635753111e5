"""Subclasses of Tensor: what keeps the class, the note's SubTensor and LoggingTensor, parameters, copies, pickles."""

from __future__ import annotations

import copy
import logging
import pickle

import pytest
import torch
from agreement import agree
from both import agree_error
from function_kit import doubled

import torchlike


def family(t):
    """SubTensor, two levels of subclasses of it, and one beside them."""
    sub = type("SubTensor", (t.Tensor,), {})
    second = type("SubTensor2", (sub,), {})
    return sub, second, type("SubTensor3", (second,), {}), type("OtherSubTensor", (t.Tensor,), {})


def name(x):
    return type(x).__name__


def names(found):
    """The classes of what is found in nested tuples and lists."""
    return [names(x) for x in found] if isinstance(found, tuple | list) else name(found)


# -- results keep the class ----------------------------------------------------------------------------

RESULTS = {
    "add": lambda t, s, x: t.add(s, s),
    "with a tensor": lambda t, s, x: t.add(s, x),
    "tensor first": lambda t, s, x: t.add(x, s),
    "operators": lambda t, s, x: [
        s + 1,
        1 + s,
        s - x,
        x - s,
        2 / s,
        s**2,
        2**s,
        -s,
        abs(s),
        s @ s,
        s // 2,
        s % 2,
        ~s.bool(),
    ],
    "compared": lambda t, s, x: [s == x, x == s, s != 1, s < x, s >= 1],
    "methods": lambda t, s, x: [s.sum(), s.clone(), s.to(t.float64), s.cpu(), s.double(), s.view(-1), s.reshape(4)],
    "views": lambda t, s, x: [
        s.T,
        s.mT,
        s[0],
        s[0, 0],
        s[:1],
        s[None],
        s.detach(),
        s.data,
        s.real,
        s.t(),
        s.expand(2, 2),
    ],
    "indexed": lambda t, s, x: [s[t.tensor([0, 1])], x[s.long()], s[s > 1]],
    "tuples": lambda t, s, x: [s.split(1), s.unbind(), s.chunk(2), t.split(s, 1), list(s), tuple(s)],
    "named tuples": lambda t, s, x: [*t.max(s, 0), t.max(s, 0).values, *t.sort(s), *t.linalg.eigh(s.T @ s)],
    "lists": lambda t, s, x: [
        t.cat([s, x]),
        t.stack((x, s)),
        *t.broadcast_tensors(x, s[0]),
        *t.meshgrid(s[0], x[0], indexing="ij"),
    ],
    "numbers": lambda t, s, x: [
        s.item() if False else s[0, 0].item(),
        s.shape,
        s.dtype,
        s.tolist(),
        s.numpy(),
        s.dim(),
        s.stride(),
    ],
    "factories": lambda t, s, x: [t.zeros_like(s), t.ones_like(s), s.new_ones(2), s.new_tensor([1.0]), t.rand_like(s)],
    "out": lambda t, s, x: [t.add(x, 1, out=s), t.add(s, 1, out=t.empty(2, 2))],
    "functional": lambda t, s, x: [
        t.nn.functional.relu(s),
        t.nn.functional.linear(x, s),
        t.nn.functional.mse_loss(x, s),
    ],
    "functional 2": lambda t, s, x: [t.nn.functional.softmax(s, 0), t.nn.functional.layer_norm(s, (2,)), t.sigmoid(s)],
    "modules": lambda t, s, x: [
        t.nn.Linear(2, 2)(s),
        t.nn.ReLU()(s),
        t.nn.LayerNorm(2)(s),
        t.nn.Sequential(t.nn.Tanh())(s),
    ],
    "special": lambda t, s, x: [t.special.erf(s), t.linalg.inv(s), t.linalg.norm(s)],
    "default constructor": lambda t, s, x: [type(s)([1, 2]), type(s)(2, 3), type(s)(x), type(s)()],
    "where": lambda t, s, x: [t.where(x > 0, s, 0), t.where(s > 0, x, 0), x.masked_fill(s > 0, 1.0)],
    "conversions": lambda t, s, x: [t.as_tensor(s), t.tensor(s), t.Tensor(s), s.as_subclass(t.Tensor), t.asarray(s)],
}


@pytest.mark.parametrize("code", RESULTS.values(), ids=list(RESULTS))
def test_results(code):
    def run(t):
        x = t.tensor([[2.0, 1.0], [1.0, 3.0]])
        return names(code(t, x.clone().as_subclass(family(t)[0]), x))

    agree(run, warned=False)


@pytest.mark.parametrize("code", RESULTS.values(), ids=list(RESULTS))
def test_results_without_overriding(code):
    """With ``_disabled_torch_function_impl`` what an instance gives is a plain tensor."""

    def run(t):
        x = t.tensor([[2.0, 1.0], [1.0, 3.0]])
        off = type("Off", (t.Tensor,), {"__torch_function__": t._C._disabled_torch_function_impl})
        return names(code(t, x.clone().as_subclass(off), x))

    agree(run, warned=False)


MIXED = {
    "base and sub": lambda t, A, B, C, D: name(t.add(A([0]), B([1]))),
    "sub and base": lambda t, A, B, C, D: name(t.add(B([0]), A([1]))),
    "sub and tensor": lambda t, A, B, C, D: name(t.add(B([0]), t.tensor([1]))),
    "three": lambda t, A, B, C, D: name(t.addcmul(A([0]), C([1]), B([1]))),
    "list": lambda t, A, B, C, D: name(t.cat([A([0]), B([1])])),
    "inplace keeps the target": lambda t, A, B, C, D: (lambda x, s: (x.add_(s) is x, name(x)))(t.zeros(1), A([1])),
    "inplace on an instance": lambda t, A, B, C, D: (lambda s: (s.add_(1) is s, s.tolist()))(A([1])),
    "unrelated operator": lambda t, A, B, C, D: A([0]) + D([1]),
    "types": lambda t, A, B, C, D: A.__torch_function__(t.add, (D,), (A([1]), 1)) is NotImplemented,
    "direct": lambda t, A, B, C, D: name(B.__torch_function__(t.add, (A, B), (B([1]), 1))),
    "of Tensor": lambda t, A, B, C, D: name(t.Tensor.__torch_function__(t.add, (t.Tensor,), (t.ones(1), 1))),
}


@pytest.mark.parametrize("code", MIXED.values(), ids=list(MIXED))
def test_mixed(code):
    agree(lambda t: code(t, *family(t)))


def test_unrelated_classes_are_refused():
    def run(t):
        A, _, _, D = family(t)
        return t.add(A([0]), D([1]))

    agree_error(run, r"'torch.add'.*SubTensor.*OtherSubTensor")


# -- history ---------------------------------------------------------------------------------------------

HISTORY = {
    "node": lambda t, S: type((S([1.0]).requires_grad_() * 2).grad_fn).__name__,
    "next node": lambda t, S: (S([1.0]).requires_grad_() * 2).grad_fn.next_functions[0][0].name(),
    "gradient": lambda t, S: (lambda s: ((s * s).sum().backward(), name(s.grad), s.grad.tolist())[1:])(
        S([3.0]).requires_grad_()
    ),
    "leaf": lambda t, S: (lambda s: (s.is_leaf, s.requires_grad, s.grad_fn))(S([1.0]).requires_grad_()),
    "as_subclass": lambda t, S: (lambda s: (s.grad_fn.name(), s.is_leaf))(t.ones(1, requires_grad=True).as_subclass(S)),
    "through as_subclass": lambda t, S: (lambda x: (x.as_subclass(S).mul(3).sum().backward(), x.grad.tolist())[1])(
        t.ones(2, requires_grad=True)
    ),
    "autograd.grad": lambda t, S: (lambda s: t.autograd.grad((s * s).sum(), s)[0].tolist())(S([3.0]).requires_grad_()),
    "hook": lambda t, S: (
        lambda s, seen: (s.register_hook(lambda g: seen.append(name(g))), (s * 2).sum().backward(), seen)[2]
    )(S([3.0]).requires_grad_(), []),
    "custom function": lambda t, S: name(doubled(t).apply(S([1.0]).requires_grad_())),
}


@pytest.mark.parametrize("code", HISTORY.values(), ids=list(HISTORY))
def test_history(code):
    agree(lambda t: code(t, family(t)[0]))


# -- making instances --------------------------------------------------------------------------------------


def making(t, x, S):
    made = t.Tensor._make_subclass(S, x)
    scaled = t.Tensor._make_subclass(S, x.clone().requires_grad_() * 2)
    return (
        name(made), made.data_ptr() == x.data_ptr(), made._version == x._version, made.requires_grad, scaled.grad_fn,
        t.Tensor._make_subclass(S, x, True).requires_grad, name(S._make_subclass(S, x)), scaled.requires_grad,
    )  # fmt: skip


def test_make_subclass():
    agree(lambda t: making(t, t.ones(2), family(t)[0]))


BAD = {
    "as_subclass int": (lambda t, S: t.ones(1).as_subclass(int), "does not inherit from Tensor"),
    "as_subclass object": (lambda t, S: t.ones(1).as_subclass(3), r"cls must be a type \(got int\)"),
    "make int": (lambda t, S: t.Tensor._make_subclass(int, t.ones(1)), "does not inherit from Tensor"),
    "make of a number": (
        lambda t, S: t.Tensor._make_subclass(S, 3),
        r"_make_subclass\(\).*'data'.*must be Tensor, not int",
    ),
}


@pytest.mark.parametrize(("code", "match"), BAD.values(), ids=list(BAD))
def test_making_refused(code, match):
    agree_error(lambda t: code(t, family(t)[0]), match)


def with_tag(t):
    class Tagged(t.Tensor):
        @staticmethod
        def __new__(cls, data, tag):
            return t.Tensor._make_subclass(cls, data)

        def __init__(self, data, tag):
            self.tag = tag

    return Tagged


def test_constructor_of_ones_own():
    """Results are made without it, and so without the attributes it sets."""
    agree(
        lambda t: (lambda a: (a.tag, name(a + 1), hasattr(a + 1, "tag"), name(a.add_(1)), a.tag))(
            with_tag(t)(t.ones(2), "t")
        )
    )


def test_methods_and_class_attributes():
    def run(t):
        class Mine(t.Tensor):
            scale = 3

            def add_one(self):
                return self + 1

            @property
            def scaled(self):
                return self * self.scale

            def sum(self):
                return "overridden"

        m = Mine([1.0, 2.0])
        return name(m.add_one()), m.scaled.tolist(), (m * 2).add_one().tolist(), m.sum(), t.sum(m).item()

    agree(run)


# -- the note's LoggingTensor --------------------------------------------------------------------------------


def logging_tensor(t, seen):
    class LoggingTensor(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is not t.Tensor.__repr__:
                seen.append(f"func: {func.__name__}, args: {args!r}, kwargs: {kwargs!r}")
                logging.info(seen[-1])
            return super().__torch_function__(func, types, args, kwargs or {})

    return LoggingTensor


LOGGED = {
    "add": lambda t, s: s + 1,
    "method": lambda t, s: s.mul(s),
    "function": lambda t, s: t.sin(s),
    "property": lambda t, s: s.shape,
    "setter": lambda t, s: setattr(s, "requires_grad", True),
    "index": lambda t, s: s[0],
    "set item": lambda t, s: s.__setitem__(0, 5.0),
    "functional": lambda t, s: t.nn.functional.relu(s),
    "loss": lambda t, s: t.nn.functional.mse_loss(s, s),
    "linear": lambda t, s: t.nn.functional.linear(s, s),
    "list": lambda t, s: t.cat([s, s]),
    "iteration": lambda t, s: list(s),
    "length": lambda t, s: len(s),
    "bool": lambda t, s: bool(s[0] > 0),
    "item": lambda t, s: s[0].item(),
    "float": lambda t, s: float(s[0]),
    "type": lambda t, s: s.to(t.float64).dtype,
    "backward": lambda t, s: s.requires_grad_().sum().backward(),
    "is_floating_point": lambda t, s: t.is_floating_point(s),
    "sequence": lambda t, s: (s * 2 - s).sum(),
    "in": lambda t, s: 1.0 in s,
    "numpy": lambda t, s: s.numpy().tolist(),
    "flatten": lambda t, s: t.flatten(s),
}


@pytest.mark.parametrize("code", LOGGED.values(), ids=list(LOGGED))
def test_logging(code):
    """The same lines as in PyTorch: nothing that the library does by itself is logged."""

    def run(t):
        seen: list = []
        code(t, logging_tensor(t, seen)([1.0, 2.0]))
        return seen

    agree(run)


def test_logging_repr_does_not_recurse():
    agree(lambda t: repr(logging_tensor(t, [])([1.0, 2.0])))


# -- printing ------------------------------------------------------------------------------------------------

PRINTED = {
    "plain": lambda t, S: [S([1.0, 2.0]), S([[1, 2], [3, 4]]), S([])],
    "requires grad": lambda t, S: [S([1.0]).requires_grad_(), S([1.0]).requires_grad_() * 2],
    "long": lambda t, S: [t.arange(2000.0).as_subclass(S), t.zeros(20, 20).as_subclass(S)],
    "element": lambda t, S: [S([[1.0]])[0, 0]],
    "parameter": lambda t, S: [t.nn.Parameter(S([1.0])), type("P", (t.nn.Parameter,), {})(t.ones(2))],
    "in a list": lambda t, S: [[S([1.0])], {"a": S([2.0])}],
}


@pytest.mark.parametrize("code", PRINTED.values(), ids=list(PRINTED))
@pytest.mark.parametrize("form", [repr, str, format])
def test_printed(code, form):
    agree(lambda t: [form(x) for x in code(t, family(t)[0])])


# -- parameters ----------------------------------------------------------------------------------------------

PARAMETERS = {
    "of a subclass": lambda t, S: (lambda p: (name(p), isinstance(p, t.nn.Parameter), p.requires_grad, name(p + 1)))(
        t.nn.Parameter(S([1.0]))
    ),
    "results are none": lambda t, S: isinstance(t.nn.Parameter(S([1.0])) + 1, t.nn.Parameter),
    "subclass of Parameter": lambda t, S: (lambda p: (name(p), name(p + 1), name(p.detach()), name(p.data)))(
        type("P", (t.nn.Parameter,), {})(t.ones(2))
    ),
    "overriding subclass of Parameter": lambda t, S: names(overriding_parameter(t)),
    "registered": lambda t, S: [(n, name(p)) for n, p in module_with(t, S).named_parameters()],
    "state_dict": lambda t, S: {n: name(v) for n, v in module_with(t, S).state_dict().items()},
    "moved": lambda t, S: [(name(p), str(p.dtype)) for p in module_with(t, S).to(t.float64).parameters()],
    "Parameter disables": lambda t, S: t.nn.Parameter.__torch_function__ is t._C._disabled_torch_function_impl,
    "Buffer": lambda t, S: (lambda b: (name(b), isinstance(b, t.nn.Buffer)))(t.nn.Buffer(S([1.0]))),
    "sgd": lambda t, S: trained(t, S, lambda p: t.optim.SGD(p, 0.1, momentum=0.9)),
    "adam": lambda t, S: trained(t, S, lambda p: t.optim.Adam(p, 0.1)),
    "adamw": lambda t, S: trained(t, S, lambda p: t.optim.AdamW(p, 0.1)),
}


def overriding_parameter(t):
    def handler(cls, func, types, args=(), kwargs=None):
        with t._C.DisableTorchFunctionSubclass():
            return [func(*args, **(kwargs or {}))]

    p = type("P", (t.nn.Parameter,), {"__torch_function__": classmethod(handler)})(t.ones(2))
    return [p, p + 1, t.sum(p)]


def module_with(t, S):
    m = t.nn.Linear(1, 1)
    m.weight = t.nn.Parameter(S([[0.5]]))
    m.bias = t.nn.Parameter(S([0.25]))
    return m


def trained(t, S, optimizer):
    m = module_with(t, S)
    steps = optimizer(m.parameters())
    for _ in range(3):
        steps.zero_grad()
        t.nn.functional.mse_loss(m(t.ones(2, 1)), t.zeros(2, 1)).backward()
        steps.step()
    return [(name(p), [f"{v:.5f}" for v in p.detach().flatten().tolist()]) for p in m.parameters()]


@pytest.mark.parametrize("code", PARAMETERS.values(), ids=list(PARAMETERS))
def test_parameters(code):
    agree(lambda t: code(t, family(t)[0]), warned=False)


# -- copies and pickles --------------------------------------------------------------------------------------


class Ours(torchlike.Tensor):
    """At the top of the module, so that it can be pickled."""


class Theirs(torch.Tensor):
    pass


class OursSlotted(torchlike.Tensor):
    __slots__ = ("first", "second")


class TheirsSlotted(torch.Tensor):
    __slots__ = ("first", "second")


class OursWithState(torchlike.Tensor):
    def __getstate__(self):
        return {"kept": self.kept}

    def __setstate__(self, state):
        self.kept = state, "restored"


class TheirsWithState(torch.Tensor):
    __getstate__, __setstate__ = OursWithState.__getstate__, OursWithState.__setstate__


PAIRS = {"plain": (Ours, Theirs), "slots": (OursSlotted, TheirsSlotted), "state": (OursWithState, TheirsWithState)}


def of(t, kind="plain"):
    return PAIRS[kind][t is torch]


def roundtrip(x, protocol=2):
    return pickle.loads(pickle.dumps(x, protocol))


def marked(x, **attributes):
    for key, value in attributes.items():
        setattr(x, key, value)
    return x


def told_of(x, *attributes):
    return (
        name(x)[4 if name(x).startswith("Ours") else 6 :],
        x.tolist(),
        x.requires_grad,
        [getattr(x, a, None) for a in attributes],
    )


PICKLED = {
    "attributes": lambda t: told_of(roundtrip(marked(of(t)([1.0, 2.0]), foo="bar")), "foo"),
    "requires grad": lambda t: told_of(roundtrip(of(t)([1.0]).requires_grad_())),
    "view": lambda t: (lambda r: (told_of(r), r.stride()))(roundtrip(of(t)([[1.0, 2.0], [3.0, 4.0]]).T)),
    "parameter": lambda t: (lambda r: (told_of(r), isinstance(r, t.nn.Parameter)))(
        roundtrip(t.nn.Parameter(of(t)([1.0])))
    ),
    "slots": lambda t: told_of(roundtrip(marked(of(t, "slots")([1.0]), first=3)), "first", "second"),
    "slots and attributes": lambda t: told_of(
        roundtrip(marked(of(t, "slots")([1.0]), first=3, other=4)), "first", "other"
    ),
    "state": lambda t: told_of(roundtrip(marked(of(t, "state")([1.0]), kept=3)), "kept"),
    "list of two": lambda t: (lambda s: (lambda r: r[0] is r[1])(roundtrip([s, s])))(of(t)([1.0])),
    "copy": lambda t: told_of(copy.copy(marked(of(t)([1.0]), foo=[1])), "foo"),
    "copy of slots": lambda t: told_of(copy.copy(marked(of(t, "slots")([1.0]), first=3)), "first"),
}


@pytest.mark.parametrize("code", PICKLED.values(), ids=list(PICKLED))
def test_pickled(code):
    agree(code)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_protocols(protocol):
    agree(lambda t: told_of(roundtrip(marked(of(t)([1.0]), foo=(1, 2)), protocol), "foo"))


def with_new_empty(t, **more):
    def new_empty(self, *args, **kwargs):
        return t.Tensor.new_empty(self, *args, **kwargs).as_subclass(type(self))

    return type("NE", (t.Tensor,), {"new_empty": new_empty, **more})


def test_deepcopy():
    def run(t):
        s = marked(with_new_empty(t, __slots__=("first",))([1.0, 2.0]).requires_grad_(), first=[1], other=[2])
        new = copy.deepcopy(s)
        p = copy.deepcopy(t.nn.Parameter(with_new_empty(t)([1.0])))
        return (
            name(new), new.tolist(), new.requires_grad, new.is_leaf, new.other, new.other is s.other,
            new.data_ptr() == s.data_ptr(), name(p), isinstance(p, t.nn.Parameter),
        )  # fmt: skip

    agree(run)


PLAIN = {
    "plain": lambda t: type("Plain", (t.Tensor,), {}),
    "wrong new_empty": lambda t: type("Wrong", (t.Tensor,), {"new_empty": lambda self, shape: t.zeros(shape)}),
    "disabled": lambda t: type("Off", (t.Tensor,), {"__torch_function__": t._C._disabled_torch_function_impl}),
}


@pytest.mark.parametrize("make", PLAIN.values(), ids=list(PLAIN))
def test_deepcopy_refuses_classes_that_make_no_new_ones(make):
    agree_error(lambda t: copy.deepcopy(t.ones(2).as_subclass(make(t))), r"implement new_empty\(\) and for which")


def test_deepcopy_where_pytorch_copies():
    def run(t):
        s = marked(with_new_empty(t)([1.0, 2.0]), foo=[1])
        new = copy.deepcopy(s)
        return name(new), new.tolist(), new.foo, new.foo is s.foo

    agree(run)


# -- switches ------------------------------------------------------------------------------------------------

SWITCHES = {
    "subclass off": ("DisableTorchFunctionSubclass",),
    "all off": ("DisableTorchFunction",),
    "on again": ("DisableTorchFunction", "_EnableTorchFunction"),
    "on in subclass off": ("DisableTorchFunctionSubclass", "_EnableTorchFunction"),
    "nested": ("DisableTorchFunctionSubclass", "DisableTorchFunction"),
    "nested the other way": ("DisableTorchFunction", "DisableTorchFunctionSubclass"),
}


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=list(SWITCHES))
def test_switches(switches):
    def inside(t, switches, f):
        if not switches:
            return f()
        with getattr(t._C, switches[0])():
            return inside(t, switches[1:], f)

    def run(t):
        s = family(t)[0]([1.0])
        here = lambda: (name(s + 1), t._C._is_torch_function_enabled())  # noqa: E731
        return inside(t, switches, here), here()

    agree(run)


def test_disabled_implementation_called():
    def run(t):
        s = family(t)[0]([1.0])
        off = t._C._disabled_torch_function_impl
        return name(off(t.add, (type(s),), (s, 1))), name(off(t.add, (type(s),), (s, 1), {"alpha": 2}))

    agree(run)


def test_redispatch_function():
    def run(t):
        def handler(cls, func, types, args=(), kwargs=None):
            return "seen", t.overrides.redispatch_function(func, types, args, kwargs or {})

        s = type("Seen", (t.Tensor,), {"__torch_function__": classmethod(handler)})([1.0])
        return names(s + 1), names(t.add(s, s)), t.overrides.redispatch_function(t.add, (), (t.ones(1), 1), {})

    agree(run)


def redispatching(t):
    """A class whose handler passes every call on, and the names of those that it was given."""
    seen = []

    class Seen(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return t.overrides.redispatch_function(func, types, args, kwargs or {})

    return Seen, seen


def test_functions_that_ask_are_redispatched_once():
    def run(t):
        Seen, seen = redispatching(t)

        def inner(x):
            if t.overrides.has_torch_function((x,)):
                return t.overrides.handle_torch_function(inner, (x,), x)
            return x * x + x

        def outer(x):
            if t.overrides.has_torch_function((x,)):
                return t.overrides.handle_torch_function(outer, (x,), x)
            return inner(x) - inner(x)

        x = t.ones(2).as_subclass(Seen)
        return names(outer(x)), names(inner(x)), seen, t.overrides.has_torch_function((x,))

    agree(run)


def test_backward_is_redispatched_once():
    """The names that handlers see differ where PyTorch's functions are made of others."""

    def run(t):
        Seen, seen = redispatching(t)

        x, seed = t.ones(2).as_subclass(Seen).requires_grad_(), t.ones(()).as_subclass(Seen)
        (x * 2).sum().backward()
        t.autograd.backward((x * 3).sum().as_subclass(Seen), seed)
        (found,) = t.autograd.grad((x * 2).sum(), x)
        t._assert(x.sum() > 0, "positive")
        return names(x.grad), names(found), "backward" in seen, "grad" in seen

    agree(run)


def test_what_is_not_overridden():
    agree(lambda t: [f in t.overrides.get_ignored_functions() for f in (t.Tensor.as_subclass, t.no_grad, t.finfo)])


def test_nowrap():
    agree(lambda t: t.Tensor.grad.__get__ in t.overrides.get_default_nowrap_functions())
    agree(lambda t: name(marked(family(t)[0]([1.0]), grad=t.ones(1)).grad))
