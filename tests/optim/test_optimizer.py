"""The base class of optimizers: every case runs with torch and with torchlike."""

import copy
import pickle
import sys
import warnings
from functools import cache

import pytest
from agreement import agree

import torchlike


# -- Optimizer -------------------------------------------------------------------------------------------------
@cache
def counting(T):
    """An optimizer with state and a step that moves."""

    class Counting(T.optim.Optimizer):
        def __init__(self, params, lr=0.5, mom=0.0):
            super().__init__(params, {"lr": lr, "mom": mom})

        def step(self, closure=None):
            loss = None if closure is None else closure()
            with T.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is not None:
                            state = self.state[p]
                            state["step"] = state.get("step", 0) + 1
                            state["mean"] = p.grad * 2
                            p.add_(p.grad, alpha=-group["lr"])
            return loss

    return Counting


def param(T, n=2):
    return T.nn.Parameter(T.zeros(n))


def groups(optimizer):
    return [{k: len(v) if k == "params" else v for k, v in g.items()} for g in optimizer.param_groups]


PARAMS = {
    "empty": lambda T: [],
    "tensor": lambda T: param(T),
    "number": lambda T: 3,
    "string": lambda T: "ab",
    "ints": lambda T: [1],
    "None": lambda T: [None],
    "generator": lambda T: (p for p in [param(T), param(T)]),
    "set": lambda T: {param(T)},
    "groups": lambda T: [{"params": param(T), "lr": 3}, {"params": [param(T), param(T)]}],
    "group extra": lambda T: [{"params": [param(T)], "foo": 1}],
    "group generator": lambda T: [{"params": (p for p in [param(T)])}],
    "group set": lambda T: [{"params": {param(T)}}],
    "group without params": lambda T: [{"lr": 1}],
    "one dict": lambda T: {"params": param(T)},
    "computed": lambda T: [param(T) * 2],
    "twice": lambda T: [param(T)] * 2,
    "twice across": lambda T: [{"params": p} for p in [param(T)] * 2],
    "no grad": lambda T: [T.zeros(1)],
    "named": lambda T: [("a", param(T)), ("b", param(T))],
    "named group": lambda T: [{"params": [("a", param(T))]}],
    "named parameters": lambda T: T.nn.ParameterDict({"w": param(T)}).named_parameters(),
    "half named": lambda T: [("a", param(T)), param(T)],
    "half named last": lambda T: [param(T), ("a", param(T))],
    "named then not": lambda T: [{"params": [("a", param(T))]}, {"params": [param(T)]}],
    "not named then": lambda T: [{"params": [param(T)]}, {"params": [("a", param(T))]}],
}


@pytest.mark.parametrize("name", PARAMS)
def test_optimizer_params(name):
    agree(lambda T: (lambda o: (groups(o), repr(o), o.defaults))(counting(T)(PARAMS[name](T))))


def test_required_options():
    def code(T, group):
        required = sys.modules[f"{T.__name__}.optim.optimizer"].required
        return repr(required), groups(T.optim.Optimizer([{"params": param(T), **group}], {"lr": required}))

    agree(lambda T: code(T, {}))
    agree(lambda T: code(T, {"lr": 3}))


def test_add_param_group():
    def added(T, make_group):
        o = counting(T)([param(T)])
        try:
            o.add_param_group(make_group(T, o))
        finally:
            seen.append(groups(o))
        return seen.pop(), repr(o)

    seen = []
    agree(lambda T: added(T, lambda T, o: {"params": param(T), "lr": 5}))
    agree(lambda T: added(T, lambda T, o: {"params": [param(T)]}))
    agree(lambda T: added(T, lambda T, o: 3))
    agree(lambda T: added(T, lambda T, o: [param(T)]))
    agree(lambda T: added(T, lambda T, o: {"params": o.param_groups[0]["params"]}))
    agree(lambda T: added(T, lambda T, o: {"params": [("a", param(T))]}))
    agree(lambda T: added(T, lambda T, o: {"params": [param(T), 3]}))


def test_a_failed_group_is_left_alone():
    o, p = counting(torchlike)([param(torchlike)]), param(torchlike)
    group = {"params": (p, 3)}
    with pytest.raises(TypeError, match="optimizer can only optimize Tensors, but one of the params is int"):
        o.add_param_group(group)
    assert group == {"params": (p, 3)} and len(o.param_groups) == 1


def stepped(T, **options):
    p, q = param(T), param(T, 3)
    o = counting(T)([p, q], **options)
    p.grad = T.ones(2)
    o.step()
    return o


def test_optimizer_state():
    def code(T):
        o = stepped(T)
        fresh = counting(T)([param(T), param(T, 3)], lr=9)
        result = fresh.load_state_dict(o.state_dict())
        return type(o.state), o.state_dict(), result, fresh.state_dict(), o.step(lambda: 5), o.param_groups[0]["params"]

    agree(code)


def loaded(T, change, **options):
    state = stepped(T).state_dict()
    o = counting(T)([param(T), param(T, 3)], **options)
    return o.load_state_dict(change(T, state)), o.state_dict(), groups(o)


CHANGES = {
    "same": lambda T, s: s,
    "empty": lambda T, s: {},
    "no state": lambda T, s: {"param_groups": s["param_groups"]},
    "number": lambda T, s: 3,
    "groups": lambda T, s: {**s, "param_groups": s["param_groups"] * 2},
    "size": lambda T, s: {**s, "param_groups": [{"params": [0]}]},
    "unknown keys": lambda T, s: {**s, "state": {**s["state"], 7: {"x": 1}, "k": 4}},
    "more options": lambda T, s: {**s, "param_groups": [{**s["param_groups"][0], "new": 1}]},
    "containers": lambda T, s: {
        **s,
        "state": {0: {"a": [T.ones(2).double()], "b": {"c": T.ones(2).half()}, "t": (1, T.ones(1))}},
    },
    "steps": lambda T, s: {**s, "state": {0: {"step": T.tensor(3.0).double(), "n": T.tensor(3), "z": None}}},
}


@pytest.mark.parametrize("name", CHANGES)
def test_load_optimizer(name):
    agree(lambda T: loaded(T, CHANGES[name]))


def test_load_casts_to_the_parameter():
    def code(T):
        state = stepped(T).state_dict()
        state["state"][0].update(step=T.tensor(3.0).double(), count=T.tensor(3))
        o = counting(T)([param(T).data.half().requires_grad_(), param(T, 3)])
        o.load_state_dict(state)
        return o.state_dict()

    agree(code)


def test_load_with_names():
    def code(T, old, new):
        def named(names):
            return counting(T)([(n, param(T)) for n in names] if names else [param(T), param(T)])

        o = named(new)
        o.load_state_dict(named(old).state_dict())
        return groups(o), o.state_dict(), repr(o)

    for old in ("ab", ""):
        for new in ("xy", ""):
            agree(lambda T, old=old, new=new: code(T, old, new))


def hook_log(T):
    seen, module = [], sys.modules[f"{T.__name__}.optim.optimizer"]

    def log(name):
        return lambda *args: seen.append((name, len(args), [len(a) for a in args if isinstance(a, (tuple, dict))]))

    o = stepped(T)
    for when in (
        "step_pre",
        "step_post",
        "state_dict_pre",
        "state_dict_post",
        "load_state_dict_pre",
        "load_state_dict_post",
    ):
        getattr(o, f"register_{when}_hook")(log(when))
    o.register_state_dict_pre_hook(log("first"), prepend=True)
    with module.register_optimizer_step_pre_hook(log("global pre")):
        with module.register_optimizer_step_post_hook(log("global post")):
            result = o.step(lambda: 1), o.step(closure=lambda: 2)
    o.step()
    o.load_state_dict(o.state_dict())
    return seen, result


def with_hook(T, register, hook, act):
    o = stepped(T)
    with getattr(o, register)(hook):
        return act(o)


def test_optimizer_hooks():
    agree(hook_log)
    agree(
        lambda T: with_hook(
            T, "register_step_pre_hook", lambda o, a, k: ((o, lambda: 77), {}), lambda o: o.step(lambda: 1)
        )
    )
    agree(lambda T: with_hook(T, "register_step_post_hook", lambda o, a, k: 3, lambda o: o.step(lambda: 1)))
    agree(lambda T: with_hook(T, "register_state_dict_post_hook", lambda o, s: {"q": 1}, lambda o: o.state_dict()))
    agree(
        lambda T: with_hook(
            T, "register_load_state_dict_pre_hook", lambda o, s: o.state_dict(), lambda o: o.load_state_dict({})
        )
    )
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3"):
        with_hook(torchlike, "register_step_pre_hook", lambda o, a, k: 3, lambda o: o.step())


def test_hooks_run_once_where_a_step_calls_the_one_it_overrides():
    class Inner(counting(torchlike)):
        def step(self, closure=None):
            return super().step(closure)

    calls = []
    stepped(torchlike)
    o = Inner([param(torchlike)])
    o.register_step_pre_hook(lambda *a: calls.append(1))
    assert o.step(lambda: 4) == 4 and len(calls) == 1


@pytest.mark.parametrize("set_to_none", [True, False])
def test_optimizer_zero_grad(set_to_none):
    def code(T):
        o = stepped(T)
        p = o.param_groups[0]["params"][0]
        grad = p.grad
        o.zero_grad(set_to_none)
        return p.grad, p.grad is grad

    agree(code)


def test_zero_grad_of_a_wrapper_that_never_ran_init():
    def code(T):
        class Wrapper(T.optim.Optimizer):
            def __init__(self, inner):
                self.param_groups, self.defaults = inner.param_groups, inner.defaults

        o = stepped(T)
        Wrapper(o).zero_grad()
        return o.param_groups[0]["params"][0].grad

    agree(code)


def test_optimizer_copies():
    def code(T):
        o = stepped(T)
        again = copy.deepcopy(o)
        again.step()
        return groups(again), list(o.__getstate__()), again.state_dict(), o.state_dict()

    agree(code)
    agree(lambda T: T.optim.Optimizer([param(T)], {}).step(), message=False)
    agree(lambda T: T.optim.Optimizer([param(T)]))


def test_pickled_optimizer():
    o = Pickled([param(torchlike)], {"lr": 1.0})
    o.param_groups[0]["params"][0].grad = torchlike.ones(2)
    again = pickle.loads(pickle.dumps(o))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert again.step() == "stepped" and repr(again) == repr(o)


class Pickled(torchlike.optim.Optimizer):
    def step(self, closure=None):
        return "stepped"
