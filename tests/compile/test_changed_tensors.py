"""Tensors that programs know are changed between calls, by each way there is: the next call sees it.

Programs do not look at the fields of tensors while ``CHANGED.mark`` is as it was, so each way must change it. Each
case runs in eager code and compiled, with calls enough before the change that nothing is looked at any more.
"""

import collections

import pytest
from compile_kit import data, numbers, same

import torchlike as torch
from torchlike import nn
from torchlike._core.tensor.mutation import CHANGED


def of_data(p, optimizer):
    p.data = torch.full(tuple(p.shape), 0.25)


def by_set(p, optimizer):
    with torch.no_grad():
        p.set_(torch.full(tuple(p.shape), 0.5))


def by_transpose(p, optimizer):
    p.data = p.data.clone().t().contiguous().t()


def by_squeeze(p, optimizer):
    with torch.no_grad():
        p.unsqueeze_(0).squeeze_(0)


def by_value(p, optimizer):
    with torch.no_grad():
        p.mul_(2)


def frozen(p, optimizer):
    p.requires_grad_(False)


def frozen_and_back(p, optimizer):
    p.requires_grad = False
    p.requires_grad = True


def hooked(p, optimizer):
    p.register_hook(lambda g: g * 3)


def moved_state(p, optimizer):
    kept = optimizer.state[p]
    kept["exp_avg"] = kept["exp_avg"] + 1


def data_of_state(p, optimizer):
    optimizer.state[p]["exp_avg_sq"].data = torch.full(tuple(p.shape), 0.125)


def set_state(p, optimizer):
    optimizer.state[p]["exp_avg"].set_(torch.full(tuple(p.shape), 0.125))


def changed_state(p, optimizer):
    optimizer.state[p]["exp_avg"].add_(1)


def counted_again(p, optimizer):
    optimizer.state[p]["step"].fill_(50.0)


def forgotten_state(p, optimizer):
    del optimizer.state[p]


def emptied_state(p, optimizer):
    optimizer.state[p].clear()


def state_of_another(p, optimizer):
    optimizer.state[p] = dict(optimizer.state[p])


def exchanged_state(p, optimizer):
    kept = optimizer.state[p]
    kept["exp_avg"], kept["exp_avg_sq"] = kept["exp_avg_sq"], kept["exp_avg"]


def loaded(p, optimizer):
    optimizer.load_state_dict(optimizer.state_dict())


def fewer_parameters(p, optimizer):
    optimizer.param_groups[0]["params"].pop()


def other_order(p, optimizer):
    optimizer.param_groups[0]["params"].reverse()


CHANGES = [f for f in list(globals().values()) if callable(f) and f.__module__ == __name__]
MANY = 24  # parameters, whose guards are loops; those of few are straight code


@pytest.mark.parametrize("count", [2, MANY])
@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_a_step_sees_what_has_changed(change, count):
    seen = []
    for wrap in (lambda f: f, torch.compile):
        params = [nn.Parameter(data(i, 2, 3)) for i in range(count)]
        optimizer = torch.optim.Adam(params, lr=0.1, eps=0.1)  # else rounding decides where gradients are nearly 0

        def step(x, params=params, optimizer=optimizer):
            optimizer.zero_grad()
            loss = sum([((p * x).sin() ** 2).sum() for p in params])
            if loss.requires_grad:
                loss.backward()
                optimizer.step()
            return loss.detach()

        run, trail = wrap(step), []
        for i in range(7):
            trail.append(numbers([run(data(50, 2, 3)), *params, *[p.grad for p in params]]))
            if i == 3:
                change(params[0], optimizer)
        seen.append(trail)
    same(*seen)


def children_exchanged(model):
    model._modules["0"], model._modules["1"] = model._modules["1"], model._modules["0"]


def children_in_another_order(model):
    first = model._modules.pop("0")
    model._modules["0"] = first


def a_child_more(model):
    model.append(nn.Sigmoid())


def a_child_less(model):
    del model[1]


def other_children(model):
    model._modules = collections.OrderedDict(list(model._modules.items())[:1])


def a_child_named_anew(model):
    model._modules["again"] = model._modules.pop("1")


MODULES = [children_exchanged, children_in_another_order, a_child_more, a_child_less, other_children,
           a_child_named_anew]  # fmt: skip


@pytest.mark.parametrize("change", MODULES, ids=lambda f: f.__name__)
def test_a_model_sees_other_children(change):
    seen = []
    for wrap in (lambda f: f, lambda f: torch.compile(f, fullgraph=True)):
        model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Softmax(-1))
        model[0].weight.data, model[0].bias.data = data(1, 3, 3), data(2, 3)
        run = wrap(lambda x, model=model: model(x))
        trail = [run(data(i, 2, 3)) for i in range(3)]
        change(model)
        seen.append(numbers([*trail, run(data(7, 2, 3)), run(data(8, 2, 3))]))
    same(*seen)


MARKED = {
    "data": lambda t: setattr(t, "data", torch.zeros(3)),
    "set": lambda t: t.set_(torch.zeros(3)),
    "resize": lambda t: t.resize_(2),
    "unsqueeze": lambda t: t.unsqueeze_(0),
    "requires_grad": lambda t: t.requires_grad_(),
    "history": lambda t: t.mul_(torch.ones(3, requires_grad=True)),
    "hook": lambda t: t.requires_grad_().register_hook(lambda g: None),
    "detach": lambda t: t.requires_grad_().detach_(),
    "transpose": lambda t: t.unsqueeze_(0).t_(),
}


@pytest.mark.parametrize("name", MARKED)
def test_each_change_of_a_tensor_leaves_a_mark(name):
    t = torch.ones(3)
    before = CHANGED.mark
    MARKED[name](t)
    assert CHANGED.mark is not before


def test_values_and_new_tensors_leave_no_mark():
    t, w = torch.ones(3), torch.ones(3, requires_grad=True)
    before = CHANGED.mark
    t.add_(1).mul_(w.detach()[1])
    (w * t).sum().backward()
    assert CHANGED.mark is before


# -- arguments of the kind of the call before ---------------------------------------------------------------


def kinds():
    """Arguments that follow each other, each of another kind than the one before."""
    a, b = data(1, 2, 2), data(2, 2, 2)
    leaf, made = data(3, 2, 2).requires_grad_(), data(4, 2, 2).requires_grad_() * 2
    with_grad = data(5, 2, 2).requires_grad_()
    with_grad.sum().backward()
    return {
        "plain": (a, b), "same": (a, a), "transposed": (a.t(), b), "view": (a[:], a), "leaf": (leaf, b),
        "made": (made, b), "grad": (with_grad, b), "double": (a.double(), b), "wide": (data(6, 2, 4)[:, :2], b),
        "broadcast": (data(6, 2, 1), b), "scalar": (torch.tensor(2.0), b), "number": (3.0, b), "ints": (a.long(), b),
        "parameter": (nn.Parameter(a.clone()), b), "other order": (b, leaf),
    }  # fmt: skip


@pytest.mark.parametrize("first", kinds())
def test_arguments_of_other_kinds_after_one(first):
    seen = []
    for wrap in (lambda f: f, torch.compile):
        run = wrap(lambda x, y: (x * 2 + y, (x * y).sum()))
        run = getattr(run, "forward", run)
        if wrap is torch.compile:
            run.own_limit = 100
        given, trail = kinds(), []
        for name in kinds():
            for _ in range(3):
                trail.append(numbers(run(*given[first])))
            trail.append(numbers(run(*given[name])))
        seen.append(trail)
    same(*seen)


def test_a_tensor_within_a_tuple_is_no_tensor():
    run = torch.compile(lambda x: x[0] * 2, fullgraph=True)
    x = data(0, 3, 3)
    for _ in range(3):
        assert run((x,)).shape == (3, 3)
        assert run(x).shape == (3,)
        assert run([x]).shape == (3, 3)


def test_modes_after_a_call():
    run = torch.compile(lambda x: x * 2)
    x = data(0, 3).requires_grad_()
    for _ in range(3):
        assert run(x).requires_grad
        with torch.no_grad():
            assert not run(x).requires_grad
        with torch.inference_mode():
            assert run(x).is_inference()
