"""As test_guards: modules, parameters, hooks and modes that change between calls; the warning that names what did."""

import pytest
from compile_kit import data, sequence
from guard_kit import flips, put, x2

import torchlike as torch
from torchlike import nn

# -- tensors, modules, hooks -----------------------------------------------------------------------------------


def layers():
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    return model, model


def called():
    model, _ = layers()
    return lambda x: model(x), model


def batch_norm():
    model = nn.BatchNorm1d(2)
    return lambda x: model(x.expand(3, 2) * torch.arange(3.0)[:, None]), model


HANDLES: list = []


def hooked(register):
    return lambda model: HANDLES.append(register(model))


def unhook(model):
    HANDLES.pop().remove()


MODULES = {
    "submodule": (layers, put(1, nn.ReLU()), put(1, nn.Tanh()), 3),
    "appended": (layers, lambda m: m.append(nn.Sigmoid()), lambda m: m.pop(-1), 2),
    "no bias": (layers, lambda m: setattr(m[0], "bias", None), None, 2),
    "forward": (layers, lambda m: setattr(m[0], "forward", lambda x: x * 7), lambda m: delattr(m[0], "forward"), 2),
    "training": (batch_norm, lambda m: m.eval(), lambda m: m.train(), 2),
    "buffer": (batch_norm, lambda m: (m.eval(), setattr(m, "running_mean", torch.ones(2))), None, 2),
    "frozen": (layers, lambda m: m[0].requires_grad_(False), lambda m: m[0].requires_grad_(True), 2),
    "frozen weight": (layers, lambda m: m[0].weight.requires_grad_(False), None, 2),
    "tied": (
        layers,
        lambda m: setattr(m[0], "weight", m.register_parameter("w", nn.Parameter(torch.ones(2, 2))) or m.w),
        None,
        2,
    ),
    "parameter": (layers, lambda m: setattr(m[0], "weight", nn.Parameter(torch.ones(2, 2))), None, 2),
    "hook": (layers, hooked(lambda m: m[0].register_forward_hook(lambda m, i, out: out * 3)), unhook, 2),
    "pre hook": (layers, hooked(lambda m: m.register_forward_pre_hook(lambda m, i: (i[0] * 3,))), unhook, 2),
    "global hook": (
        called,
        hooked(lambda m: nn.modules.module.register_module_forward_hook(lambda m, i, out: out * 3)),
        unhook,
        2,
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    *what, programs = MODULES[name]
    flips(*what, programs=programs)


def training_with(register):
    """A step; afterwards hooks that ``register`` puts on a module or a parameter."""

    def make(wrap):
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))

        def step(x):
            model.zero_grad()
            model(x).sum().backward()
            return [p.grad for p in model.parameters()]

        run = wrap(step)
        out = [run(x2())]
        handle = register(model)
        out += [run(x2()), run(x2(2))]
        handle.remove()
        return out + [run(x2())]

    return make


def times_five(p):
    p.grad.mul_(5)


HOOKS = {
    "tensor": lambda m: m[0].weight.register_hook(lambda g: g * 5),
    "post accumulate": lambda m: m[0].weight.register_post_accumulate_grad_hook(times_five),
    "full backward": lambda m: m[1].register_full_backward_hook(lambda m, gi, go: tuple(g * 5 for g in gi)),
    "full backward pre": lambda m: m[1].register_full_backward_pre_hook(lambda m, go: tuple(g * 5 for g in go)),
    "forward": lambda m: m[1].register_forward_hook(lambda m, i, out: out * 5),
}


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_come_and_go(name):
    sequence(training_with(HOOKS[name]))


def test_tensors_in_containers():
    def script(wrap):
        held = {"w": x2(2), "more": [x2(1)]}
        run = wrap(lambda x: x * held["w"] + sum(held["more"]))
        out = [run(x2())]
        held["w"] = x2(3)
        out += [run(x2())]
        held["w"].mul_(2)
        held["more"].append(x2(5))
        return out + [run(x2())]

    sequence(script)


# -- modes -----------------------------------------------------------------------------------------------------


def within(context):
    """A function called outside, inside and outside of a context."""

    def script(wrap):
        w = x2(3).requires_grad_()

        def f(x):
            out = w * x
            return out, out.requires_grad, torch.is_grad_enabled(), torch.get_float32_matmul_precision()

        run = wrap(f)
        seen = [run(x2())]
        with context():
            seen += [run(x2())]
            seen[-1][0].sum().backward() if seen[-1][1] else None
        return seen + [run(x2()), w.grad]

    return script


class Precision:
    def __enter__(self):
        torch.set_float32_matmul_precision("medium")

    def __exit__(self, *exc):
        torch.set_float32_matmul_precision("highest")


MODES = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "saved tensor hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t),
    "precision": Precision,
}


@pytest.mark.parametrize("name", MODES)
def test_modes(name):
    sequence(within(MODES[name]))


def test_the_default_dtype():
    def script(wrap):
        run = wrap(lambda: torch.ones(2) * 2)
        out = [run()]
        torch.set_default_dtype(torch.float64)
        try:
            return out + [run()]
        finally:
            torch.set_default_dtype(torch.float32)

    sequence(script)


# -- one module in several places --------------------------------------------------------------------------------

AGAIN = {
    "another in one of its places": lambda m: m.__setitem__(3, nn.Sigmoid()),
    "another in its first place": lambda m: m.__setitem__(1, nn.Sigmoid()),
    "one like it": lambda m: m.__setitem__(3, nn.Tanh()),
    "exchanged layers": lambda m: m._modules.update({"0": m[2], "2": m[0]}),
    "a hook of it": lambda m: m[1].register_forward_hook(lambda *a: a[2] * 2),
    "a forward of its own": lambda m: setattr(m[3], "forward", lambda x: x * 3),
    "another weight": lambda m: m[2]._parameters.update(weight=nn.Parameter(torch.ones(2, 2))),
    "a weight beside the parameters": lambda m: m[2].__dict__.update(weight=torch.ones(2, 2)),
    "no weight among them": lambda m: m[2].__dict__.update(weight=m[2]._parameters.pop("weight") * 2),
    "other attributes": lambda m: setattr(m[2], "__dict__", vars(nn.Linear(2, 2))),
    "other hooks, as empty": lambda m: (
        setattr(m[1], "_forward_hooks", (h := {})),
        h.setdefault(0, lambda *a: a[2] + 1),
    ),
}


@pytest.mark.parametrize("change", AGAIN)
def test_a_module_that_is_there_twice(change):
    torch.manual_seed(0)
    act = nn.Tanh()
    model = nn.Sequential(nn.Linear(2, 2), act, nn.Linear(2, 2), act)
    f = torch.compile(lambda x: model(x) + 1)
    for _ in range(3):
        f(x2())
    AGAIN[change](model)
    for _ in range(2):
        assert torch.allclose(f(x2()), model(x2()) + 1)


# -- what is said of it ----------------------------------------------------------------------------------------


def warned(f, *calls):
    with pytest.warns(UserWarning, match="compiled 2 times; last, .* changed") as shown:
        for call in calls:
            call()
    assert shown[0].filename == __file__
    return str(shown[0].message)


def test_the_warning_names_what_changed():
    scale = ["1"]
    f = torch.compile(lambda x, k=1: x * float(scale[0]) * k, recompile_limit=2)

    def changed():
        scale[0] += "1"
        f(x2())

    assert "scale[0] changed" in warned(f, lambda: f(x2()), changed, changed)
    SAID = {
        "argument 0 (float32[2] before, float32[3] now)": ([x2(), torch.ones(3)], {}),
        "argument 0 (float32[2] before, float64[2] now)": ([x2(), x2().double()], {}),
        "argument 0 (float32[2] before, float32[2], requires_grad now)": ([x2(), x2().requires_grad_()], {}),
        "argument 0.a.1 (2 before, 3 now)": ([{"a": [x2(), 2]}, {"a": [x2(), 3]}], {}),
        "the structure of the arguments": ([[x2()], (x2(),)], {}),
    }
    for said, (arguments, _) in SAID.items():
        f = torch.compile(lambda x: x[0] * 1 if isinstance(x, list | tuple) else x, recompile_limit=2)
        first, last = arguments
        calls = [lambda f=f: f(torch.ones(7, 7)), lambda f=f, a=first: f(a), lambda f=f, a=last: f(a)]
        assert said in warned(f, *calls)
    f = torch.compile(lambda x: x, recompile_limit=2)

    def without_grad():
        with torch.no_grad():
            f(x2())

    assert "the grad mode changed" in warned(f, lambda: f(data(0, 3)), lambda: f(x2()), without_grad)
