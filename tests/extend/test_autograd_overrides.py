"""``autograd.grad``, ``autograd.backward``, ``Tensor.backward`` and ``nn.init`` before ``__torch_function__``."""

import pytest
import torch
from both import agree, agree_error

import torchlike


def short(t, x):
    """What a handler was given, in words."""
    if isinstance(x, t.Tensor) or hasattr(x, "__torch_function__"):
        return type(x).__name__
    if isinstance(x, t.autograd.graph.GradientEdge):
        return "edge"
    if isinstance(x, list | tuple):
        return type(x)([short(t, y) for y in x])
    return {k: short(t, v) for k, v in x.items()} if isinstance(x, dict) else x


def record(t, seen, func, types, args, kwargs):
    name = next((n for n in ("grad", "backward") if func is getattr(t.autograd, n)), t.overrides.resolve_name(func))
    seen.append([name, [k.__name__ for k in types], short(t, args), short(t, kwargs)])


def classes(t, seen):
    """A subclass that goes on, a duck that answers, and a mode that goes on."""

    class Sub(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            record(t, seen, func, types, args, kwargs)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            record(t, seen, func, types, args, kwargs)
            return "quack"

    class Mode(t.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            record(t, seen, func, types, args, kwargs)
            return func(*args, **(kwargs or {}))

    return Sub, Duck, Mode


def told(code):
    """What handlers are told while ``code`` runs, and what it gives."""

    def run(t):
        seen: list = []
        Sub, Duck, Mode = classes(t, seen)
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = (x * x).sum()
        s = t.tensor([1.0, 2.0]).as_subclass(Sub).requires_grad_()
        z = (s * s).sum()
        edge = t.autograd.graph.get_gradient_edge
        names = {"t": t, "g": t.autograd.grad, "b": t.autograd.backward, "x": x, "y": y, "s": s, "z": z, "Sub": Sub,
                 "Duck": Duck, "one": t.tensor(1.0), "ex": edge(x), "ey": edge(y), "init": t.nn.init}  # fmt: skip
        seen.clear()
        if code.startswith("mode: "):
            with Mode():
                result = eval(code.removeprefix("mode: "), names)
        else:
            result = eval(code, names)
        told = list(seen)
        kinds = short(t, result)
        plain = [r.as_subclass(t.Tensor) for r in (result if isinstance(result, tuple) else ()) if hasattr(r, "shape")]
        return told, kinds, plain, None if x.grad is None else x.grad.as_subclass(t.Tensor)

    return run


@pytest.mark.parametrize(
    "code",
    """
g(z, s)
g([z], (s,), create_graph=True)
g(z, {'a': s})
g(y.as_subclass(Sub), x)
g([y, y.as_subclass(Sub)], iter([x]))
g(y, x, materialize_grads=True)
g(Duck(), one)
g(one, Duck())
g((one, Duck()), [Duck()], (None, Duck()), only_inputs=False)
g(grad_outputs=None, inputs=Duck(), outputs=Duck())
g([one, Duck()], [3, 'a'])
g([None], Duck())
b(z)
b([z, z], [one, one])
b(Duck())
b([Duck()], create_graph=True)
b(y, inputs=[Duck()])
b(y, inputs={'a': Duck()})
b(y, inputs=[x.as_subclass(Sub)])
z.backward()
z.backward(retain_graph=True, inputs=[s])
y.backward(inputs=[Duck()])
t.Tensor.backward(Duck())
mode: g(y, x)
mode: g(ey, x)
mode: g(y, ex)
mode: g([y], {'a': ex, 'b': x})
mode: g(y, x, is_grads_batched=True, grad_outputs=one.expand(3))
mode: b(y)
mode: b([y], [one])
mode: b(y, inputs=x, retain_graph=True)
mode: b(y, inputs=ex)
mode: b([ey, y], retain_graph=True)
mode: b([])
mode: y.backward()
mode: y.backward(inputs=x)
init.uniform_(s.detach())
init.uniform_(Duck(), 1, b=2.0)
init.normal_(tensor=Duck(), std=3)
init.constant_(val=3, tensor=Duck())
init.kaiming_uniform_(Duck(), 1, mode='fan_out')
mode: init.uniform_(t.ones(2))
mode: init.normal_(t.ones(2), 1)
mode: init.constant_(t.ones(2), 3.0)
mode: init.kaiming_uniform_(t.ones(2, 2))
mode: x.detach().zero_().dim()
mode: x.detach().exp_().numel()
mode: x.sum().neg()
""".strip().splitlines(),
)
@pytest.mark.filterwarnings("ignore:Defining your `__torch_function__`")
def test_told(code):
    if "init." in code and "Duck" not in code and "constant" not in code:
        ours, theirs = (told(code)(t)[:2] for t in (torchlike, torch))  # the numbers are random
        assert ours == theirs
    else:
        agree(told(code))


@pytest.mark.parametrize("name", ["xavier_uniform_", "xavier_normal_", "kaiming_normal_"])
def test_what_the_other_initialisations_fill_with(name):
    def run(t):
        seen: list = []
        _, _, Mode = classes(t, seen)
        with Mode():
            getattr(t.nn.init, name)(t.ones(2, 3))
        return [line for line in seen if line[0] in ("torch.Tensor.uniform_", "torch.Tensor.normal_")]

    agree(run)


@pytest.mark.parametrize(
    "code, match",
    [
        ("b(one, Duck())", "not iterable"),
        ("b(y, inputs=Duck())", "not iterable"),
        ("b(Duck(), inputs=[])", "`inputs` argument to `backward\\(\\)` cannot be empty"),
        ("g(Duck(), [])", "`inputs` argument to `grad\\(\\)` cannot be empty"),
        ("g([Duck()], Duck(), allow_unused=False, materialize_grads=True)", "Expected allow_unused to be True"),
        ("mode: g([], [])", "cannot be empty"),
        ("g(y, {'a': Duck()})", "zip\\(\\) argument 2 is longer"),
    ],
)
def test_errors(code, match):
    agree_error(told(code), match)


@pytest.mark.parametrize("name", ["grad", "backward"])
def test_refused(name):
    def run(t):
        class Refusing:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return NotImplemented

        getattr(t.autograd, name)(*[Refusing()] * (1 + (name == "grad")))

    agree_error(run, f"no implementation found for 'torch.autograd.{name}' on types that implement __torch_function__")


def test_nothing_overrides_where_subclasses_are_off():
    def run(t):
        _, Duck, _ = classes(t, [])
        with t._C.DisableTorchFunctionSubclass():
            t.autograd.backward([Duck()])

    agree_error(run, "Expected output to be a torch.Tensor")


def test_a_mode_asked_about_nothing():
    def run(t):
        ask = t.overrides
        with t.overrides.BaseTorchFunctionMode():
            return [
                ask.has_torch_function(()), ask.has_torch_function([]), ask.has_torch_function((1,)),
                ask.has_torch_function_variadic(), ask.has_torch_function_unary(3),
            ]  # fmt: skip

    agree(run)
