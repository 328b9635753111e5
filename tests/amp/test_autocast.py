"""``torch.autocast``: what is cast, which casts are kept, what is on where and when it ends, as in PyTorch."""

import threading

import pytest
import torch
from both import agree
from story_kit import said, story, warned

import torchlike

KINDS = "float32 float64 float16 bfloat16 int64 complex64".split()


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Tests leave autocast as it is at the start; PyTorch's is reset, since some errors leave it on."""
    yield
    for t in (torch, torchlike):
        assert t is torch or not t._C._is_any_autocast_enabled()
        t.set_autocast_enabled("cpu", False)
        t.set_autocast_cache_enabled(True)
        depth = t.autocast_increment_nesting()
        for _ in range(abs(depth)):
            (t.autocast_decrement_nesting if depth > 0 else t.autocast_increment_nesting)()
        t.clear_autocast_cache()


def values(t, kind, rows=3):
    numbers = t.arange(1.0, 1 + rows * 3).reshape(rows, 3) / 8
    return numbers.to(getattr(t, kind))


def under(t, f, *args, **kwargs):
    """``f()`` under autocast on the CPU."""
    with t.autocast("cpu", *args, **kwargs):
        return f()


BINARY = {
    "mm": lambda t, a, b: t.mm(a, b),
    "matmul": lambda t, a, b: a @ b,
    "cat": lambda t, a, b: t.cat([a, b]),
    "stack": lambda t, a, b: t.stack([a, b]),
    "mse_loss": lambda t, a, b: t.nn.functional.mse_loss(a, b),
    "add": lambda t, a, b: a + b,
    "linear": lambda t, a, b: t.nn.functional.linear(a, b),
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("low", ["bfloat16", "float16"])
def test_two_inputs_of_each_dtype(name, low):
    def run(t):
        def one(first, second):
            return BINARY[name](t, values(t, first), values(t, second)).dtype

        def told(first, second):
            found = said(lambda: under(t, lambda: str(one(first, second)), dtype=getattr(t, low)), "^$")
            return found if found.startswith("torch.") else found.partition(":")[0]

        return [(a, b, told(a, b)) for a in KINDS for b in KINDS]

    agree(run)


CALLS = {
    "in place": lambda t, x: t.zeros(3, 3).addmm_(x, x),
    "out=": lambda t, x: t.mm(x, x, out=t.zeros(3, 3)),
    "out= is not lowered": lambda t, x: t.mm(x * 0.37 + 0.113, x, out=t.zeros(3, 3)),
    "out= of chained products": lambda t, x: t.linalg.multi_dot([x * 0.37 + 0.113, x], out=t.zeros(3, 3)),
    "out= of a composite": lambda t, x: t.matmul(x, x, out=t.zeros(3, 3)),
    "a given dtype": lambda t, x: t.prod(x.bfloat16(), dtype=t.bfloat16),
    "prod": lambda t, x: t.prod(x.bfloat16()),
    "einsum": lambda t, x: t.einsum("ij,jk->ik", x, x),
    "on the meta device": lambda t, x: t.mm(x.to("meta"), x.to("meta")).dtype,
    "a float8": lambda t, x: t.mm(x.to(t.float8_e4m3fn), x).dtype,
    "views": lambda t, x: x.t()[0],
    "a loss": lambda t, x: t.nn.functional.binary_cross_entropy(x.sigmoid(), x.sigmoid()),
    "baddbmm": lambda t, x: t.baddbmm(x[None], x[None], x[None]),
    "conv1d": lambda t, x: t.nn.functional.conv1d(x[None], x[None]),
    "a number": lambda t, x: t.nn.functional.pad(x, (1, 1), value=2.0) * 3,
    "an aten operator": lambda t, x: t.ops.aten.mm.default(x, x),
    "nothing in an inner one": lambda t, x: under(t, lambda: x @ x, enabled=False),
    "another dtype in an inner one": lambda t, x: (under(t, lambda: x @ x, dtype=t.float16), x @ x),
    "vmap": lambda t, x: t.vmap(lambda r: r @ x)(x),
    "jvp": lambda t, x: t.func.jvp(lambda r: r @ x, (x,), (x,)),
    "under a default of float16": lambda t, x: (t.set_autocast_dtype("cpu", t.float16), x @ x)[1],
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    agree(lambda t: under(t, lambda: CALLS[name](t, values(t, "float32"))))
    agree(lambda t: t.get_autocast_dtype("cpu"))


def test_inside_of_vmap():
    agree(lambda t: t.vmap(lambda r: under(t, lambda: r @ values(t, "float32")))(values(t, "float32")))


@story
def test_gradients_have_the_dtype_of_forward(t):
    w, x = values(t, "float32").requires_grad_(), values(t, "float32").requires_grad_()
    seen = []
    with t.autocast("cpu"):
        y = w @ x
        y.register_hook(lambda g: seen.append(g.dtype))
        loss = t.nn.functional.mse_loss(y, x)
    loss.backward()
    return y, y.grad_fn, [f for f, _ in y.grad_fn.next_functions], loss, seen, w.grad, x.grad


@story
def test_second_derivatives(t):
    w = values(t, "float32").requires_grad_()
    with t.autocast("cpu"):
        y = (w @ w).float().pow(2).sum()
    (g,) = t.autograd.grad(y, w, create_graph=True)
    with t.autocast("cpu"):
        (g @ g).float().sum().backward()
    return g, w.grad


# -- which casts are kept: names of the aten calls that modes see -----------------------------------------------------


def calls(t, f):
    """The aten calls of ``f()``, and what it returns."""
    found = []

    class Log(t.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found.append(str(func))
            return func(*args, **(kwargs or {}))

    with Log():
        out = f()
    return found, out


def weight(t):
    return values(t, "float32").clone().requires_grad_()


def twice(t, w, *args, **kwargs):
    """Two products with ``w`` under autocast."""
    x = values(t, "bfloat16")
    with t.autocast("cpu", *args, **kwargs):
        return [(w @ x).requires_grad, (w @ x).requires_grad]


def _no_grad_first(t, w):
    x = values(t, "bfloat16")
    with t.autocast("cpu"):
        with t.no_grad():
            first = w @ x
        return first.requires_grad, (w @ x).requires_grad


def _inner(t, w):
    x = values(t, "bfloat16")
    with t.autocast("cpu"):
        a = w @ x
        with t.autocast("cpu", cache_enabled=False):
            b = w @ x
        with t.autocast("cpu", enabled=False):
            c = w + 1
        with t.autocast("cpu"):
            d = w @ x
        return a.dtype, b.dtype, c.dtype, d.dtype, (w @ x).dtype


def _changed(t, w):
    x = values(t, "bfloat16")
    with t.autocast("cpu"):
        first = w @ x
        with t.no_grad():
            w.mul_(2)
        same = first, w @ x
    with t.autocast("cpu"):
        return same, w @ x


def _cleared(t, w):
    x = values(t, "bfloat16")
    with t.autocast("cpu"):
        a = w @ x
        t.clear_autocast_cache()
        return a, w @ x


def _switched(t, w):
    x = values(t, "bfloat16")
    t.set_autocast_enabled("cpu", True)
    a, b = w @ x, w @ x
    with t.autocast("cpu"):
        pass
    c = w @ x
    t.set_autocast_enabled("cpu", False)
    t.clear_autocast_cache()
    return a, b, c


KEPT = {
    "a weight": lambda t: twice(t, weight(t)),
    "a parameter": lambda t: twice(t, t.nn.Parameter(values(t, "float32").t())),
    "a weight detached": lambda t: twice(t, weight(t).detach()),
    "no leaf": lambda t: twice(t, weight(t) * 1),
    "a view": lambda t: twice(t, weight(t).t()),
    "a half": lambda t: twice(t, values(t, "float16").requires_grad_()),
    "no cache": lambda t: twice(t, weight(t), cache_enabled=False),
    "no_grad first": lambda t: _no_grad_first(t, weight(t)),
    "inner contexts": lambda t: _inner(t, weight(t)),
    "changed meanwhile": lambda t: _changed(t, weight(t)),
    "cleared": lambda t: _cleared(t, weight(t)),
    "without a context": lambda t: _switched(t, weight(t)),
}


@pytest.mark.parametrize("name", KEPT)
def test_casts_that_are_kept(name):
    agree(lambda t: calls(t, lambda: KEPT[name](t)))


@story
def test_a_weight_that_is_used_twice_gets_one_gradient_in_the_lower_precision(t):
    w, x = weight(t), values(t, "bfloat16")
    with t.autocast("cpu"):
        y = (w @ x).sum() + (w @ (x + 1)).sum()
    y.backward()
    return w.grad


# -- where it is on -----------------------------------------------------------------------------------------------


def on(t):
    x = values(t, "float32")
    return t.is_autocast_enabled("cpu"), t.get_autocast_dtype("cpu"), (x @ x).dtype, t._C._is_any_autocast_enabled()


@story
def test_contexts_in_each_other(t):
    found = [on(t)]
    with t.autocast("cpu"):
        found.append(on(t))
        with t.autocast("cpu", dtype=t.float16, cache_enabled=False):
            found += [on(t), t.is_autocast_cache_enabled()]
            with t.autocast("cpu", enabled=False):
                found += [on(t), t.is_autocast_cache_enabled()]
            found.append(on(t))
        found += [on(t), t.is_autocast_cache_enabled()]
    return found, on(t)


@story
def test_one_context_twice(t):
    c = t.autocast("cpu")
    with c as entered:
        found = [on(t), entered is c]
    with c:
        found.append(on(t))
    return found, on(t)


def test_a_context_within_itself_ends():
    """PyTorch leaves autocast on after such a one, and after a recursive function that is decorated."""
    t = torchlike
    c = t.autocast("cpu")
    with c:
        with c:
            assert on(t)[0]
        assert on(t)[0]
    assert not on(t)[0]

    @t.autocast("cpu")
    def deep(n):
        return on(t)[0] and (n == 0 or deep(n - 1))

    assert deep(3) and not on(t)[0]


@story
def test_errors_end_it(t):
    def fails():
        with t.autocast("cpu"):
            raise ValueError("inside")

    return said(fails), on(t)


@story
def test_decorators(t):
    class Owner:
        @t.autocast("cpu", dtype=t.float16)
        def method(self):
            """What it does."""
            return on(t)

    @t.autocast("cpu")
    def numbers():
        yield on(t)

    @t.autocast("cpu", enabled=False)
    def off():
        return on(t)

    inside = under(t, off)
    return Owner().method(), Owner.method.__doc__, Owner.method.__name__, list(numbers()), off(), inside, on(t)


@story
def test_threads_start_with_autocast_off(t):
    found = []
    with t.autocast("cpu", dtype=t.float16):
        thread = threading.Thread(target=lambda: found.append(on(t)))
        thread.start()
        thread.join()
    return found


def test_sixteen_threads_with_settings_of_their_own():
    t = torchlike
    dtypes = [t.bfloat16, t.float16, None]
    barrier, wrong = threading.Barrier(16), []

    def work(number):
        x = values(t, "float32")
        dtype = dtypes[number % 3]
        for _ in range(20):
            barrier.wait()
            with t.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                barrier.wait()
                if (x @ x).dtype is not (dtype or t.float32):
                    wrong.append(number)
            if (x @ x).dtype is not t.float32:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


@story
def test_backward_in_the_caller_s_state(t):
    seen = []

    class Loud(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(on(t))
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append(on(t))
            return grad

    x = weight(t)
    with t.autocast("cpu"):
        y = Loud.apply(x).sum()
        Loud.apply(x).sum().backward()
    y.backward()
    return seen, x.grad


@story
def test_dispatch_modes_see_casts_and_run_without_autocast(t):
    found = []

    class Log(t.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found.append((str(func), *on(t)))
            return func(*args, **(kwargs or {}))

    x = values(t, "float32")
    with t.autocast("cpu"), Log():
        y = t.nn.functional.mse_loss(x @ x, t.zeros(3, 3)) + t.cat([x, x.bfloat16()])
    return found, y


# -- questions and wrong arguments -----------------------------------------------------------------------------------


TYPES = "cpu cuda xla ipu xpu mps hpu mtia maia privateuseone meta vulkan lazy foo cpu:0".split()
QUESTIONS = {
    "dtype": lambda t, kind: str(t.get_autocast_dtype(kind)),
    "on": lambda t, kind: t.is_autocast_enabled(kind),
    "available": lambda t, kind: t.amp.is_autocast_available(kind),
    "context": lambda t, kind: t.autocast(kind)._enabled,
    "disabled": lambda t, kind: t.autocast(kind, enabled=False).fast_dtype,
    "switched": lambda t, kind: t.set_autocast_enabled(kind, False),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", QUESTIONS)
def test_each_type_of_device(name, kind):
    def run(t):
        answer = said(lambda: QUESTIONS[name](t, kind), "^$")
        return answer.partition(":")[0] if isinstance(answer, str) else answer

    agree(run)


WRONG = {
    "no type": (lambda t: t.autocast(), "missing 1 required positional argument: 'device_type'"),
    "a device": (lambda t: t.autocast(t.device("cpu")), "Expected `device_type` of type `str`, got: `.*device'>`"),
    "a number": (lambda t: t.autocast(1), "Expected `device_type` of type `str`, got: `<class 'int'>`"),
    "a text": (lambda t: t.autocast("foo"), "Expected one of cpu, cuda.* device type at start of device string: foo"),
    "enabled=1": (lambda t: under(t, int, enabled=1), "argument 'enabled' .position 2. must be bool, not int"),
    "cache_enabled=1": (lambda t: under(t, int, cache_enabled=1), "enabled must be a bool .got int"),
    "enabled set to 1": (lambda t: t.set_autocast_enabled("cpu", 1), "'enabled' .position 2. must be bool, not int"),
    "cuda's set to 1": (lambda t: t.set_autocast_enabled(1), "'enabled' .position 1. must be bool, not int"),
    "set without more": (lambda t: t.set_autocast_enabled("cpu"), "'enabled' .position 1. must be bool, not str"),
    "set to nothing": (lambda t: t.set_autocast_enabled(), "received an invalid combination of arguments"),
    "dtype set to 3": (lambda t: t.set_autocast_dtype("cpu", 3), "'dtype' .position 2. must be torch.dtype, not int"),
    "dtype of 1": (lambda t: t.get_autocast_dtype(1), "'device_type' .position 1. must be str, not int"),
    "on for 1": (lambda t: t.is_autocast_enabled(1), "'device_type' .position 1. must be str, not int"),
    "cache set to 1": (lambda t: t.set_autocast_cache_enabled(1), "enabled must be a bool .got int"),
    "cleared with 1": (lambda t: t.clear_autocast_cache(1), "takes .* arguments? .*1"),
    "deprecated, 1": (lambda t: t.set_autocast_cpu_enabled(1), "enabled must be a bool .got int"),
    "deprecated dtype, 1": (lambda t: t.set_autocast_gpu_dtype(1), "dtype must be a torch.dtype .got int"),
    "left, not entered": (lambda t: t.autocast("cpu").__exit__(None, None, None), "has no attribute 'prev"),
    "mixed halves": (
        lambda t: under(t, lambda: t.cat([values(t, "float16"), values(t, "float32")])),
        "Unexpected floating ScalarType",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    call, message = WRONG[name]
    agree(lambda t: said(lambda: call(t), "^$").partition(":")[0])
    for t in (torch, torchlike):
        with pytest.raises((TypeError, ValueError, RuntimeError, AttributeError), match=message):
            call(t)
    assert not on(torchlike)[0]


WARNINGS = {
    "no GPU": lambda t: t.autocast("cuda"),
    "no GPU, in vain": lambda t: t.autocast("cuda", enabled=False),
    "float32": lambda t: t.autocast("cpu", dtype=t.float32),
    "float32, off": lambda t: t.autocast("cpu", dtype=t.float32, enabled=False),
    "int8 on a TPU": lambda t: t.autocast("xla", dtype=t.int8),
    "no dtype": lambda t: t.autocast("cpu", dtype="float16"),
    "cuda.amp": lambda t: t.cuda.amp.autocast(False),
    "cuda.amp without a GPU": lambda t: t.cuda.amp.autocast(),
    "cpu.amp": lambda t: t.cpu.amp.autocast(True, t.float16, False),
    "cuda.amp.custom_fwd": lambda t: t.cuda.amp.custom_fwd(lambda ctx, x: x),
    "cuda.amp.custom_fwd with a dtype": lambda t: t.cuda.amp.custom_fwd(cast_inputs=t.float32),
    "cuda.amp.custom_bwd": lambda t: t.cuda.amp.custom_bwd(lambda ctx, x: x),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(name):
    def run(t):
        made = []
        told = warned(lambda: made.append(WARNINGS[name](t)))
        return told, [getattr(made[0], key, None) for key in ("_enabled", "fast_dtype", "_cache_enabled", "device")]

    agree(run)


DEPRECATED = [f"{verb}_autocast_{kind}_{what}" for verb, what in (("is", "enabled"), ("get", "dtype"), ("set", "dtype"),
              ("set", "enabled")) for kind in "cpu gpu xla ipu".split()]  # fmt: skip


@pytest.mark.parametrize("name", DEPRECATED)
def test_functions_of_one_type_of_device(name):
    def run(t):
        if not hasattr(t, name):
            return name
        argument = () if name[0] in "ig" else (t.float16,) if name.endswith("dtype") else (False,)
        told = warned(lambda: getattr(t, name)(*argument), r"^.*?instead\.")
        t.set_autocast_dtype("cpu", t.bfloat16)
        t.set_autocast_dtype("xla", t.bfloat16)
        return told

    agree(run)


@story
def test_counts_of_contexts(t):
    found = [t.autocast_increment_nesting(), t.autocast_increment_nesting(), t.autocast_decrement_nesting()]
    return found, t.autocast_decrement_nesting()


def test_every_name_of_pytorch_is_there():
    modules = ["", "amp", "amp.autocast_mode", "cuda.amp", "cpu.amp"]
    later = {"_UnmanagedAutocast"}
    for module in modules:
        theirs, ours = torch, torchlike
        for part in filter(None, module.split(".")):
            theirs, ours = getattr(theirs, part), getattr(ours, part)
        names = [n for n in dir(theirs) if "autocast" in n.lower() or n.startswith("custom_")]
        assert not [n for n in names if n not in later and not hasattr(ours, n)], module


@pytest.mark.parametrize("given", [3, None, "f"])
def test_what_is_decorated_can_be_called(given):
    agree(lambda t: said(lambda: t.autocast("cpu")(given), r"autocast\(\)\(func\) requires a callable, but got \w+"))
