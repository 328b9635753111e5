"""torch.nn.Module, Parameter and Buffer: every case runs with torch and with torchlike."""

import copy
import io
import pickle
from collections import OrderedDict
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from agreement import BOTH, agree

import torchlike


@cache
def kit(T):
    """Small modules of a library, with fixed values."""
    nn = T.nn

    class Leaf(nn.Module):
        def __init__(self, n=2, value=1.0):
            super().__init__()
            self.weight = nn.Parameter(T.full((n, n), value))
            self.bias = nn.Parameter(T.zeros(n))

        def forward(self, x):
            return x * 2

        def extra_repr(self):
            return f"n={len(self.bias)}"

    class Empty(nn.Module):
        def forward(self, x):
            return x + 1

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(T.zeros(2))
            self.register_buffer("b", T.ones(3))
            self.register_buffer("count", T.tensor(3))
            self.register_buffer("hidden", T.ones(1), persistent=False)
            self.l = Leaf()
            self.s = nn.Sequential(Leaf(1), Empty())
            self.again = self.l
            self.register_parameter("nop", None)
            self.register_buffer("nob", None)
            self.nothing = None

        def forward(self, x, y=1):
            return x * y

    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(T.zeros(2))
            self.register_buffer("b", T.ones(3))
            self.l = Empty()

        def forward(self, x, y=1):
            return x * y

    class Bare(nn.Module):
        """Never calls Module.__init__ before it does ``action``."""

        def __init__(self, action=lambda self: None):
            action(self)

        def forward(self, x):
            return x

    return SimpleNamespace(Leaf=Leaf, Empty=Empty, Net=Net, Tiny=Tiny, Bare=Bare)


def members(m):
    return m._parameters, m._buffers, list(m._modules), m._non_persistent_buffers_set


def value(T, kind):
    return {
        "none": lambda: None,
        "int": lambda: 3,
        "tensor": lambda: T.zeros(2),
        "parameter": lambda: T.nn.Parameter(T.zeros(2)),
        "module": lambda: kit(T).Empty(),
        "buffer": lambda: T.nn.Buffer(T.zeros(1)),
        "hidden buffer": lambda: T.nn.Buffer(T.zeros(1), persistent=False),
        "computed": lambda: T.zeros(1, requires_grad=True) * 2,
    }[kind]()


KINDS = ["none", "int", "tensor", "parameter", "module", "buffer", "hidden buffer"]


# -- registration ----------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["w", "b", "l", "new", "plain", "training"])
def test_setattr(name, kind):
    def code(T):
        m = kit(T).Tiny()
        m.plain = 3
        try:
            setattr(m, name, value(T, kind))
        finally:
            seen.append(members(m))
        got = m.__dict__.get(name, "absent")
        return seen.pop(), got

    seen = []
    agree(code)


@pytest.mark.parametrize("kind", KINDS)
def test_setattr_before_init(kind):
    agree(lambda T: kit(T).Bare(lambda self: setattr(self, "x", value(T, kind))).x)


@pytest.mark.parametrize("name", ["w", "b", "l", "nope", "training"])
def test_delattr(name):
    def code(T):
        m = kit(T).Tiny()
        delattr(m, name)
        return members(m), hasattr(m, name)

    agree(code)


REGISTER = {
    "register_parameter": ["none", "int", "tensor", "parameter", "computed", "module"],
    "register_buffer": ["none", "int", "tensor", "parameter", "module"],
    "add_module": ["none", "int", "tensor", "parameter", "module"],
    "register_module": ["module"],
}


@pytest.mark.parametrize("name", [3, "a.b", "", "training", "forward", "w", "b", "l", "new"])
@pytest.mark.parametrize("method,kind", [(m, k) for m, kinds in REGISTER.items() for k in kinds])
def test_register(method, kind, name):
    def code(T):
        m = kit(T).Tiny()
        getattr(m, method)(name, value(T, kind))
        return members(m)

    good = kind in ("parameter", "module") or (kind, method) == ("tensor", "register_buffer")
    agree(code, message=good or name == "new")


@pytest.mark.parametrize("method", ["register_parameter", "register_buffer"])
def test_register_before_init(method):
    agree(lambda T: kit(T).Bare(lambda self: getattr(self, method)("x", None)))


def test_use_before_init():
    got = agree(lambda T: kit(T).Bare()(1), message=False)
    assert "call super().__init__() first" in got.error[1]
    agree(lambda T: list(kit(T).Bare().parameters()), message=False)
    agree(lambda T: kit(T).Bare().add_module("a", None), message=False)
    agree(lambda T: kit(T).Bare().foo)


def test_init_arguments():
    class Mixin:
        def __init__(self, *args, **kwargs):
            self.got = args, kwargs

    agree(lambda T: T.nn.Module(3))
    agree(lambda T: T.nn.Module(a=3))
    agree(lambda T: type("C", (T.nn.Module, Mixin), {"call_super_init": True})(1, b=2).got)
    agree(lambda T: hasattr(type("C", (T.nn.Module, Mixin), {})(), "got"))


def test_persistence_follows_the_buffer():
    def code(T):
        m = T.nn.Module()
        m.q = T.nn.Buffer(T.zeros(1), persistent=False)
        first = members(m)
        m.q = T.ones(1)
        second = members(m)
        m.q = T.nn.Buffer(T.ones(1))
        return first, second, members(m)

    agree(code)


def test_registration_hooks():
    def log(T):
        seen = []
        mm = T.nn.modules.module
        hooks = [
            mm.register_module_parameter_registration_hook(lambda m, n, p: seen.append(("parameter", n, p))),
            mm.register_module_buffer_registration_hook(lambda m, n, b: seen.append(("buffer", n, b))),
            mm.register_module_module_registration_hook(lambda m, n, c: seen.append(("module", n, c))),
        ]
        try:
            m = kit(T).Tiny()
            m.b = T.zeros(1)
            m.b = m.w = m.l = None
            m.register_buffer("d", None)
            m.add_module("k", kit(T).Empty())
        finally:
            [h.remove() for h in hooks]
        kit(T).Tiny()
        return seen

    def replace(T):
        mm = T.nn.modules.module
        with mm.register_module_parameter_registration_hook(lambda m, n, p: T.nn.Parameter(p + 1)):
            with mm.register_module_module_registration_hook(lambda m, n, c: kit(T).Leaf()):
                with mm.register_module_buffer_registration_hook(lambda m, n, b: b * 5):
                    return members(kit(T).Tiny()), kit(T).Tiny().l

    agree(log)
    agree(replace)


# -- attributes and the tree -------------------------------------------------------------------------
TREE = {
    "parameters": lambda m: list(m.parameters()),
    "parameters norecurse": lambda m: list(m.parameters(False)),
    "named_parameters": lambda m: list(m.named_parameters()),
    "named_parameters all": lambda m: [n for n, _ in m.named_parameters(remove_duplicate=False)],
    "named_parameters prefix": lambda m: [n for n, _ in m.named_parameters("p")],
    "named_parameters own": lambda m: [n for n, _ in m.named_parameters("p", False)],
    "buffers": lambda m: list(m.buffers()),
    "named_buffers": lambda m: [n for n, _ in m.named_buffers("x", recurse=True)],
    "modules": lambda m: list(m.modules()),
    "modules all": lambda m: list(m.modules(remove_duplicate=False)),
    "named_modules": lambda m: [n for n, _ in m.named_modules()],
    "named_modules all": lambda m: [n for n, _ in m.named_modules(prefix="q", remove_duplicate=False)],
    "named_modules memo": lambda m: [n for n, _ in m.named_modules(memo={m.s})],
    "named_modules self in memo": lambda m: [n for n, _ in m.named_modules(memo={m})],
    "children": lambda m: list(m.children()),
    "named_children": lambda m: [n for n, _ in m.named_children()],
    "_named_members": lambda m: [n for n, _ in m._named_members(lambda k: k._parameters.items(), prefix="z")],
    "none children": lambda m: (m.add_module("none", None), list(m.named_modules()), list(m.children()), m),
    "generators": lambda m: [type(i()) for i in (m.parameters, m.buffers, m.modules, m.children)],
    "dir": lambda m: [n for n in dir(m) if n in ("w", "b", "l", "s", "training", "0", "forward")],
    "dir digits": lambda m: [n for n in dir(m.s) if n.isdigit()],
    "nope": lambda m: m.nope,
    "repr": repr,
    "repr multiline": lambda m: (setattr(m.s[1], "extra_repr", lambda: "a=1\nb=2"), repr(m)),
    "_get_name": lambda m: m._get_name(),
    "hash and eq": lambda m: (m == m, hash(m) == hash(m), m == m.l),
    "constants": lambda m: (m._version, m.dump_patches, m.call_super_init, m.training),
    "internals": lambda m: {"_parameters", "_forward_hooks", "_is_full_backward_hook"} <= set(vars(m)),
    "train": lambda m: (m.train(False) is m, m.l.training, m.train().s[0].training, m.eval().training),
    "train 3": lambda m: m.train(3),
    "train str": lambda m: m.train("yes"),
    "requires_grad_": lambda m: (m.requires_grad_(False) is m, list(m.parameters())),
    "forward": lambda m: type(m).__mro__[1]().forward(1),
    "call without forward": lambda m: type(m).__mro__[1]()(1),
    "not iterable": lambda m: iter(m),
    "share_memory": lambda m: m.share_memory() is m,
}


@pytest.mark.parametrize("name", TREE)
def test_tree(name):
    agree(lambda T: TREE[name](kit(T).Net()))


TARGETS = ["", "l", "s.0", "s.7", "w", "l.weight", "zz", "s.zz.q", "nop", "b", "l.weight.data", "training", "."]


@pytest.mark.parametrize("target", TARGETS)
def test_get(target):
    agree(lambda T: kit(T).Net().get_submodule(target))
    agree(lambda T: kit(T).Net().get_parameter(target))
    agree(lambda T: kit(T).Net().get_buffer(target))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("target", ["", "l", "s.0", "new", "s.new", "w", "s.zz.k", "training", "a.b", "l.weight"])
def test_set_submodule(target, strict):
    def code(T):
        m = kit(T).Net()
        m.set_submodule(target, T.nn.Sequential(), strict=strict)
        return m

    agree(code)


def test_set_submodule_of_what_is_no_module():
    agree(lambda T: kit(T).Net().set_submodule("l", 3))
    agree(lambda T: kit(T).Net().set_submodule("l", None))


def test_apply_goes_children_first():
    def code(T):
        seen = []
        m = kit(T).Net()
        assert m.apply(lambda k: seen.append(type(k).__name__)) is m
        return seen

    agree(code)


def test_property_that_shadows():
    class Shadow:
        @property
        def p(self):
            return self.missing

        @p.setter
        def p(self, v):
            object.__setattr__(self, "kept", v)

    def put(T, kind):
        m = type("S", (Shadow, T.nn.Module), {})()
        m.p = value(T, kind)
        return m.__dict__.get("kept"), members(m)

    agree(lambda T: type("S", (Shadow, T.nn.Module), {})().p)
    for kind in ("int", "parameter", "module", "tensor"):
        agree(lambda T, kind=kind: put(T, kind))


# -- gradients ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad(set_to_none):
    def code(T):
        m = kit(T).Net()
        (m.w.sum() * 2 + m.l.weight.sum()).backward(create_graph=not set_to_none)
        kept = m.w.grad
        m.zero_grad(set_to_none)
        return kept, m.w.grad is kept, [p.grad for p in m.parameters()]

    agree(code, warned=False)


# -- state_dict --------------------------------------------------------------------------------------
def bad_state(T, *changes):
    state = kit(T).Net().state_dict()
    for change in changes:
        {
            "missing": lambda: state.pop("w"),
            "extra": lambda: state.update(zz=T.zeros(1)),
            "extra inner": lambda: state.update({"l.q.r": T.zeros(1), "s": T.zeros(1), "s.0.weight.x": 1}),
            "size": lambda: state.update({"l.weight": T.zeros(3, 3)}),
            "number": lambda: state.update(w=3),
            "list": lambda: state.update(w=[1.0, 2.0]),
            "one": lambda: state.update(w=T.zeros(1)),
            "int": lambda: state.update(w=T.tensor([3, 4])),
            "half": lambda: state.update(w=T.tensor([3.0, 4.0]).half()),
            "plain dict": lambda: None,
        }[change]()
    return dict(state) if "plain dict" in changes else state


CHANGES = [
    (),
    ("missing",),
    ("extra",),
    ("extra inner",),
    ("size",),
    ("number",),
    ("list",),
    ("one",),
    ("int",),
    ("half",),
    ("plain dict",),
    ("missing", "extra", "size"),
    ("missing", "extra", "extra inner"),
]


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("changes", CHANGES, ids="-".join)
def test_load_state_dict(changes, strict, assign):
    def code(T):
        m = kit(T).Net()
        result = m.load_state_dict(bad_state(T, *changes), strict=strict, assign=assign)
        return result, result.missing_keys, result.unexpected_keys, m.state_dict()

    agree(code, message=not (assign and "int" in changes))


def test_a_failed_load_changes_nothing():
    m = kit(torchlike).Net()
    state = {k: v + 5 for k, v in kit(torchlike).Net().state_dict().items()}
    state["s.0.weight"] = torchlike.zeros(9)
    for assign in (False, True):
        kept = dict(m.named_parameters())
        with pytest.raises(RuntimeError, match="size mismatch for s.0.weight"):
            m.load_state_dict(state, assign=assign)
        assert m.w.tolist() == [0.0, 0.0] and m.b.tolist() == [1.0] * 3 and m.count.item() == 3
        assert all(kept[name] is p for name, p in m.named_parameters())


STATE = {
    "state_dict": lambda T, m: m.state_dict(),
    "metadata": lambda T, m: m.state_dict()._metadata,
    "prefix": lambda T, m: (list(m.state_dict(prefix="p.")), m.state_dict(prefix="p.")._metadata),
    "keep_vars": lambda T, m: (m.state_dict(keep_vars=True), m.state_dict(keep_vars=True)["w"] is m.w),
    "detached aliases": lambda T, m: (m.state_dict()["w"].add_(4), m.w),
    "destination": lambda T, m: (lambda d: (m.state_dict(destination=d) is d, hasattr(d, "_metadata")))({}),
    "positional": lambda T, m: list(m.state_dict(OrderedDict(), "x.", True)),
    "positional none": lambda T, m: list(m.state_dict(None, "a.")),
    "not a mapping": lambda T, m: m.load_state_dict([1]),
    "named tuple": lambda T, m: type(m.load_state_dict({}, strict=False)).__mro__[1].__name__,
    "0-dim from (1,)": lambda T, m: (m.load_state_dict({"count": T.tensor([7])}, strict=False), m.count),
    "shared storage": lambda T, m: (m.load_state_dict(m.state_dict()), m.w),
    "requires_grad kept": lambda T, m: (
        m.w.requires_grad_(False),
        m.load_state_dict({"w": T.nn.Parameter(T.ones(2))}, strict=False, assign=True),
        m.w,
    ),
    "assign gives the tensors": lambda T, m: (
        s := {k: v.clone() for k, v in m.state_dict().items()},
        m.load_state_dict(s, assign=True),
        m.b is s["b"],
        m.w.data_ptr() == s["w"].data_ptr(),
        m.w,
    )[2:],
    "assign a Parameter": lambda T, m: (
        p := T.nn.Parameter(T.ones(2)),
        m.load_state_dict({"w": p}, strict=False, assign=True),
        m.w is p,
    )[2],
    "no extra state": lambda T, m: type(T.nn.Module().state_dict()),
    "None parameter in the model": lambda T, m: m.load_state_dict({"nop": T.ones(1)}),
}


@pytest.mark.parametrize("name", STATE)
def test_state(name):
    agree(lambda T: STATE[name](T, kit(T).Net()))


@pytest.mark.parametrize("get", [True, False])
@pytest.mark.parametrize("set_", [True, False])
def test_extra_state(get, set_):
    def make(T):
        methods = {}
        if get:
            methods["get_extra_state"] = lambda self: {"a": 1}
        if set_:
            methods["set_extra_state"] = lambda self, state: setattr(self, "got", state)
        return type("Extra", (T.nn.Module,), methods)()

    def roundtrip(T, state):
        m = make(T)
        return m.load_state_dict(state), m.__dict__.get("got")

    agree(lambda T: make(T).state_dict())
    agree(lambda T: roundtrip(T, make(T).state_dict()))
    agree(lambda T: roundtrip(T, {"_extra_state": 5}))
    agree(lambda T: roundtrip(T, {}))
    agree(lambda T: make(T).get_extra_state(), message=False)
    agree(lambda T: make(T).set_extra_state(1), message=False)


def test_state_hooks():
    def code(T):
        m, seen = kit(T).Net(), []

        def log(name):
            return lambda *args: seen.append((name, [copy.copy(a) for a in args]))

        m.register_state_dict_pre_hook(log("pre"))
        m.l.register_state_dict_pre_hook(log("inner pre"))
        m.register_state_dict_post_hook(log("post"))
        m.l.register_state_dict_post_hook(log("inner post"))
        m._register_state_dict_hook(log("private post"))
        m.register_load_state_dict_pre_hook(log("load pre"))
        m.l.register_load_state_dict_pre_hook(log("inner load pre"))
        m._register_load_state_dict_pre_hook(log("private load pre"))
        m._register_load_state_dict_pre_hook(log("private load pre with module"), with_module=True)
        m.register_load_state_dict_post_hook(log("load post"))
        m.l.register_load_state_dict_post_hook(log("inner load post"))
        m.load_state_dict(m.state_dict())
        m.load_state_dict({}, strict=False)
        m.load_state_dict({"w": T.ones(2)}, strict=False, assign=True)
        return seen

    agree(code)


def load_with(T, hook, state):
    m = kit(T).Tiny()
    m.register_load_state_dict_post_hook(hook)
    return m.load_state_dict(state), m.w


def save_with(T, register, hook):
    m = kit(T).Tiny()
    getattr(m, register)(hook)
    return m.state_dict()


def adds(T):
    m = kit(T).Tiny()
    m.register_load_state_dict_pre_hook(lambda m, s, prefix, *rest: s.update({prefix + "w": T.ones(2)}))
    state = {"b": T.ones(3)}
    return m.load_state_dict(state), m.w, list(state)


def test_state_hook_results():
    agree(lambda T: load_with(T, lambda m, keys: 3, kit(T).Tiny().state_dict()))
    agree(lambda T: load_with(T, lambda m, keys: keys.missing_keys.clear(), {}))
    agree(lambda T: save_with(T, "_register_state_dict_hook", lambda *a: {"new": 1}))
    agree(lambda T: save_with(T, "register_state_dict_post_hook", lambda *a: {"new": 1}))
    agree(lambda T: save_with(T, "register_state_dict_post_hook", lambda m, s, *a: s.clear()))
    agree(adds)


def test_overridden_load_and_save():
    def code(T):
        seen = []

        class Old(T.nn.Module):
            _version = 3

            def __init__(self):
                super().__init__()
                self.w = T.nn.Parameter(T.zeros(1))

            def _load_from_state_dict(self, state, prefix, metadata, *rest):
                seen.append((list(state), prefix, metadata, rest))
                if metadata.get("version", 1) < 3 and prefix + "old" in state:
                    state[prefix + "w"] = state.pop(prefix + "old")
                super()._load_from_state_dict(state, prefix, metadata, *rest)

            def _save_to_state_dict(self, destination, prefix, keep_vars):
                seen.append((list(destination), prefix, keep_vars))
                super()._save_to_state_dict(destination, prefix, keep_vars)
                destination[prefix + "more"] = 4

        class Outer(T.nn.Module):
            def __init__(self):
                super().__init__()
                self.old = Old()
                self.l = kit(T).Leaf(1)

        m = Outer()
        state = m.state_dict()
        found = m.load_state_dict(state, strict=False), m.load_state_dict(dict(state), strict=False, assign=True)
        renamed = m.load_state_dict({"old.old": T.ones(1)}, strict=False)
        return seen, state, state._metadata, found, renamed, m.old.w

    agree(code)


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


@pytest.mark.parametrize(
    "name", ["register_full_backward_hook", "register_full_backward_pre_hook", "register_backward_hook"]
)
def test_backward_hooks_say_that_they_are_missing(name):
    with pytest.raises(NotImplementedError, match=f"torchlike does not have Module.{name} yet"):
        getattr(kit(torchlike).Tiny(), name)(print)
    with pytest.raises(NotImplementedError, match="register_module_full_backward_hook"):
        torchlike.nn.modules.module.register_module_full_backward_hook(print)


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
    with pytest.raises(NotImplementedError, match="Module.compile"):
        m.compile()


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


# -- Parameter and Buffer --------------------------------------------------------------------------------
@cache
def classes(T):
    """Subclasses of a library's tensors."""
    plain = type("S", (T.Tensor,), {})

    class WithExtra(T.nn.Parameter):
        def __new__(cls, data, requires_grad=True, extra=3):
            new = super().__new__(cls, data, requires_grad)
            new.extra = extra
            return new

    return SimpleNamespace(plain=plain, WithExtra=WithExtra)


PARAMETER = {
    "no data": lambda T: T.nn.Parameter(),
    "None": lambda T: T.nn.Parameter(None),
    "keywords": lambda T: T.nn.Parameter(data=T.ones(2), requires_grad=False),
    "int without grad": lambda T: T.nn.Parameter(T.tensor([1]), requires_grad=False),
    "leaf of a computed tensor": lambda T: (
        [T.nn.Parameter(value(T, "computed"))]
        + [getattr(T.nn.Parameter(value(T, "computed")), f) for f in ("is_leaf", "grad_fn", "requires_grad")]
    ),
    "aliases": lambda T: (lambda t: (T.nn.Parameter(t).data_ptr() == t.data_ptr(), t.requires_grad))(T.ones(2)),
    "non-contiguous": lambda T: T.nn.Parameter(T.ones(2, 3).t()).stride(),
    "of a parameter": lambda T: (lambda p: (T.nn.Parameter(p) is p, T.nn.Parameter(p)))(T.nn.Parameter(T.ones(1))),
    "0-dim": lambda T: T.nn.Parameter(T.tensor(3.0)),
    "repr": lambda T: (repr(T.nn.Parameter(T.ones(2, 2))), str(T.nn.Parameter(T.tensor(1.0), False))),
    "repr half": lambda T: repr(T.nn.Parameter(T.ones(2).half())),
    "repr empty": lambda T: repr(T.nn.Parameter(T.ones(0, 3))),
    "classes": lambda T: (issubclass(T.nn.Parameter, T.Tensor), isinstance(T.nn.Parameter(), T.Tensor)),
    "not instances": lambda T: [
        isinstance(v, T.nn.Parameter) for v in (3, T.ones(1), T.ones(1, requires_grad=True), T.nn.Buffer())
    ],
    "results are tensors": lambda T: (
        lambda p: [type(v) for v in (p * 1, p.data, p.detach(), p.clone(), p[0], p.view(-1), -p)]
    )(T.nn.Parameter(T.ones(2))),
    "in-place keeps the class": lambda T: (
        lambda p: [type(v) for v in (p.data.add_(1), p.requires_grad_(False).mul_(2))]
    )(T.nn.Parameter(T.ones(2))),
    "hash": lambda T: (lambda p: (hash(p) == hash(p), {p: 1}[p]))(T.nn.Parameter(T.ones(2))),
    "deepcopy": lambda T: (lambda p: (copy.deepcopy(p), copy.deepcopy(p) is p))(T.nn.Parameter(T.ones(2))),
    "deepcopy memo": lambda T: (lambda p: (lambda two: two[0] is two[1])(copy.deepcopy([p, p])))(
        T.nn.Parameter(T.ones(2))
    ),
    "deepcopy no grad": lambda T: copy.deepcopy(T.nn.Parameter(T.ones(2), requires_grad=False)),
    "deepcopy strides": lambda T: copy.deepcopy(T.nn.Parameter(T.ones(2, 3).t())).stride(),
    "deepcopy drops attributes": lambda T: (
        lambda p: (setattr(p, "foo", 3), hasattr(copy.deepcopy(p), "foo"), copy.deepcopy(p).grad)
    )(T.nn.Parameter(T.ones(2))),
    "copy shares": lambda T: (lambda p: (copy.copy(p).data_ptr() == p.data_ptr(), copy.copy(p)))(
        T.nn.Parameter(T.ones(2))
    ),
    "pickle": lambda T: (
        lambda p: (setattr(p, "foo", 3), pickle.loads(pickle.dumps(p)), pickle.loads(pickle.dumps(p)).foo)
    )(T.nn.Parameter(T.ones(2))),
    "subclass": lambda T: (lambda p: (type(p), p.extra, type(copy.deepcopy(p)), copy.deepcopy(p).extra))(
        classes(T).WithExtra(T.ones(2), extra=7)
    ),
    "Buffer": lambda T: (T.nn.Buffer(T.ones(2)), type(T.nn.Buffer(T.ones(2))), T.nn.Buffer()),
    "Buffer instances": lambda T: [isinstance(v, T.nn.Buffer) for v in (T.nn.Buffer(), T.ones(1), 3, T.nn.Parameter())],
    "Buffer persistent": lambda T: (T.nn.Buffer(T.ones(1), persistent=False).persistent, T.nn.Buffer().persistent),
    "Buffer requires_grad": lambda T: T.nn.Buffer(T.ones(1, requires_grad=True)).requires_grad,
    "Buffer result": lambda T: isinstance(T.nn.Buffer(T.ones(1)) * 1, T.nn.Buffer),
}
PARAMETER_ERRORS = {
    "list": lambda T: T.nn.Parameter([1.0]),
    "float": lambda T: T.nn.Parameter(3.0),
    "int": lambda T: T.nn.Parameter(T.tensor([1])),
    "requires_grad int": lambda T: T.nn.Parameter(T.ones(1), requires_grad=3),
    "Buffer int": lambda T: T.nn.Buffer(3),
}


@pytest.mark.parametrize("name", PARAMETER)
def test_parameter(name):
    agree(PARAMETER[name])


@pytest.mark.parametrize("name", PARAMETER_ERRORS)
def test_parameter_errors(name):
    got = agree(PARAMETER_ERRORS[name], message=False)
    assert "must be" in got.error[1] or "Only Tensors of floating point" in got.error[1]


def test_parameter_of_a_subclass():
    def code(T):
        p = T.nn.Parameter(T.ones(2).as_subclass(classes(T).plain))
        m = T.nn.Module()
        m.p = p
        return type(p), isinstance(p, T.nn.Parameter), p.requires_grad, list(m._parameters)

    agree(code)


def test_save_modules_through_a_file_object():
    for T in BOTH.values():
        file = io.BytesIO()
        pickle.dump(tied(T), file)
        file.seek(0)
        assert pickle.load(file).a.requires_grad
