"""What modules, nodes, storages, generators and the bases of views tell of themselves, and have changed since."""

import pytest
from compile_kit import numbers, same
from stale_kit import Stories, never_stale, of_state

import torchlike as torch
from torchlike import nn

STORIES = Stories()


class Text:
    length = 1

    def __repr__(self):
        return "u" * self.length


def _longer(m):
    m.hidden_size = 17


def _generator():
    return torch.Generator().manual_seed(3)


def _bytes():
    return torch.arange(4.0).untyped_storage()


def _with_node():
    return torch.ones(2, requires_grad=True) * 2


FORMS = {
    "str": str,
    "an_f_string": lambda m: f"{m}",
    "format": format,
    "a_format": "{}".format,
    "percent": lambda m: "%s" % m,  # noqa: UP031
    "a_method": lambda m: m.__str__(),
    "a_method_that_formats": lambda m: m.__format__(""),
    "in_a_map": lambda m: "".join(map(str, [m])),
    "in_a_list": lambda m: str([m]),
}
for name, form in FORMS.items():
    STORIES[f"text_of_a_module_by_{name}"] = of_state(
        lambda: nn.LSTM(2, 2), lambda x, s, form=form: x * len(form(s)), [_longer]
    )
    STORIES[f"text_of_an_object_by_{name}"] = of_state(
        Text, lambda x, s, form=form: x * len(form(s)), [lambda s: setattr(s, "length", 9)]
    )
OBJECTS = {
    "metadata_of_a_node": (
        _with_node, lambda x, y: x * len(y.grad_fn.metadata), lambda y: y.grad_fn.metadata.update(a=1),
    ),
    "a_byte": (_bytes, lambda x, s: x * s[7], lambda s: s.fill_(3)),
    "bytes": (_bytes, lambda x, s: x * sum(s.tolist()), lambda s: s.fill_(3)),
    "each_byte": (_bytes, lambda x, s: x * sum([v for v in s]), lambda s: s.fill_(3)),
    "whether_memory_is_shared": (_bytes, lambda x, s: x * (2 if s.resizable() else 1), lambda s: s.share_memory_()),
    "the_state_of_a_generator": (_generator, lambda x, g: x + g.get_state()[:2], lambda g: g.manual_seed(9)),
    "attributes_of_a_tensor": (
        lambda: torch.ones(2), lambda x, t: x * len(vars(t)), lambda t: setattr(t, "label", 3),
    ),
    "whether_it_keeps_its_gradient": (
        _with_node, lambda x, y: x * (2 if y.retains_grad else 1), lambda y: y.retain_grad(),
    ),
    "hooks_of_a_node": (
        _with_node, lambda x, y: x * (2 if y._backward_hooks else 1), lambda y: y.register_hook(lambda g: g),
    ),
    "where_its_memory_is": (lambda: torch.ones(2), lambda x, t: x * (t.__dlpack_device__()[0] + 1), lambda t: None),
    "a_view_of_a_view": (
        lambda: torch.arange(6.0).reshape(2, 3), lambda x, t: (x + 1, t.T), lambda t: t.set_(torch.ones(5, 1)),
    ),
    "a_view_of_new_numbers": (
        lambda: torch.arange(6.0).reshape(2, 3), lambda x, t: (x, t[0]), lambda t: setattr(t, "data", torch.ones(3, 2)),
    ),
    "a_view_whose_base_is_elsewhere": (
        lambda: torch.zeros(4).view(2, 2), lambda x, t: (x, t[0]), lambda t: setattr(t._base, "data", torch.ones(4)),
    ),
}  # fmt: skip
for name, (make, f, change) in OBJECTS.items():
    STORIES[name] = of_state(make, f, [change])


@pytest.mark.parametrize("name", STORIES)
def test_nothing_is_stale(name):
    never_stale(STORIES[name])


WEIGHT = torch.full((4,), 3.0)


def _cleared(base):
    base.requires_grad_()
    with torch.no_grad():
        base.zero_()


BASES = {
    "requires_grad": lambda b, w: b.requires_grad_(),
    "has_a_history": lambda b, w: b.mul_(w),
    "was_changed_by_its_view": lambda b, w: b[:2].mul_(w[:2]),
    "has_new_numbers_too": lambda b, w: _cleared(b),
}


@pytest.mark.parametrize("given", (False, True), ids=("outside", "argument"))
@pytest.mark.parametrize("first", (False, True), ids=("later", "at_once"))
@pytest.mark.parametrize("name", BASES)
def test_gradients_flow_to_the_base_of_a_view_that_has_changed(name, first, given):
    found = []
    for wrap in (lambda f: f, torch.compile):
        base, weight, x = torch.ones(4), WEIGHT.clone().requires_grad_(), torch.ones(2)
        view, told = base[:2], []
        if given:
            run = wrap(lambda x, t: (x * t).sum())
        else:
            run = wrap(lambda x, t: (x * view).sum())  # noqa: B023
        told = [] if first else [run(x, view).item(), run(x, view).item()]
        BASES[name](base, weight)
        for _ in range(2):
            y = run(x, view)
            told += [y.item(), y.requires_grad]
            if y.requires_grad:
                y.backward(retain_graph=True)
            told += [numbers(weight.grad), numbers(base.grad) if base.is_leaf else None]
        found.append(told)
    same(*found)


@pytest.mark.parametrize("by", (lambda t: t.retain_grad(), torch.Tensor.retain_grad), ids=("method", "class"))
def test_an_argument_keeps_its_gradient(by):
    found = []
    for wrap in (lambda f: f, torch.compile):
        weight, told = torch.ones(2, requires_grad=True), []
        run = wrap(lambda t: (by(t), (t * 3).sum())[1])
        for _ in range(3):
            y = weight * 2
            run(y).backward()
            told += [numbers(weight.grad), numbers(y.grad), y.retains_grad]
        found.append(told)
    same(*found)


def _backward_into(given):
    """A leaf in a container, replaced between calls, gets gradients; ``given`` chooses the argument."""

    def story(wrap):
        held = {"w": torch.ones(2, 3, requires_grad=True), "log": []}

        def f(x):
            (x * held["w"]).sum().backward()
            held["log"].append(len(held["log"]))
            return x + len(held["log"])

        run, found = wrap(f), []
        for i in range(7):
            if i in (2, 5):
                held["w"] = torch.full((2, 3), float(i), requires_grad=True)
            found += [run(given(held)).clone(), held["w"].grad.clone()]
        return found

    return story


GIVEN = {
    "a_tensor": lambda held: torch.ones(2, 3),
    "its_gradient": lambda held: torch.ones(2, 3) if held["w"].grad is None else held["w"].grad,
    "a_view_of_its_gradient": lambda held: torch.ones(3) if held["w"].grad is None else held["w"].grad[1],
}


@pytest.mark.parametrize("given", GIVEN)
def test_backward_into_a_leaf_that_is_replaced(given):
    never_stale(_backward_into(GIVEN[given]))
