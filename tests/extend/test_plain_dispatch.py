"""Plain subclasses, which hold their values, with a ``__torch_dispatch__``: its default, its being off, re-entry."""

import copy

import pytest
from agreement import agree
from both import agree_error


def described(x):
    """What the libraries are compared by: class, whether it requires grad, and its node's."""
    return type(x).__name__, x.requires_grad, None if x.grad_fn is None else type(x.grad_fn).__name__


def passing(t, seen):
    """A class that passes every call on, by the default that it inherits."""

    class Passing(t.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs or {})

    return Passing


def keeping(t, seen):
    """As :func:`passing`, with results of the class itself."""
    Passing = passing(t, seen)

    class Keeping(Passing):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            out = super().__torch_dispatch__(func, types, args, kwargs)
            return out.as_subclass(cls) if type(out) is t.Tensor else out

    return Keeping


def of(make, t, data=None, requires_grad=False):
    seen: list = []
    cls = make(t, seen)
    return t.Tensor._make_subclass(cls, t.ones(2) if data is None else data, requires_grad), seen


CALLS = {
    "add": lambda t, x: x + 1,
    "detach": lambda t, x: x.detach(),
    "clone": lambda t, x: x.clone(),
    "zeros_like": lambda t, x: t.zeros_like(x),
    "ones_like": lambda t, x: t.ones_like(x),
    "empty_like": lambda t, x: t.empty_like(x),
    "new_ones": lambda t, x: x.new_ones(2),
    "view": lambda t, x: x.view(2, 1),
    "in place": lambda t, x: x.add_(1),
    "to": lambda t, x: x.to(t.float64),
    "stack": lambda t, x: t.stack([x, x]),
    "out of the class": lambda t, x: t.add(t.ones(2), 1, out=x),
    "out of Tensor": lambda t, x: t.add(x, 1, out=t.ones(2)),
}


@pytest.mark.parametrize("make", [passing, keeping])
@pytest.mark.parametrize("code", CALLS.values(), ids=list(CALLS))
def test_the_default_computes_plainly(code, make):
    def run(t):
        x, seen = of(make, t)
        return described(code(t, x)), seen

    agree(run)


SEVERAL = {"split": lambda x: x.split(1), "unbind": list, "max": lambda x: list(x.max(0))}


@pytest.mark.parametrize("code", SEVERAL.values(), ids=list(SEVERAL))
def test_the_default_with_several_results(code):
    def run(t):
        x, seen = of(passing, t)
        return [described(y) for y in code(x)], seen

    agree(run)


def test_the_default_under_backward():
    def run(t):
        x, seen = of(passing, t, requires_grad=True)
        (x * x).sum().backward()
        return described(x.grad), x.grad.as_subclass(t.Tensor).tolist(), seen

    agree(run)


def test_a_change_in_place_reaches_the_storage():
    def run(t):
        base = t.ones(2)
        x, _ = of(passing, t, base)
        x.mul_(3)
        return base.tolist(), base._version

    agree(run)


def test_deepcopy_keeps_class_attributes_strides_and_grad():
    def run(t):
        x, _ = of(keeping, t, t.ones(2, 3).t(), True)
        x.extra, x.grad = [3], t.ones(3, 2)
        new = copy.deepcopy(x)
        return type(new).__name__, new.extra, new.extra is x.extra, new.stride(), new.requires_grad, new.grad.tolist()

    agree(run)


def test_deepcopy_refuses_another_class():
    def run(t):
        copy.deepcopy(of(passing, t)[0])

    agree_error(run, r"for non-wrapper subclasses.*implement new_empty\(\)")


def test_deepcopy_asks_the_new_empty_of_the_class():
    def run(t):
        cls = of(passing, t)[0].__class__
        cls.new_empty = lambda self, shape: t.empty(shape).as_subclass(cls)
        new = copy.deepcopy(t.ones(2).as_subclass(cls))
        return type(new) is cls, new.requires_grad

    agree(run)


def test_deepcopy_of_a_wrapper_is_its_clone():
    def run(t, wraps):
        class Wrapper(t.Tensor):
            @staticmethod
            def __new__(cls, inner):
                return t.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

            def __init__(self, inner):
                self.inner = inner

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                seen.append(str(func))
                out = func(*[x.inner if isinstance(x, cls) else x for x in args], **(kwargs or {}))
                return cls(out) if wraps else out

        seen: list = []
        x = Wrapper(t.ones(2))
        new = copy.deepcopy(x)
        return type(new).__name__, new.inner is x.inner, new.inner.tolist(), seen

    agree(lambda t: run(t, True))
    agree_error(lambda t: run(t, False), r"for wrapper subclasses.*implement clone\(\)")


# -- off ---------------------------------------------------------------------------------------------------


def silent(t, seen):
    """A class that calls each operator with its dispatch off."""

    class Silent(t.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            with t._C._DisableTorchDispatch():
                return func(*args, **(kwargs or {}))

    return Silent


@pytest.mark.parametrize("name", ["add", "view", "in place", "detach"])
def test_off_inside_of_a_handler(name):
    def run(t):
        x, seen = of(silent, t)
        return described(CALLS[name](t, x)), seen

    agree(run)


OFF = {
    "call": lambda t, x: x * 2,
    "view": lambda t, x: x[0],
    "in place": lambda t, x: x.mul_(2),
    "in place, recorded": lambda t, x: x.mul_(t.ones(2, requires_grad=True)),
    "in place on a view": lambda t, x: (x[0].mul_(t.ones((), requires_grad=True)), x)[1],
}


@pytest.mark.parametrize("code", OFF.values(), ids=list(OFF))
def test_off_outside_of_handlers(code):
    def run(t):
        x, seen = of(silent, t)
        with t._C._DisableTorchDispatch():
            out = code(t, x)
            values = (out + 0).tolist()
        return described(out), values, x._version, seen, described(x + 1), seen

    agree(run)


def test_off_for_modes():
    def run(t):
        class Mode(t.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(str(func))
                return func(*args, **(kwargs or {}))

        seen: list = []
        with Mode():
            with t._C._DisableTorchDispatch():
                t.ones(2) + 1
            t.ones(2) + 1
        return seen

    agree(run)


# -- sizes and strides ---------------------------------------------------------------------------------------


def asking(t, seen, policy, answer):
    class Asking(t.Tensor):
        @staticmethod
        def __new__(cls, data):
            return t.Tensor._make_subclass(cls, data, dispatch_sizes_strides_policy=policy)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append((str(func), args[1:]))
            return answer.get(func.overloadpacket.__name__, answer.get(""))

    return Asking(t.ones(2, 3))


ANSWERS = {"sym_size": (7, 8), "sym_stride": (8, 1), "is_contiguous": True, "dim": 2, "sym_numel": 56,
           "sym_storage_offset": 0}  # fmt: skip
QUESTIONS = {
    "shape": lambda x: x.shape,
    "size": lambda x: x.size(),
    "size(i)": lambda x: (x.size(0), x.size(-1)),
    "stride": lambda x: x.stride(),
    "stride(i)": lambda x: x.stride(1),
    "dim": lambda x: (x.dim(), x.ndim, x.ndimension()),
    "numel": lambda x: (x.numel(), x.nelement()),
    "is_contiguous": lambda x: x.is_contiguous(),
    "storage_offset": lambda x: x.storage_offset(),
    "len": len,
}


@pytest.mark.parametrize("policy", ["sizes", "strides"])
@pytest.mark.parametrize("code", QUESTIONS.values(), ids=list(QUESTIONS))
def test_the_class_is_asked(code, policy):
    def run(t):
        seen: list = []
        return code(asking(t, seen, policy, ANSWERS)), seen

    agree(run)


@pytest.mark.parametrize("policy", ["sizes", "strides", None])
@pytest.mark.parametrize("found", [True, None])
def test_questions_that_are_operators_alone(policy, found):
    def run(t):
        seen: list = []
        x, aten = asking(t, seen, policy, {"": found}), t.ops.aten
        dense = aten.is_non_overlapping_and_dense.default(x)
        return dense, aten.is_strides_like_format.default(x, t.channels_last), seen

    agree(run)


def test_no_answer_is_that_of_the_tensor():
    def run(t):
        x = asking(t, [], "sizes", {"": None})
        contiguous = x.is_contiguous(), x.is_contiguous(memory_format=t.channels_last)
        return x.shape, x.stride(), x.numel(), x.storage_offset(), contiguous

    agree(run)


WRONG = {
    "shape": (lambda x: x.shape, "sym_size must be a list or a tuple"),
    "stride": (lambda x: x.stride(), "sym_strides must be a list or a tuple"),
    "dim": (lambda x: x.dim(), "dim returned invalid type str, expected int"),
    "contiguous": (lambda x: x.is_contiguous(), "is_contiguous returned invalid type str, expected bool"),
}


@pytest.mark.parametrize(("code", "message"), WRONG.values(), ids=list(WRONG))
def test_wrong_answers(code, message):
    agree_error(lambda t: code(asking(t, [], "sizes", {"": "x"})), message)


def test_unknown_policy():
    agree_error(lambda t: asking(t, [], "foo", {}), "Unknown sizes_strides_policy: foo")


# -- making ----------------------------------------------------------------------------------------------------


def test_making_a_leaf_calls_no_override():
    def run(t):
        class Loud(t.Tensor):
            @staticmethod
            def __new__(cls, data):
                return t.Tensor._make_subclass(cls, data, True)

            def __init__(self, data):
                seen.append("init")

            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                seen.append(t.overrides.resolve_name(func))
                return super().__torch_function__(func, types, args, kwargs or {})

        seen: list = []
        Loud(t.ones(2)).requires_grad  # noqa: B018
        return seen

    agree(run)


def test_integers_require_no_grad():
    agree_error(
        lambda t: t.Tensor._make_subclass(t.Tensor, t.ones(2, dtype=t.int64), True),
        "nly Tensors of floating point and complex dtype can require gradients",
    )  # fmt: skip


# -- re-entry ----------------------------------------------------------------------------------------------------


def reentrant(t, seen):
    class Reentrant(t.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            inner = [x.elem if isinstance(x, cls) else x for x in args]
            with t.overrides.enable_reentrant_dispatch():
                out = func(*inner, **(kwargs or {}))
            seen.append((str(func), described(out)))
            new = t.Tensor._make_subclass(cls, out, False)
            new.elem = out
            return new

    return Reentrant


@pytest.mark.parametrize("requires_grad", [False, True])
def test_reentrant_calls_are_recorded(requires_grad):
    def run(t):
        leaf, seen = t.ones(2, requires_grad=True), []
        x = t.Tensor._make_subclass(reentrant(t, seen), leaf, requires_grad)
        x.elem = leaf
        y = x * 2
        y.elem.sum().backward()
        return described(y), described(y.elem), leaf.grad.tolist(), seen

    agree(run)


def test_reentry_is_for_handlers():
    def again(t):
        class Again(t.Tensor):
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                with t.overrides.enable_reentrant_dispatch(), t.overrides.enable_reentrant_dispatch():
                    return args[0]

        return t.Tensor._make_subclass(Again, t.ones(1)) + 1

    message = "Accessing torch dispatch state outside of '__torch_dispatch__' is not allowed"
    agree_error(lambda t: t.overrides.enable_reentrant_dispatch().__enter__(), message)
    agree_error(again, message)


# -- kernels in Python ---------------------------------------------------------------------------------------------


def test_py_impl():
    def run(t):
        op, key = t.ops.aten.asinh.default, t._C.DispatchKey.XPU

        class Own(t.Tensor):
            pass

        class Mode(t.utils._python_dispatch.TorchDispatchMode):
            pass

        kernels = [op.py_impl(k)(lambda *args, k=k: k) for k in (key, Own, Mode)]
        kept = op.py_kernels.pop(key), op.python_key_table.pop(Own), op.python_key_table.pop(Mode)
        return list(kept) == kernels, op(t.zeros(1)), repr(key)[:17]

    agree(run)


def test_py_impl_refuses():
    def again(t):
        op, key = t.ops.aten.asinh.default, t._C.DispatchKey.HPU
        op.py_impl(key)(abs)
        try:
            op.py_impl(key)(abs)
        finally:
            del op.py_kernels[key]

    agree_error(lambda t: t.ops.aten.asinh.default.py_impl("XPU")(abs), "expected DispatchKey, got <class 'str'>")
    agree_error(again, "Trying to override a python impl for DispatchKey.HPU on operator aten::asinh")
