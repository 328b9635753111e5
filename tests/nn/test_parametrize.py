"""Parametrized tensors: torch.nn.utils.parametrize, on both libraries."""

import copy
import pickle
import threading

import pytest
from both import agree, agree_error
from story_kit import said, story

import torchlike


def kit(t):
    """Parametrizations by name, each made with the right inverse that it is given, if any."""
    nn = t.nn

    class Twice(nn.Module):
        def forward(self, x):
            return x * 2

    class Half(Twice):
        def right_inverse(self, x):
            return x / 2

    class Upper(nn.Module):
        def forward(self, x):
            return x.triu()

        def right_inverse(self, x):
            return x.triu()

    class Sum(nn.Module):
        def forward(self, *parts):
            return sum(parts)

        def right_inverse(self, x):
            return self.back(x) if "back" in self.__dict__ else (x * 1, x * 0)

    class Made(nn.Module):
        def __init__(self, make, back=None):
            super().__init__()
            self.make = make
            if back is not None:
                self.right_inverse = back

        def forward(self, x):
            return self.make(x)

    class Parts:
        pass

    Parts.Twice, Parts.Half, Parts.Upper, Parts.Sum, Parts.Made = Twice, Half, Upper, Sum, Made
    return Parts


def linear(t, n=2, m=2):
    module = t.nn.Linear(n, m)
    with t.no_grad():
        module.weight.copy_(t.arange(1.0, n * m + 1).reshape(m, n))
        module.bias.fill_(0.5)
    return module


def parametrized(t, *names, module=None, name="weight", unsafe=False):
    module = linear(t) if module is None else module
    for part in names:
        made = getattr(kit(t), part)() if isinstance(part, str) else part
        t.nn.utils.parametrize.register_parametrization(module, name, made, unsafe=unsafe)
    return module


def told(t, m):
    P = t.nn.utils.parametrize
    return repr(m), m.state_dict(), [n for n, _ in m.named_parameters()], type(m).__name__, P.is_parametrized(m)


@story
def test_registering(t):
    m = parametrized(t, "Half", "Upper")
    m(t.ones(1, 2)).sum().backward()
    P = t.nn.utils.parametrize
    lists = m.parametrizations.weight
    return (
        told(t, m), m.weight, m.weight.grad_fn, lists.original.grad, lists.unsafe, len(lists), "weight" in dir(m),
        P.type_before_parametrizations(m) is t.nn.Linear, isinstance(m, t.nn.Linear), P.is_parametrized(m, "bias"),
        P.is_parametrized(m, "weight"), type(m).__module__.replace("torchlike", "torch"),
    )  # fmt: skip


@story
def test_several_originals(t):
    m = parametrized(t, "Sum")
    lists = m.parametrizations.weight
    out = [told(t, m), lists.ntensors, lists.is_tensor, m.weight]
    m.weight = t.full((2, 2), 3.0)
    out += [m.weight, lists.original0, said(lambda: t.nn.utils.parametrize.remove_parametrizations(m, "weight", False))]
    return [*out, told(t, t.nn.utils.parametrize.remove_parametrizations(m, "weight"))]


@story
def test_assigning(t):
    m = parametrized(t, "Half", "Upper")
    original = m.parametrizations.weight.original
    m.weight = t.ones(2, 2)
    wide = parametrized(t, "Half")
    wide.weight = t.ones(3, 3)
    return m.weight, m.parametrizations.weight.original is original, wide.parametrizations.weight.original


@story
def test_removing(t):
    P = t.nn.utils.parametrize
    m = parametrized(t, "Half", "Upper")
    original = m.parametrizations.weight.original
    parametrized(t, "Twice", module=m, name="bias")
    out = [P.remove_parametrizations(m, "weight") is m, m.weight is original, told(t, m)]
    P.remove_parametrizations(m, "bias", leave_parametrized=False)
    m.weight = t.nn.Parameter(t.ones(2, 2))
    return *out, told(t, m), m.bias, type(m) is t.nn.Linear, m(t.ones(1, 2))


@story
def test_buffers(t):
    P = t.nn.utils.parametrize
    m = t.nn.BatchNorm1d(2)
    buffer = m.running_mean
    parametrized(t, "Twice", module=m, name="running_mean")
    out = [m.state_dict(), list(m._buffers), m.parametrizations.running_mean.original is buffer]
    P.remove_parametrizations(m, "running_mean")
    return *out, m.running_mean is buffer, list(m.state_dict())


@story
def test_cached(t):
    P = t.nn.utils.parametrize
    m = parametrized(t, "Twice")
    with P.cached():
        first = m.weight
        with P.cached():
            inner = m.weight is first
        outer = m.weight is first
        m(t.ones(1, 2)).sum().backward()
    return inner, outer, m.weight is first, m.parametrizations.weight.original.grad


def test_the_cache_is_the_thread_s():
    m, seen = parametrized(torchlike, "Twice"), []
    with torchlike.nn.utils.parametrize.cached():
        first = m.weight
        thread = threading.Thread(target=lambda: seen.append(m.weight is first))
        thread.start()
        thread.join()
        assert m.weight is first and seen == [False]


@story
def test_transferring(t):
    P = t.nn.utils.parametrize
    out = []
    for names in (["Half"], ["Sum"], ["Half", "Twice"]):
        a, b = parametrized(t, *names), t.nn.Linear(2, 2)
        P.transfer_parametrizations_and_params(a, b)
        shared = [x is y for x, y in zip(a.parametrizations.parameters(), b.parametrizations.parameters(), strict=True)]
        out += [shared, type(b).__name__, b.weight]
    a = parametrized(t, "Half")
    onto = P.transfer_parametrizations_and_params(a, parametrized(t, "Half"), "weight")
    into = P.transfer_parametrizations_and_params(a, t.nn.Module(), "weight")
    plain = t.nn.Linear(2, 2)
    same = P.transfer_parametrizations_and_params(plain, t.nn.Linear(2, 2))
    return *out, repr(onto), told(t, into), repr(same), said(lambda: P.transfer_parametrizations_and_params(a, b, "no"))


@story
def test_copies(t):
    m = parametrized(t, "Half")
    twin = copy.deepcopy(m)
    with t.no_grad():
        twin.parametrizations.weight.original.zero_()
    pickled = said(
        lambda: pickle.dumps(m), "Serialization of parametrized modules is only supported through state_dict"
    )
    return type(twin) is type(m), m.weight, twin.weight, pickled, repr(copy.deepcopy(t.nn.Sequential(m, m)))


@story
def test_copies_of_classes_with_their_own_rules(t):
    class Own(t.nn.Linear):
        def __deepcopy__(self, memo):
            return "own"

    class Slots(t.nn.Linear):
        __slots__ = ("extra",)

    own, slots = parametrized(t, "Half", module=Own(2, 2)), parametrized(t, "Half", module=Slots(2, 2))
    slots.extra = [5]
    twin = copy.deepcopy(slots)
    return copy.deepcopy(own), twin.extra, twin.extra is slots.extra


def test_copies_share_a_class_but_no_parametrizations():
    """In PyTorch a copy that is parametrized further breaks the module it was made of."""
    m = parametrized(torchlike, "Half")
    twin = parametrized(torchlike, "Twice", module=copy.deepcopy(m), name="bias")
    assert m.bias.is_leaf and not twin.bias.is_leaf
    torchlike.nn.utils.parametrize.remove_parametrizations(twin, "weight")
    assert not m.weight.is_leaf and twin.weight.is_leaf
    del twin.weight
    twin.weight = 3
    assert twin.weight == 3 and "weight" in twin.__dict__


@story
def test_state(t):
    a, b = parametrized(t, "Half"), parametrized(t, "Sum", "Twice")
    other = parametrized(t, "Half", module=t.nn.Linear(2, 2))
    other.load_state_dict(a.state_dict())
    plain = t.nn.Linear(2, 2)
    return (
        other.weight,
        said(lambda: a.load_state_dict(plain.state_dict())),
        said(lambda: b.load_state_dict(a.state_dict())),
        a.double().weight, a.parametrizations.weight.original.dtype, a.eval().parametrizations.weight[0].training,
        a.requires_grad_(False).weight.requires_grad,
    )  # fmt: skip


@story
def test_training(t):
    m = t.nn.Sequential(parametrized(t, "Half", "Upper"), t.nn.ReLU())
    optimizer = t.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        m(t.tensor([[1.0, 2.0]])).square().sum().backward()
        optimizer.step()
    return m.state_dict(), repr(m)


def test_compiled():
    def run(step):
        m = parametrized(torchlike, "Half", "Upper")
        optimizer = torchlike.optim.SGD(m.parameters(), lr=0.1)
        x = torchlike.tensor([[1.0, 2.0]])

        def train(x):
            optimizer.zero_grad()
            loss = m(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        train = step(train)
        return [train(x).item() for _ in range(3)], m.weight.tolist()

    losses, weight = run(lambda f: torchlike.compile(f, fullgraph=True))
    eager = run(lambda f: f)
    assert losses == pytest.approx(eager[0]) and weight == [pytest.approx(row) for row in eager[1]]
    m = parametrized(torchlike, "Half")
    f = torchlike.compile(lambda x: cached_twice(m, x), fullgraph=True)
    assert f(torchlike.ones(1, 2)).tolist() == cached_twice(m, torchlike.ones(1, 2)).tolist()


def cached_twice(m, x):
    with torchlike.nn.utils.parametrize.cached():
        return m(m(x))


UNSAFE = {
    "dtype": lambda x: x.double(),
    "shape": lambda x: x[:1],
    "no tensor": lambda x: 3,
    "fails": lambda x: 1 / 0,
}
BACK = {
    "int": lambda x: 3,
    "double": lambda x: x.double(),
    "shape": lambda x: x.repeat(2, 1),
    "list": lambda x: [x, 3],
    "fails": lambda x: 1 / 0,
}


def undefined(x):
    raise NotImplementedError("no right inverse")


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("before", [[], ["Half"]])
@pytest.mark.parametrize("bad", UNSAFE)
def test_what_a_parametrization_may_return(bad, before, unsafe):
    def run(t):
        m = parametrized(t, *before)
        got = said(lambda: parametrized(t, kit(t).Made(UNSAFE[bad]), module=m, unsafe=unsafe) and None)
        return got, type(m).__name__, list(m.state_dict()), list(m.state_dict().values())

    agree(run)


@pytest.mark.parametrize("before", [[], ["Half"]])
@pytest.mark.parametrize("bad", BACK)
def test_what_a_right_inverse_may_return(bad, before):
    def run(t):
        m = parametrized(t, *before)
        got = said(lambda: parametrized(t, kit(t).Made(lambda x: x, BACK[bad]), module=m) and None)
        return got.replace("forward()", "") if isinstance(got, str) else got, list(m.state_dict())

    agree(run)


@story
def test_a_right_inverse_that_is_not_defined(t):
    m = parametrized(t, kit(t).Made(lambda x: x * 2, undefined))
    return m.weight, said(lambda: setattr(m, "weight", t.ones(2, 2)))


def test_what_fails_leaves_the_tensor_as_it_was():
    """The first right inverse has changed the value when PyTorch finds that the result has another shape."""
    m = linear(torchlike)
    before = m.weight.tolist()
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrized(torchlike, kit(torchlike).Made(lambda x: x[:1], lambda x: x * 3), module=m)
    assert m.weight.tolist() == before and type(m) is torchlike.nn.Linear and m.weight.requires_grad


ASSIGNED = {
    "int": (lambda x: 3, "sequence of tensors. Got int"),
    "tensor": (lambda x: x, "sequence of tensors. Got Tensor"),
    "three": (lambda x: (x, x, x), "of length 2. Got a sequence of length 3"),
    "element": (lambda x: (x, 3), "Got element 1 of type int"),
    "dtype": (lambda x: (x, x.double()), "Tensor 1 returned by `right_inverse` has dtype torch(like)?.float64"),
}


@pytest.mark.parametrize("bad", ASSIGNED)
def test_assigning_what_does_not_fit(bad):
    def run(t):
        m = parametrized(t, "Sum")
        m.parametrizations.weight[0].back = ASSIGNED[bad][0]
        m.weight = t.ones(2, 2)

    agree_error(run, ASSIGNED[bad][1])


ERRORS = {
    "no such name": (lambda t: parametrized(t, "Half", name="foo"), "does not have a parameter, a buffer, or a param"),
    "an attribute": (lambda t: parametrized(t, "Half", name="in_features"), "with name 'in_features'"),
    "None": (lambda t: parametrized(t, "Half", module=t.nn.Linear(2, 2, bias=False), name="bias"), "NoneType"),
    "no module": (lambda t: parametrized(t, lambda x: x), "train"),
    "no right inverse": (lambda t: setattr(parametrized(t, "Twice"), "weight", t.ones(2, 2)), "Twice does not impl"),
    "dtype": (lambda t: setattr(parametrized(t, "Half"), "weight", t.ones(2, 2).double()), "has dtype .*float64 while"),
    "int": (lambda t: setattr(parametrized(t, kit(t).Made(lambda x: x, lambda x: x)), "weight", 3), "Got int"),
    "deleting": (lambda t: delattr(parametrized(t, "Half"), "weight"), "weight|deleter"),
    "a parameter": (lambda t: setattr(parametrized(t, "Half"), "weight", t.nn.Parameter(t.ones(2, 2))), "exists"),
    "not parametrized": (lambda t: t.nn.utils.parametrize.remove_parametrizations(linear(t), "weight"), "not have"),
    "another": (lambda t: t.nn.utils.parametrize.remove_parametrizations(parametrized(t, "Half"), "bias"), "on bias"),
    "removing another dtype": (
        lambda t: t.nn.utils.parametrize.remove_parametrizations(
            parametrized(t, kit(t).Made(UNSAFE["dtype"]), unsafe=True), "weight"
        ),
        "leave_parametrized=True",
    ),
    "no modules": (lambda t: t.nn.utils.parametrize.ParametrizationList([], t.ones(2)), "one or more modules"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    agree_error(*ERRORS[case])
