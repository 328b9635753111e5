"""gradcheck and gradgradcheck: what passes, what is found, what is refused; as PyTorch's."""

import re
import warnings

import pytest
from both import agree, agree_error, attempt
from gradcheck_kit import (
    MODES,
    RIGHT,
    TWICE,
    backward_times,
    cplx,
    function,
    gradcheck,
    gradgradcheck,
    module,
    real,
    summary,
    verdict,
    wrong,
)  # fmt: skip

import torchlike
import torchlike.autograd.gradcheck

WRONG = {
    "wrong": lambda t: (wrong, real(t)),
    "second output, second input": lambda t: (lambda a, b: (a * b, wrong(b)), (real(t), real(t))),
    "counted among those that require grad": lambda t: (
        lambda a, n, b: (b.detach(), a * wrong(b)), (real(t, grad=False), 5, real(t))
    ),
    "a detached input": lambda t: (lambda a, b: a * b.detach(), (real(t), real(t))),
    "detached output": lambda t: (lambda a: a.detach() * 2, real(t)),
    "NaN": lambda t: (lambda a: a * float("nan"), real(t)),
    "infinite": lambda t: (lambda a: a * float("inf"), real(t)),
    "shared among ties": lambda t: (lambda a: a.max(), real(t, 1.0, 1.0, 1.0)),
    "complex": lambda t: (wrong, cplx(t)),
    "imaginary part": lambda t: (lambda a: (a * 1, t.complex(a, wrong(a))), real(t)),
    "real part": lambda t: (lambda a: (a * 1, t.complex(wrong(a), a)), real(t)),
    "real outputs first": lambda t: (lambda a: (t.complex(a, wrong(a)), wrong(a)), real(t)),
    "complex to real": lambda t: (lambda a: wrong(a).abs(), cplx(t)),
    "constant offset": lambda t: (backward_times(1, 1e-2), real(t)),
}  # fmt: skip


@MODES
@pytest.mark.parametrize("case", RIGHT)
def test_right(case, fast):
    agree(lambda t: gradcheck(t, *RIGHT[case](t), fast_mode=fast))
    assert gradcheck(torchlike, *RIGHT[case](torchlike), fast_mode=fast, check_batched_grad=True) is True


@MODES
@pytest.mark.parametrize("case", WRONG)
def test_wrong(case, fast):
    def script(t):
        f, inputs = WRONG[case](t)
        error = attempt(lambda: gradcheck(t, f, inputs, fast_mode=fast))
        assert isinstance(error, RuntimeError) and type(error).__name__ == "GradcheckError"
        return summary(error), gradcheck(t, f, inputs, fast_mode=fast, raise_exception=False)

    agree(script)


def test_a_function_that_changes_its_input():
    agree(lambda t: summary(attempt(lambda: gradcheck(t, lambda a: a.data.add_(1.0) * 0 + a * 2, real(t)))))


def test_the_matrices_are_shown():
    for case in ("wrong", "imaginary part", "NaN"):
        agree(lambda t, case=case: str(attempt(lambda: gradcheck(t, *WRONG[case](t)))).strip())
    agree(lambda t: str(attempt(lambda: gradcheck(t, lambda a: wrong(t.cat([a, a * 3])), real(t, 1.0, 2.0)))).strip())


def test_fast_mode_shows_them_too():
    error = attempt(lambda: gradcheck(torchlike, *WRONG["wrong"](torchlike), fast_mode=True))
    expected = r"numerical:[\d.]+\nanalytical:[\d.]+\n.*Numerical:\n tensor\(\[\[1.0000, 0.*slow mode\) is: 0.50"
    assert re.search(expected, str(error), re.DOTALL), error


def test_fast_mode_says_where_slow_mode_passes():
    def script(t):
        signs = t.tensor([1.0, -1.0], dtype=t.float64)
        f = lambda a: (backward_times(1, 9e-4)(a) * signs).sum()  # noqa: E731
        return "means that the test might've passed in slow_mode" in " ".join(
            str(attempt(lambda: gradcheck(t, f, real(t, 1.0, 2.0), atol=0, fast_mode=True))).split()
        )

    agree(script)


TOLERANCES = {
    "of the numerical one": (1.105, 0.0, {"rtol": 0.1, "atol": 0}),
    "below": (0.905, 0.0, {"rtol": 0.1, "atol": 0}),
    "far below": (0.895, 0.0, {"rtol": 0.1, "atol": 0}),
    "not linear": (1.0, 1e-2, {"atol": 0.1}),
    "hardly linear": (1.0, 1e-12, {}),
    "a wide eps": (1.0, 0.0, {"eps": 0.1}),
    "zero": (1.0, 0.0, {"rtol": 0, "atol": 0}),
}


@MODES
@pytest.mark.parametrize("case", TOLERANCES)
def test_tolerances(case, fast):
    factor, offset, keywords = TOLERANCES[case]
    agree(verdict(gradcheck, lambda t: backward_times(factor, offset), real, fast_mode=fast, **keywords))


@pytest.mark.parametrize("n", [1, 3, 10])
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_fast_mode_adds_up_atol(kind, n):
    """All elements off by 0.01: the same tolerance passes as in slow mode."""
    offset = 0.01 if kind == "float64" else 0.01 + 0.01j

    def off(a):
        out = a.clone()
        out.register_hook(lambda g: g if g is None else g + offset * g.sum())
        return out.real if out.is_complex() else out

    def script(t):
        x = t.ones(n, dtype=getattr(t, kind), requires_grad=True)
        bounds = (0.0099, 0.0101) if kind == "float64" else (0.0050, 0.0142)
        return [gradcheck(t, off, x, rtol=0, atol=b, fast_mode=True, raise_exception=False) for b in bounds]

    agree(script)
    assert script(torchlike) == [False, True]


# -- What comes in -----------------------------------------------------------------------------------------
REFUSED = {
    "no grad": (lambda a: a, lambda t: real(t, grad=False), "at least one input tensor to require gradient"),
    "no tensor": (lambda a: a, lambda t: 3, "at least one input tensor to require gradient"),
    "stride 0": (lambda a: a, lambda t: t.ones(1, dtype=t.float64).expand(3).requires_grad_(),
                 "The 0th input has a dimension with stride 0.*call .contiguous"),
    "stride 0 in the second": (lambda a, b: a * b, lambda t: (real(t), real(t, 1.0).expand(3)),
                               "The 1th input has a dimension with stride 0"),
    "a number out": (lambda a: 3, real, "'int' object has no attribute 'requires_grad'"),
    "a dict out": (lambda a: {"a": a}, real, "'dict' object has no attribute 'requires_grad'"),
    "in place on a leaf": (lambda a: a.mul_(2), real, "leaf Variable that requires grad"),
    "error in the function": (lambda a: 1 / 0, real, "division by zero"),
}  # fmt: skip


@MODES
@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, fast):
    f, inputs, match = REFUSED[case]
    agree_error(lambda t: gradcheck(t, f, inputs(t), fast_mode=fast), match)
    agree_error(lambda t: gradcheck(t, f, inputs(t), fast_mode=fast, raise_exception=False), match)


@MODES
def test_outputs_that_change(fast):
    def script(f):
        return lambda t: gradcheck(t, lambda a: f(t, a) if (a >= 1).all() else a, real(t, 1.0), fast_mode=fast)

    where = "outputs with the same {} when inputs are perturbed .*by 1e-06, but got: {}"
    agree_error(script(lambda t, a: t.cat([a, a])), where.format("shape", r"shapes torch.Size\(\[1\]\)"))
    agree_error(script(lambda t, a: a.float()), where.format("dtype", "dtypes torch.float64 and torch.float32"))


FLAGS = {
    "nothing": ({"check_backward_ad": False}, "at least one of check_forward_ad or check_backward_ad"),
    "batched forward": ({"check_batched_forward_grad": True}, "requires check_forward_ad to be True"),
    "batched without backward": ({"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
                                 "requires check_backward_ad to be True"),
    "unknown": ({"check_sparse_nnz": True}, "unexpected keyword argument"),
}  # fmt: skip


@pytest.mark.parametrize("case", FLAGS)
def test_refused_flags(case):
    keywords, match = FLAGS[case]
    agree_error(lambda t: gradcheck(t, lambda a: a, real(t), **keywords), match)


@MODES
def test_single_precision_warns(fast):
    def script(t):
        x, z = t.ones(1, requires_grad=True), t.tensor([1j], requires_grad=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = gradcheck(t, lambda a, b, c: a * b * c, (x, real(t, 1.0), z), atol=0.2, fast_mode=fast)
        return result, [(w.category.__name__, str(w.message).strip()) for w in caught]

    agree(script)
    agree(verdict(gradcheck, lambda t: lambda a: a * 2, lambda t: t.ones(2, requires_grad=True), fast_mode=fast))
    half = lambda t: t.ones(2, dtype=t.float16, requires_grad=True)  # noqa: E731
    agree(verdict(gradcheck, lambda t: lambda a: a * 2, half, fast_mode=fast))


def test_the_function_sees_the_inputs_themselves():
    def script(t):
        x, calls = real(t, 1.0, 2.0), []

        def f(a):
            calls.append((a is x, a.requires_grad, a.is_leaf, a.tolist()))
            return a * 2

        gradcheck(t, f, x)
        return calls, x, x._version, x.grad is None

    agree(script)


def test_nothing_is_left_behind():
    def script(t):
        x = real(t)
        x.grad = t.ones(3, dtype=t.float64)
        before = t.get_rng_state()
        for fast in (False, True):
            gradcheck(t, lambda a: a**2, x, fast_mode=fast)
        return x, x.grad, x._version, bool((before == t.get_rng_state()).all())

    agree(script)


@MODES
def test_nothing_is_left_behind_after_an_error(fast):
    """PyTorch leaves the input perturbed."""
    x = real(torchlike)
    for sign in (1, -1):
        with pytest.raises(ZeroDivisionError):
            gradcheck(torchlike, lambda a, s=sign: 1 / 0 if s * a[0] > s else a**2, x, fast_mode=fast)
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_without_grad_mode():
    def script(t):
        with t.no_grad():
            return summary(attempt(lambda: gradcheck(t, lambda a: a * 2, real(t))))

    agree(script)


# -- Custom functions --------------------------------------------------------------------------------------
@MODES
def test_a_backward_that_varies(fast):
    def script(t):
        count = iter(range(10**6))
        f = function(t, lambda ctx, g: g * (2 + 1e-7 * next(count)))
        return [
            summary(attempt(lambda: gradcheck(t, f, real(t), fast_mode=fast)))[1].split(",")[0],
            gradcheck(t, f, real(t), fast_mode=fast, raise_exception=False),
            gradcheck(t, f, real(t), fast_mode=fast, nondet_tol=1e-2),
        ]

    agree(script)


def test_a_backward_that_varies_twice():
    def script(t):
        count = iter(range(10**6))

        def backward(ctx, g):
            return Again.apply(g) * (1 + 1e-14 * next(count))

        class Again(t.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a * 2

        Again.backward = staticmethod(backward)
        f = lambda a: Again.apply(a).sin()  # noqa: E731
        first = attempt(lambda: gradgradcheck(t, f, real(t)))
        second = gradgradcheck(t, f, real(t), nondet_tol=1)
        return type(first).__name__, "Backward is not reentrant" in str(first), second

    agree(script)


UNDEFINED = {
    "handled": lambda t, g, h: (None if g is None else g * 2, None if h is None else h * 2),
    "zeros": lambda t, g, h: tuple(t.zeros(3, dtype=t.float64) if x is None else x * 2 for x in (g, h)),
    "ones instead": lambda t, g, h: (t.ones(3, dtype=t.float64),) * 2 if g is h else UNDEFINED["handled"](t, g, h),
    "refused": lambda t, g, h: _refuse(RuntimeError("no gradient")) if g is h else UNDEFINED["handled"](t, g, h),
    "another error": lambda t, g, h: _refuse(TypeError("no gradient")) if g is h else UNDEFINED["handled"](t, g, h),
}


def _refuse(error):
    raise error


@MODES
@pytest.mark.parametrize("case", UNDEFINED)
def test_undefined_gradients(case, fast):
    """What a backward makes of None for the gradients of all outputs."""

    def script(t):
        backward = lambda ctx, *grads: UNDEFINED[case](t, *grads)  # noqa: E731
        f, inputs = function(t, backward, outputs=2, materialize=False), (real(t), real(t))
        error = attempt(lambda: gradcheck(t, f, inputs, fast_mode=fast))
        off = gradcheck(t, f, inputs, fast_mode=fast, check_undefined_grad=False)
        return summary(error)[1].split(".")[0].split(":")[0] if error is not True else True, off

    agree(script)


def test_undefined_gradients_of_single_outputs():
    def script(t):
        seen = []

        def backward(ctx, *grads):
            seen.append([None if g is None else g.tolist() for g in grads])
            return tuple(None if g is None else g * 2 for g in grads)

        f = function(t, backward, outputs=3, materialize=False)
        gradcheck(t, f, (real(t, 1.0), real(t, 2.0), real(t, 3.0)))
        return seen

    agree(script)


@MODES
def test_hooks_see_undefined_gradients(fast):
    def script(t):
        def f(a):
            out = a.clone()
            out.register_hook(lambda g: _refuse(RuntimeError("undefined")) if g is None else None)
            return out

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            error = attempt(lambda: gradcheck(t, f, real(t), fast_mode=fast))
        warned = [str(w.message)[:50] for w in caught]
        return summary(error)[1].split(".")[0].split(":")[0], warned

    agree(script)


def test_batched_gradients_that_read_values():
    def script(t):
        f = function(t, lambda ctx, g: g * 2 * (1 if g.sum().item() > -100 else 0))
        error = attempt(lambda: gradcheck(t, f, real(t), check_batched_grad=True))
        return summary(error)[1].split(":")[0].split(",")[0], gradcheck(t, f, real(t))

    agree(script)


def test_gradient_dtypes():
    agree(verdict(gradcheck, lambda t: function(t, lambda ctx, g: g * 2), real, check_grad_dtypes=True))
    agree(verdict(gradcheck, lambda t: lambda a: a.real, cplx, check_grad_dtypes=True))


# -- Second derivatives ------------------------------------------------------------------------------------
@MODES
@pytest.mark.parametrize("case", TWICE)
def test_gradgradcheck(case, fast):
    agree(lambda t: summary(attempt(lambda: gradgradcheck(t, *TWICE[case](t), fast_mode=fast))))
    agree(lambda t: summary(attempt(
        lambda: gradgradcheck(t, *TWICE[case](t), fast_mode=fast, gen_non_contig_grad_outputs=True,
                              raise_exception=False))))  # fmt: skip


def test_gradgradcheck_flags():
    agree_error(lambda t: gradgradcheck(t, lambda a: a, real(t), check_rev_over_rev=False),
                "at least one of check_fwd_over_rev or check_rev_over_rev")  # fmt: skip
    agree(lambda t: gradgradcheck(t, lambda a: a**3, real(t), check_batched_grad=True))
    for f in (lambda a: (), lambda a: a.detach()):
        error = attempt(lambda f=f: gradgradcheck(torchlike, f, real(torchlike)))
        assert isinstance(error, TypeError) and "no output that requires grad" in str(error)


# -- Jacobians ---------------------------------------------------------------------------------------------
def quiet(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f()


def rounded(x):
    if isinstance(x, tuple):
        return tuple(map(rounded, x))
    return x if isinstance(x, bool) else (x * 1000).abs().round()


JACOBIANS = {
    "numerical": lambda t: module(t).get_numerical_jacobian(lambda i: i[0] ** 2, (real(t),)),
    "numerical, of the first output": lambda t: module(t).get_numerical_jacobian(
        lambda i: (i[0].sum(), i[0]), real(t), eps=1e-6
    ),
    "numerical, by one input": lambda t: (
        lambda x, y: module(t).get_numerical_jacobian(lambda i: i[0] * i[1], [x, y], y)
    )(real(t), real(t)),
    "numerical, by those that require grad": lambda t: module(t).get_numerical_jacobian(
        lambda i: i[0] * i[1], (real(t), real(t, grad=False))
    ),
    "numerical, complex to real": lambda t: module(t).get_numerical_jacobian(lambda i: i[0].abs(), (cplx(t),)),
    "by number": lambda t: (
        lambda x, y: module(t).get_numerical_jacobian_wrt_specific_input(
            lambda p, q: (p * q, p), 1, (x, y), (x * y, x), 1e-6)
    )(real(t), real(t)),
    "forwards, real to complex": lambda t: (
        lambda x: module(t).get_numerical_jacobian_wrt_specific_input(
            lambda p: (p * (1 + 1j),), 0, (x,), (x * (1 + 1j),), 1e-6, is_forward_ad=True)
    )(real(t)),
    "analytical": lambda t: (lambda x, y: module(t).get_analytical_jacobian((x, y), x * y))(real(t), real(t)),
    "analytical, complex to real": lambda t: (lambda z: module(t).get_analytical_jacobian((z,), z.abs()))(cplx(t)),
    "analytical, wide": lambda t: (lambda x: module(t).get_analytical_jacobian((x,), t.cat([x, x])))(real(t)),
}  # fmt: skip


@pytest.mark.parametrize("case", JACOBIANS)
def test_jacobians(case):
    agree(lambda t: rounded(quiet(lambda: JACOBIANS[case](t))))


def test_jacobians_refuse():
    for name in ("numerical", "analytical"):

        def call(t, name=name, square=lambda x: x**2, make=real, **keywords):
            x = make(t)
            get = getattr(module(t), f"get_{name}_jacobian")
            arguments = (lambda i: square(i[0]), (x,)) if name == "numerical" else ((x,), square(x))
            return get(*arguments, **keywords)

        agree_error(lambda t: call(t, grad_out=2.0), f"Expected grad_out to be 1.0. get_{name}_jacobian no longer")
        agree_error(lambda t: call(t, make=cplx), "Expected output to be non-complex")
        with pytest.warns(FutureWarning, match=f"get_{name}_jacobian` was part of PyTorch's private API"):
            call(torchlike)
    agree_error(lambda t: module(t).get_numerical_jacobian_wrt_specific_input(
        lambda z: (z**2,), 0, (cplx(t),), (cplx(t) ** 2,), 1e-6, is_forward_ad=True),
        "Expected ds_dx to be real-valued")  # fmt: skip


@pytest.mark.parametrize("keywords", [{}, {"gen_non_contig_grad_outputs": True}, {"fast_mode": True}], ids=str)
@pytest.mark.parametrize("point", [real, cplx])
def test_gradgradcheck_draws_pytorchs_gradients(point, keywords):
    def first(t):
        seen = []

        class F(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, g):
                seen.append((g.tolist(), g.stride()))
                return g * 1

        t.manual_seed(0)
        return gradgradcheck(t, F.apply, (point(t),), **keywords), seen[0]

    agree(first)
