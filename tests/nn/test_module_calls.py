"""Forward hooks, conversions and copies of modules: every case runs with torch and with torchlike."""

import copy
import pickle

import pytest
import torch
from agreement import agree
from module_kit import kit

import torchlike

# -- forward hooks -----------------------------------------------------------------------------------
PRE = {
    "none": lambda x: None,
    "tensor": lambda x: x * 10,
    "tuple": lambda x: (x * 10,),
    "two": lambda x: (x, 5),
    "list": lambda x: [x * 5],
    "number": lambda x: 3,
}
PRE_KWARGS = {
    "none": lambda x: None,
    "args": lambda x: (x,),
    "both": lambda x: ((x * 10,), {"y": 2}),
    "nested": lambda x: ((x,),),
    "list": lambda x: [(x,), {}],
    "no args tuple": lambda x: (x, {}),
    "three": lambda x: ((x,), {}, 3),
    "number": lambda x: 5,
}


def hooked(T, register, hook, *args, **flags):
    m = kit(T).Tiny()
    with getattr(m, register)(hook, **flags):
        inside = m(T.ones(2), *args)
    return inside, m(T.ones(2), *args), len(m._forward_hooks_with_kwargs), len(m._forward_pre_hooks_with_kwargs)


@pytest.mark.parametrize("name", PRE)
def test_forward_pre_hook(name):
    agree(lambda T: hooked(T, "register_forward_pre_hook", lambda m, a: PRE[name](a[0])))


@pytest.mark.parametrize("name", PRE_KWARGS)
def test_forward_pre_hook_with_kwargs(name):
    def hook(m, args, kwargs):
        return PRE_KWARGS[name](args[0])

    agree(lambda T: hooked(T, "register_forward_pre_hook", hook, with_kwargs=True))


@pytest.mark.parametrize("result", [None, 7, (1, 2)])
def test_forward_hook(result):
    agree(lambda T: hooked(T, "register_forward_hook", lambda m, a, out: result))
    agree(lambda T: hooked(T, "register_forward_hook", lambda m, a, k, out: (a, k, out), 3, with_kwargs=True))


def test_order_of_hooks():
    def code(T):
        m, order, mm = kit(T).Tiny(), [], T.nn.modules.module
        for i, prepend in enumerate((False, True, False, True)):
            m.register_forward_hook(lambda *a, i=i: order.append(i), prepend=prepend)
            m.register_forward_pre_hook(lambda *a, i=i: order.append(-i - 1), prepend=prepend)
        first = m.register_forward_hook(lambda *a: order.append("always"), always_call=True)
        with mm.register_module_forward_pre_hook(lambda *a: order.append("global pre")):
            with mm.register_module_forward_hook(lambda m, a, k, out: out + 1, with_kwargs=True):
                out = m(T.zeros(1))
        first.remove()
        m(T.zeros(1))
        return order, out

    agree(code)


def failing(T, where, *hooks, always=()):
    """Call a module whose hooks log what they get, where ``where`` raises."""
    m, seen, mm = kit(T).Tiny(), [], T.nn.modules.module

    def raise_(*args):
        raise ZeroDivisionError(where)

    if where == "forward":
        m.forward = raise_
    if where == "pre":
        m.register_forward_pre_hook(raise_)
    for hook, always_call in hooks:
        action = raise_ if hook == "raise" else lambda m, a, out, hook=hook: seen.append((hook, out))
        m.register_forward_hook(action, always_call=always_call)
    with mm.register_module_forward_hook(lambda m, a, o: seen.append(("global", o)), always_call=True):
        try:
            m(T.ones(2))
        except ZeroDivisionError as e:
            return seen, str(e)


@pytest.mark.parametrize("where", ["forward", "pre", "hook"])
@pytest.mark.parametrize(
    "hooks",
    [
        [("a", True), ("b", False)],
        [("raise", False), ("a", True)],
        [("a", True), ("raise", False)],
        [("raise", True), ("a", True)],
        [("a", True), ("raise", True)],
    ],
    ids=str,
)
def test_always_called_hooks(where, hooks):
    agree(lambda T: failing(T, where, *hooks))


def test_a_hook_may_remove_itself():
    def code(T):
        m, seen = kit(T).Tiny(), []
        handles = [m.register_forward_hook(lambda *a, i=i: (seen.append(i), handles[i].remove())) for i in range(3)]
        try:
            m(T.ones(1))
        except AttributeError:
            pass
        return seen, len(m._forward_hooks)

    agree(code)


# -- conversions ---------------------------------------------------------------------------------------
CONVERT = {
    "to dtype": lambda T, m: m.to(T.float64),
    "to string": lambda T, m: m.to("cpu"),
    "to nothing": lambda T, m: m.to(),
    "to None": lambda T, m: m.to(None),
    "to tensor": lambda T, m: m.to(T.zeros(1, dtype=T.float16)),
    "to tensor=": lambda T, m: m.to(tensor=T.zeros(1, dtype=T.float64)),
    "to device dtype": lambda T, m: m.to("cpu", T.float64),
    "to keywords": lambda T, m: m.to(device="cpu", dtype=T.float64, non_blocking=True),
    "to device dtype non_blocking": lambda T, m: m.to(T.device("cpu"), T.float64, True),
    "to dtype non_blocking": lambda T, m: m.to(T.float64, True),
    "to complex": lambda T, m: m.to(T.complex64),
    "float": lambda T, m: m.double().float(),
    "double": lambda T, m: m.double(),
    "half": lambda T, m: m.half(),
    "bfloat16": lambda T, m: m.bfloat16(),
    "cpu": lambda T, m: m.cpu(),
    "type": lambda T, m: m.requires_grad_(False).type(T.float64),
    "type string": lambda T, m: m.type("torch.DoubleTensor"),
    "meta": lambda T, m: [p.device for p in m.to("meta").parameters()],
    "to_empty": lambda T, m: [
        (p.shape, p.dtype, p.requires_grad) for p in m.to("meta").to_empty(device="cpu").parameters()
    ],
}
REFUSED = {
    "to int": lambda T, m: m.to(T.int32),
    "to int tensor": lambda T, m: m.to(T.zeros(1, dtype=T.int8)),
    "to bool": lambda T, m: m.to(T.bool),
    "to True": lambda T, m: m.to(dtype=True),
    "to foo": lambda T, m: m.to("foo"),
    "to dtype str": lambda T, m: m.to(dtype="x"),
    "to copy": lambda T, m: m.to(T.float64, copy=True),
    "to list": lambda T, m: m.to([1]),
    "to many": lambda T, m: m.to("cpu", T.float64, True, False, 5),
    "to keyword": lambda T, m: m.to(foo=3),
    "to twice": lambda T, m: m.to(T.float64, dtype=T.float32),
    "to non_blocking str": lambda T, m: m.to("cpu", non_blocking="x"),
    "type int": lambda T, m: m.type(T.int32),
    "from meta": lambda T, m: m.to("meta").to("cpu"),
}


@pytest.mark.parametrize("name", CONVERT)
def test_convert(name):
    def code(T):
        m = kit(T).Net()
        r = CONVERT[name](T, m)
        return ("self", m.state_dict()) if r is m else r

    agree(code)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_conversion(name):
    agree(lambda T: REFUSED[name](T, kit(T).Net()), message=False)


def test_conversion_keeps_the_parameter():
    def code(T):
        m = kit(T).Net()
        (m.w.sum() * 2).backward()
        w = m.w
        m.double()
        (m.w.sum() * 3).backward()
        return m.w is w, w, w.grad, m.l.weight.grad, w.is_leaf

    agree(code)


def test_complex_modules_warn():
    with pytest.warns(UserWarning, match="Complex modules"):
        kit(torchlike).Net().to(torchlike.complex64)


def test_to_messages():
    m = kit(torchlike).Net()
    with pytest.raises(
        TypeError, match=r"only accepts floating point or complex dtypes, but got desired dtype=torch.int32"
    ):
        m.to(torchlike.int32)
    with pytest.raises(TypeError, match=r"got \(Parameter, foo=int\), but expected to\(device=None"):
        m.to(m.w, foo=3)
    with pytest.raises(NotImplementedError, match=r"Please use torch.nn.Module.to_empty\(\)"):
        kit(torchlike).Net().to("meta").to("cpu")


# -- copies --------------------------------------------------------------------------------------------
class Tied:
    """At the top of this file, so that pickle finds the two subclasses below."""

    def __init__(self):
        super().__init__()
        self.a = self.library.nn.Parameter(self.library.zeros(1))
        self.c = self.a
        self.s = self.library.nn.Sequential()
        self.register_load_state_dict_pre_hook(_no_hook)


def _no_hook(*args):
    return None


class TorchTied(Tied, torch.nn.Module):
    library = torch


class LikeTied(Tied, torchlike.nn.Module):
    library = torchlike


def tied(T):
    return (TorchTied if T is torch else LikeTied)()


COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "pickle 2": lambda m: pickle.loads(pickle.dumps(m, 2)),
}


@pytest.mark.parametrize("how", COPIES)
def test_copies_of_modules(how):
    def code(T):
        m = tied(T)
        m.tag = [1]
        n = COPIES[how](m)
        assert n.load_state_dict(m.state_dict()).missing_keys == []
        return (
            n.a is n.c,
            n.a is m.a,
            n.a,
            n.tag,
            n.tag is m.tag,
            n._parameters is m._parameters,
            len(list(n.parameters())),
        )

    agree(code)


def test_setstate_fills_what_old_pickles_lack():
    m = torchlike.nn.Module.__new__(torchlike.nn.Module)
    m.__setstate__({"training": True, "_parameters": {}, "_buffers": {}, "_modules": {}})
    assert repr(m) == "Module()" and m.state_dict() == {} and m._non_persistent_buffers_set == set()
