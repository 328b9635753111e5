"""state_dict and load_state_dict: every case runs with torch and with torchlike."""

import copy
from collections import OrderedDict

import pytest
from agreement import agree
from both import agree_error
from module_kit import kit

import torchlike


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


def test_a_function_is_a_hook_of_one_kind():
    def code(T):
        def hook(*given):
            return None

        m = T.nn.Linear(1, 1)
        m._register_state_dict_hook(hook)
        m.register_state_dict_post_hook(hook)
        m._register_state_dict_hook(hook)

    agree_error(code, "Cannot register the same function as the state dict post hook")


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
