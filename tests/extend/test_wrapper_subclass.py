"""Wrapper subclasses with __torch_dispatch__: autograd outside, computation inside; views, in-place, optimizers."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
from both import agree, agree_error, attempt
from dispatch_kit import dispatch, log_mode, unwrapped, wrapper_class

import torchlike


def made(t, requires_grad=True, log=None):
    """A wrapper around 2 x 3 ones, which may require grad."""
    return wrapper_class(t, log)(t.ones(2, 3)).requires_grad_(requires_grad)


def kinds(*values):
    return [unwrapped(v) for v in values]


def metadata(t):
    w = made(t)
    return (
        w.shape, w.dtype, str(w.device), w.stride(), w.requires_grad, w.is_leaf, w.ndim, w.numel(), w.is_contiguous(),
        w.is_meta, w.is_cpu, w.element_size(), w.data_ptr(), str(w.layout), w.storage_offset(), len(w), repr(w),
    )  # fmt: skip


def history(t):
    log = []
    w = made(t, log=log)
    y = (w * 2).view(6)
    facts = y.grad_fn.name(), y._is_view(), y.requires_grad, w.is_leaf, type(y).__name__
    y.sum().backward()
    return facts, kinds(w.grad), log


def accumulation(t):
    w = made(t)
    for _ in range(3):
        (w * 2).sum().backward()
    return kinds(w.grad), type(w.grad).__name__


def no_grad(t):
    w = made(t)
    with t.no_grad():
        y = w * 2
        w.add_(1)
    return y.requires_grad, y.grad_fn, w._version, kinds(y, w)


def detached(t):
    w = made(t)
    d = w.detach()
    return type(d).__name__, d.requires_grad, kinds(d, w.data), w.data.requires_grad


def write_to_view(t):
    w = made(t)
    y = w * 2
    y[0] = 1
    y[1].mul_(3)
    name = y.grad_fn.name()
    y.sum().backward()
    return name, kinds(y, w.grad)


def mixed(t):
    w, x = made(t), t.ones(3, requires_grad=True)
    y = (w * x).exp().sum()
    y.backward()
    return kinds(y, x.grad, w.grad), type(x.grad).__name__


def through_a_module(t):
    w = made(t)
    lin = t.nn.Linear(3, 2)
    with t.no_grad():
        lin.weight.fill_(0.5)
        lin.bias.zero_()
    out = t.nn.functional.gelu(lin(w)).softmax(-1)[:, 0].sum()
    out.backward()
    return kinds(out, lin.weight.grad, lin.bias.grad, w.grad)


def double(t):
    w = made(t)
    g = t.autograd.grad((w**3).sum(), w, create_graph=True)[0]
    h = t.autograd.grad(g.sum(), w)[0]
    return kinds(g, h), g.requires_grad


def functions(t):
    w = made(t, False)
    m = w.max(dim=1)
    return kinds(
        t.cat([w, w]), t.stack([w, w]), w.t(), w[0], w[:, 1:], w.to(t.float64), w.clone(), w > 1, w.sum(), w + w, 2 - w,
        w @ t.ones(3, 2), t.zeros_like(w), w.new_zeros(2), w.new_full((2,), 3.0), t.where(w > 0, w, 0.0),
        w.unsqueeze(0),
        t.nn.functional.relu(w), w.expand(2, 2, 3), *w.split(1), *w.unbind(0), m.values, m.indices, w.flatten(),
    ), type(m).__name__, w.sum().item(), bool(w.sum() > 3)  # fmt: skip


def custom_function(t):
    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x * 4

    w = made(t)
    y = Double.apply(w)
    y.sum().backward()
    return type(y).__name__, kinds(w.grad)


def hooks(t):
    got = []
    w = made(t)
    y = w * 2
    y.register_hook(lambda g: got.append(type(g).__name__))
    w.register_hook(lambda g: g * 10)
    y.retain_grad()
    y.sum().backward()
    return got, kinds(w.grad, y.grad)


def under_a_mode(t):
    """A mode sees the call on the wrapper; the wrapper's own calls are below it and are seen too."""
    w = made(t, False)
    with log_mode(t, arguments=False) as log:
        w * 2
    return [line.strip() for line in log.lines]


def deeper(t):
    outer, inner = wrapper_class(t), wrapper_class(t)
    w = outer(inner(t.ones(2))).requires_grad_()
    (w * 3).sum().backward()
    return type(w.grad.inner).__name__, w.grad.inner.inner


def disabled(t):
    class Plain(t.Tensor):
        __torch_dispatch__ = t._C._disabled_torch_dispatch_impl

    x = t.Tensor._make_subclass(Plain, t.ones(2))
    return (x + 1).tolist()


def of_subclasses(t):
    """A subclass is asked before its base; NotImplemented passes the call on."""
    asked = []

    class Base(t.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            asked.append((cls.__name__, [x.__name__ for x in types]))
            return NotImplemented if cls is not Base else t.zeros(1)

    class Derived(Base):
        pass

    def make(cls):
        return t.Tensor._make_wrapper_subclass(cls, (2,))

    return t.add(make(Base), make(Derived)), asked


@pytest.mark.parametrize(
    "f",
    [metadata, history, accumulation, no_grad, detached, write_to_view, mixed, through_a_module, double, functions,
     custom_function, hooks, under_a_mode, deeper, disabled, of_subclasses],
)  # fmt: skip
def test_as_in_pytorch(f):
    agree(f)


@pytest.mark.parametrize("name, options", [("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {})])
def test_optimizers_step_what_is_wrapped(name, options):
    def run(t):
        w, b = made(t), t.ones(3, requires_grad=True)
        opt = getattr(t.optim, name)([w, b], lr=0.1, **options)
        for _ in range(3):
            opt.zero_grad()
            ((w * b) ** 2).sum().backward()
            opt.step()
        return kinds(w.detach(), b)

    agree(run)


def test_values_of_a_wrapper_are_not_to_be_had():
    agree_error(lambda t: made(t, False).numpy(), ".numpy.. is not supported for tensor subclasses")
    agree_error(lambda t: made(t, False).tolist(), ".tolist.. is not supported for tensor subclasses, got Wrapper")


def make(t, cls, *args, **kwargs):
    return t.Tensor._make_wrapper_subclass(cls(t), *args, **kwargs)


def test_errors_of_making_one():
    agree_error(lambda t: make(t, lambda t: t.Tensor, (2,)), "Tensor must define __torch_dispatch__")
    agree_error(lambda t: make(t, lambda t: int, (2,)), "class that does not inherit from Tensor")
    agree_error(lambda t: make(t, wrapper_class, 2), "argument 'size' .position 2. must be tuple of ints, not int")
    agree_error(lambda t: make(t, wrapper_class, (2,), strides=(1, 1)), r"sizes \(1\) must match .* strides \(2\)")
    agree_error(lambda t: make(t, wrapper_class, (2,), dtype=t.int64, requires_grad=True), "floating point")


@pytest.mark.parametrize("make", ["_make_subclass", "as_subclass", "call"])
def test_one_is_no_instance_of_another_class(make):
    """Its ``__torch_dispatch__`` says what a view of it is, and that must be one of the class already."""

    def run(t, cls):
        x = made(t, False)
        how = {"_make_subclass": lambda: t.Tensor._make_subclass(cls, x), "as_subclass": lambda: x.as_subclass(cls)}
        return type(how[make]() if make in how else cls(x)).__name__

    agree_error(lambda t: run(t, type("Plain", (t.Tensor,), {})), "Tensor subclass Plain but .* of type Wrapper")
    if make != "call":
        agree(lambda t: run(t, t.Tensor))


def not_implemented(t):
    class Refuses(t.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    t.exp(t.Tensor._make_wrapper_subclass(Refuses, (2,)))


def test_nobody_implements_it():
    agree_error(
        not_implemented, "Multiple dispatch failed for 'torch._ops.aten.exp.default'.*tensor subclass <class .*Ref"
    )


def test_return_and_correct_aliasing():
    def run(t):
        w = made(t, False)
        v = w.view(6)
        w.add_(1)
        return w.add_(1) is w, v._is_view(), w._version, v._version, t.add(w, w, out=w) is w

    agree(run)


def in_place(t, correct):
    """A wrapper whose class does in-place calls on what it wraps, and follows them if ``correct``."""

    class Wrapper(t.Tensor):
        @staticmethod
        def __new__(cls, x, grad=False):
            options = {"strides": x.stride(), "dtype": x.dtype, "requires_grad": grad}
            new = t.Tensor._make_wrapper_subclass(cls, x.shape, **options)
            new.inner = x
            return new

        def __init__(self, x, grad=False):
            pass

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            out = func(*[a.inner if isinstance(a, cls) else a for a in args], **(kwargs or {}))
            out = cls(out) if isinstance(out, t.Tensor) else out
            if correct:
                return dispatch(t).return_and_correct_aliasing(func, args, kwargs or {}, out)
            return args[0] if t.Tag.inplace in func.tags else out

    return Wrapper


RESHAPES = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, -1),
    "squeeze_": lambda x: x.squeeze_(),
    "squeeze_ one": lambda x: x.squeeze_(0),
    "squeeze_ some": lambda x: x.squeeze_((0,)),
    "unsqueeze_": lambda x: x.unsqueeze_(-1),
    "as_strided_": lambda x: x.as_strided_((3,), (1,)),
    "several": lambda x: x.t_().unsqueeze_(0).squeeze_(),
    "wrong dimension": lambda x: x.transpose_(0, 5),
    "resize_": lambda x: x.resize_(1, 3),
}


@pytest.mark.parametrize("correct", [False, True], ids=["left", "followed"])
@pytest.mark.parametrize("grad", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("name", RESHAPES)
def test_in_place_views(name, grad, correct):
    def facts(x):
        return tuple(x.shape), x.stride(), tuple(x.inner.shape), x._version, x.requires_grad, type(x.grad_fn).__name__

    def run(t):
        leaf = in_place(t, correct)(t.ones(1, 3), grad)
        x = leaf * 1 if grad else leaf
        out = attempt(lambda: RESHAPES[name](x))
        return facts(x), out is x or type(out).__name__

    agree(run)


def test_gradients_through_an_in_place_view():
    def run(t):
        leaf = in_place(t, True)(t.arange(6.0).reshape(2, 3), True)
        x = (leaf * 2).t_()
        (x * 3).sum().backward()
        return tuple(leaf.grad.shape), leaf.grad.inner

    agree(run)


def test_in_place_views_of_a_leaf():
    agree_error(lambda t: in_place(t, True)(t.ones(1, 3), True).t_(), "a leaf Variable that requires grad")


def test_moves():
    def run(t):
        w = made(t)
        m = w.to("meta")
        return type(m).__name__, str(m.device), m.inner.is_meta, m.requires_grad, m.grad_fn.name()

    agree(run)


def flattening(t):
    """A wrapper that can be taken apart."""
    base = wrapper_class(t)

    class Flat(base):
        def __tensor_flatten__(self):
            return ["inner"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Flat(inner["inner"])

    return Flat(t.ones(2))


def test_traceable_wrappers():
    def run(t):
        d, f = dispatch(t), flattening(t)
        moved = d.transform_subclass(f, lambda name, x: x * 5)
        facts = [d.is_traceable_wrapper_subclass(x) for x in (f, made(t), t.ones(1), 3)]
        return moved.inner, type(moved).__name__, facts, d.is_traceable_wrapper_subclass_type(type(f))

    agree(run)


def test_plain_backwards_are_not_slowed_by_wrappers_that_are_gone():
    import gc

    from torchlike._core.autograd import engine

    w = made(torchlike)
    (w * 2).sum().backward()
    assert engine.kind_of_task()[0] is not engine._Task
    del w
    gc.collect()
    assert engine.kind_of_task()[0] is engine._Task


def test_policies():
    def make(t, **options):
        return t.Tensor._make_wrapper_subclass(wrapper_class(t), (2,), **options)

    agree_error(lambda t: make(t, dispatch_sizes_strides_policy="both"), "Unknown sizes_strides_policy: both; expected")


def asked(t, answer, wrapper=True, **options):
    """(an instance whose class gives ``answer`` to every call, the names of these)."""
    calls = []

    class Asked(t.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            calls.append(str(func))
            return answer(t)

    if wrapper:
        return t.Tensor._make_wrapper_subclass(Asked, (2,), **options), calls
    return t.Tensor._make_subclass(Asked, t.ones(2), False, **options), calls


DEVICES = {
    "meta": lambda t: t.device("meta"),
    "a name": lambda t: "meta",
    "with an index": lambda t: t.device("cuda:1"),
    "cpu": lambda t: t.device("cpu"),
}
_ATTRIBUTES = ("device", "is_cpu", "is_cuda", "is_meta", "layout")


@pytest.mark.parametrize("wrapper", [True, False])
@pytest.mark.parametrize("name", DEVICES)
def test_asked_for_the_device(name, wrapper):
    def f(t):
        x, calls = asked(t, DEVICES[name], wrapper, dispatch_device=True)
        return [str(getattr(x, a)) for a in _ATTRIBUTES], x.get_device(), calls

    agree(f)


@pytest.mark.parametrize("wrapper", [True, False])
def test_asked_for_the_layout(wrapper):
    def f(t):
        x, calls = asked(t, lambda t: t.strided, wrapper, dispatch_layout=True)
        return [str(getattr(x, a)) for a in _ATTRIBUTES], calls

    agree(f)


@pytest.mark.parametrize("option", ["dispatch_device", "dispatch_layout"])
def test_answers_that_are_none(option):
    attribute = option.removeprefix("dispatch_")
    agree_error(lambda t: getattr(asked(t, lambda t: NotImplemented, **{option: True})[0], attribute), "NotImplemented")
    agree(lambda t: attempt(lambda: getattr(asked(t, lambda t: None, **{option: True})[0], attribute)))


def test_prim():
    agree(lambda t: [str(t.ops.prim.device.default._schema), str(t.ops.prim.device.default(t.ones(1)))])


def changed_before_backward(t, f, change):
    """What happens to the gradient of ``f`` when its argument or result is changed before the backward."""
    x = made(t)
    y = x * 2
    z = f(y)
    change(y, z)
    version = y._version, z._version
    loss = z.sum()
    return version, attempt(lambda: loss.backward()), kinds(x.grad) if x.grad is not None else None


CHANGES = {
    "the argument detached": lambda y, z: y.detach().mul_(3),
    "twice detached": lambda y, z: y.detach().detach().mul_(3),
    "a view of it detached": lambda y, z: y.detach().view(6).mul_(3),
    "its data": lambda y, z: y.data.mul_(3),
    "the result": lambda y, z: z.mul_(3),
    "the result detached": lambda y, z: z.detach().mul_(3),
    "a copy": lambda y, z: y.detach().clone().mul_(3),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("f", [lambda x: x * x, lambda x: x.exp(), lambda x: x + 1])
def test_changes_in_place_of_what_a_node_keeps(f, change):
    agree(lambda t: changed_before_backward(t, f, CHANGES[change]))


@pytest.mark.parametrize("name", ["exp", "sigmoid", "softmax", "cumsum", "sin"])
def test_batched_gradients(name):
    """Also of operators that save their result, which a batch of gradients meets within a level of vmap."""

    def run(t):
        w = made(t)
        out = getattr(w, name)(*[1] * (name in ("softmax", "cumsum")))
        got = t.autograd.grad(out, w, t.eye(6).reshape(6, 2, 3), is_grads_batched=True)[0]
        whole = t.autograd.functional.jacobian(lambda x: x.exp().sum(1), wrapper_class(t)(t.ones(2, 3)), vectorize=True)
        return kinds(got, whole)

    agree(run)


# -- files ---------------------------------------------------------------------------------------------------


def stored(t, requires_grad=False):
    """A wrapper of a class that pickle finds, with an attribute."""

    class Stored(t.Tensor):
        @staticmethod
        def __new__(cls, inner, requires_grad):
            place = {"strides": inner.stride(), "dtype": inner.dtype, "device": inner.device}
            return t.Tensor._make_wrapper_subclass(cls, inner.shape, requires_grad=requires_grad, **place)

        def __init__(self, inner, requires_grad):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise RuntimeError(f"{func} was called")

    Stored.__module__, Stored.__qualname__ = __name__, "Stored"
    globals()["Stored"] = Stored
    w = Stored(t.arange(6.0).view(2, 3).t(), requires_grad)
    w.scale = 2.5
    return w


def facts_of(w):
    inner = w.inner.tolist() if w.inner.device.type == "cpu" else None
    return type(w).__name__, w.shape, w.stride(), w.dtype, str(w.device), w.requires_grad, w.scale, inner


def saved(t, w, **options):
    file = io.BytesIO()
    t.save(w, file)
    file.seek(0)
    return t.load(file, **options)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("options", [{}, {"map_location": "meta"}], ids=str)
def test_files_hold_what_is_wrapped(options, requires_grad):
    agree(lambda t: facts_of(saved(t, stored(t, requires_grad), weights_only=False, **options)))
    agree(lambda t: facts_of(pickle.loads(pickle.dumps(stored(t, requires_grad)))))


def test_files_of_weights_alone_hold_wrappers_of_allowed_classes():
    def allowed(t):
        w = stored(t)
        with t.serialization.safe_globals([type(w)]):
            return facts_of(saved(t, w))

    agree(allowed)
    agree_error(lambda t: saved(t, stored(t)), "Unsupported global: GLOBAL .*Stored")


def test_deep_copies_of_wrappers_on_meta_ask_clone():
    def copied(t):
        class Wrapper(t.Tensor):
            @staticmethod
            def __new__(cls, inner):
                return t.Tensor._make_subclass(cls, inner.to("meta"))

            def __init__(self, inner):
                self.inner = inner

            @classmethod
            def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
                result = function(*[x.inner if isinstance(x, cls) else x for x in args], **(kwargs or {}))
                return cls(result) if isinstance(result, t.Tensor) else result

        w = Wrapper(t.ones(2))
        w.label = "w"
        c = copy.deepcopy(w)
        return type(c).__name__, c.inner.tolist(), c.label, c.inner is w.inner, c.device.type

    agree(copied)


def test_deep_copies_on_meta_ask_the_method_clone():
    def copied(t):
        class Wrapper(t.Tensor):
            @staticmethod
            def __new__(cls, inner):
                made = t.Tensor._make_subclass(cls, inner.to("meta"), True)
                made.inner = inner
                return made

            def clone(self):
                return type(self)(self.inner + 1)

        c = copy.deepcopy(Wrapper(t.ones(2)))
        return type(c).__name__, c.inner.tolist(), c.requires_grad, c.is_leaf

    def plain(t):
        return copy.deepcopy(t.ones(2, device="meta").as_subclass(type("Plain", (t.Tensor,), {})))

    agree(copied)
    agree_error(plain, match=r"for wrapper subclasses only works for subclass types that.* implement clone")
