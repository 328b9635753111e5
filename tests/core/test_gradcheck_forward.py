"""gradcheck(check_forward_ad=True) and gradgradcheck(check_fwd_over_rev=True), as PyTorch's."""

import re

import pytest
from both import agree, agree_error, attempt
from gradcheck_kit import MODES, RIGHT, TWICE, cplx, gradcheck, gradgradcheck, real, summary

import torchlike
import torchlike.autograd.gradcheck

FORWARD = {"check_forward_ad": True}
ALONE = {"check_forward_ad": True, "check_backward_ad": False}
SECOND = {"check_fwd_over_rev": True, "check_rev_over_rev": False, "check_undefined_grad": False}
# Where only some inputs or outputs are differentiable, PyTorch's fast mode fails with an IndexError.
SOME = {"one input requires no grad", "one detached output", "stride 0 without grad"}


def times(t, factor, offset=0.0, backward=None):
    """The identity, with this derivative forwards."""

    class Times(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a.clone()

        @staticmethod
        def backward(ctx, g):
            return g if backward is None else backward(g)

        @staticmethod
        def jvp(ctx, d):
            return factor(d) if callable(factor) else d * factor + offset

    return Times.apply


def pair(t, jvp, backward=lambda ctx, *grads: grads, materialize=False):
    """Both inputs, with this derivative forwards."""

    class Pair(t.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.set_materialize_grads(materialize)
            return a.clone(), b.clone()

    Pair.jvp, Pair.backward = staticmethod(jvp), staticmethod(backward)
    return Pair.apply


@MODES
@pytest.mark.parametrize("case", RIGHT)
def test_right(case, fast):
    if not (fast and case in SOME):
        agree(lambda t: gradcheck(t, *RIGHT[case](t), fast_mode=fast, **FORWARD))
    assert gradcheck(torchlike, *RIGHT[case](torchlike), fast_mode=fast, check_batched_forward_grad=True, **ALONE)


# name: t, wrong -> (function, inputs)
WRONG = {
    "wrong": lambda t, w: (w, real(t)),
    "two in, two out": lambda t, w: (lambda a, b: (a + w(b), w(a) + b), (real(t), real(t))),
    "second of both": lambda t, w: (lambda a, b: (a, w(b)), (real(t), real(t))),
    "complex": lambda t, w: (w, cplx(t)),
    "complex to real": lambda t, w: (lambda a: w(a).abs(), cplx(t)),
    "of the real part": lambda t, w: (lambda a: w(a.real), cplx(t)),
    "of the imaginary part": lambda t, w: (lambda a: w(a.imag), cplx(t)),
    "real inputs first": lambda t, w: (lambda a, b: (a.real + w(b), w(a.real) + b), (cplx(t), real(t, 1.0, 2.0))),
    "real parts of two": lambda t, w: (lambda a, b: (w(b.real), w(a.real)), (cplx(t), cplx(t))),
    "to complex": lambda t, w: (lambda a: t.complex(w(a), a), real(t)),
    "both at once": lambda t, w: (lambda a: w(a.clone()), real(t)),
    "an input without history": lambda t, w: (lambda a, n, b: a * w(b), (real(t, grad=False), 5, real(t))),
    "without grad mode": lambda t, w: (t.no_grad()(w), real(t)),
    "in place": lambda t, w: (lambda a: w(a).mul_(a), real(t)),
}


@MODES
@pytest.mark.parametrize("keywords", [FORWARD, ALONE], ids=["both", "alone"])
@pytest.mark.parametrize("case", WRONG)
def test_wrong(case, keywords, fast):
    def script(t):
        f, inputs = WRONG[case](t, times(t, 1.5))
        error = attempt(lambda: gradcheck(t, f, inputs, fast_mode=fast, **keywords))
        if isinstance(error, IndexError):
            assert fast and t is not torchlike
            return None
        assert type(error).__name__ == "GradcheckError", error
        return summary(error), gradcheck(t, f, inputs, fast_mode=fast, raise_exception=False, **keywords)

    if fast and case in ("an input without history", "without grad mode"):
        assert script(torchlike) is not None
    else:
        agree(script)


def test_the_matrices_are_shown():
    def text(t, case):
        error = attempt(lambda: gradcheck(t, *WRONG[case](t, times(t, 1.5)), **FORWARD))
        return re.sub(r",\s*grad_fn=<\w+>", "", str(error)).replace("-0.j", "+0.j").strip()

    for case in WRONG:
        agree(lambda t, case=case: text(t, case))


def test_fast_mode_shows_them_too():
    error = attempt(lambda: gradcheck(torchlike, times(torchlike, 1.5), real(torchlike), fast_mode=True, **FORWARD))
    expected = r"numerical:tensor\(.*\nanalytical:tensor\(.*Numerical:\n tensor\(\[\[1.0000, 0.*slow mode\) is: 0.50"
    assert re.search(expected, str(error), re.DOTALL), error


def test_fast_mode_says_where_slow_mode_passes():
    def script(t):
        signs = t.tensor([1.0, -1.0], dtype=t.float64)
        f = times(t, lambda d: d + 9e-4 * d.sum() * signs.abs())
        x = t.tensor([1.0, 2.0], dtype=t.float64, requires_grad=True)
        error = attempt(lambda: gradcheck(t, f, x, atol=1e-3, rtol=0, fast_mode=True, **FORWARD))
        return error if error is True else "might've passed in slow_mode" in " ".join(str(error).split())

    agree(script)


@MODES
@pytest.mark.parametrize("n", [1, 3, 10])
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_tolerances_add_up(kind, n, fast):
    offset = 0.01 if kind == "float64" else 0.01 + 0.01j

    def script(t):
        x = t.ones(n, dtype=getattr(t, kind), requires_grad=True)
        bounds = (0.0099, 0.0101) if kind == "float64" else (0.0140, 0.0143)
        f = times(t, lambda d: d + offset * d.sum())
        return [gradcheck(t, f, x, rtol=0, atol=b, fast_mode=fast, raise_exception=False, **FORWARD) for b in bounds]

    agree(script)
    assert script(torchlike) == [False, True]


@MODES
def test_what_the_function_sees(fast):
    def script(t):
        seen, fw = [], t.autograd.forward_ad

        def f(a, b, c):
            seen.append([(x.requires_grad, x.is_leaf, fw.unpack_dual(x).tangent is None) for x in (a, b, c)])
            return a * b * c

        gradcheck(t, f, (real(t), real(t), real(t)), fast_mode=fast, **FORWARD)
        return [s for s in seen if s[0] != (True, True, True)]

    agree(script)


@MODES
def test_refused(fast):
    def no_jvp(t):
        class Same(t.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a.clone()

            @staticmethod
            def backward(ctx, g):
                return g

        return Same.apply

    def refused(match, f, **keywords):
        agree_error(lambda t: gradcheck(t, f(t), real(t), fast_mode=fast, **FORWARD, **keywords), match)

    refused("You must implement the jvp function", no_jvp)
    refused("You must implement the jvp function", no_jvp, raise_exception=False)
    refused("different size than that of the original Tensor", lambda t: times(t, lambda d: d.sum()))
    refused("leaf Variable that requires grad", lambda t: lambda a: a.mul_(2))
    agree_error(lambda t: t.autograd.forward_ad.dual_level()(lambda: gradcheck(t, t.sin, real(t), **FORWARD))(),
                "Nested forward mode AD is not supported")  # fmt: skip


@MODES
def test_the_backward_is_checked_first(fast):
    def script(t):
        f = times(t, 3.0, backward=lambda g: g * 2)
        error = attempt(lambda: gradcheck(t, f, real(t), fast_mode=fast, **FORWARD))
        return summary(error), summary(attempt(lambda: gradcheck(t, f, real(t), fast_mode=fast, **ALONE)))

    agree(script)


def right_but(t, none):
    return lambda ctx, a, b: tuple(none(t) if d is None else d for d in (a, b))


UNDEFINED = {
    "zeros": lambda t: t.zeros(3, dtype=t.float64),
    "ones": lambda t: t.ones(3, dtype=t.float64),
    "refused": lambda t: t.ones(3) @ t.ones(2),
    "another error": lambda t: 1 / 0,
}


@MODES
@pytest.mark.parametrize("case", UNDEFINED)
def test_undefined_tangents(case, fast):
    def script(t):
        f, inputs = pair(t, right_but(t, UNDEFINED[case])), (real(t), real(t))
        error = attempt(lambda: gradcheck(t, f, inputs, fast_mode=fast, **ALONE))
        off = gradcheck(t, f, inputs, fast_mode=fast, check_undefined_grad=False, **ALONE)
        return type(error).__name__, "has an undefined tangent value" in str(error), off

    agree(script)


def test_one_input_without_tangent_is_not_tried():
    agree(lambda t: gradcheck(t, times(t, lambda d: d + (1 if (d == 0).all() else 0)), real(t), **ALONE))


# -- batched tangents ----------------------------------------------------------------------------------------

UNBATCHED = {
    "item": lambda t, d: d * (1 if d.sum().item() > -100 else 2),
    "bool": lambda t, d: d if d.sum() > -100 else d * 2,
    "out": lambda t, d: t.mul(d, 1, out=t.zeros(3, dtype=t.float64)),
    "random": lambda t, d: d + 0 * t.rand(3, dtype=t.float64),
    "in place": lambda t, d: t.zeros(3, dtype=t.float64).add_(d),
    "fine": lambda t, d: d.clone().mul_(1),
}


@MODES
@pytest.mark.parametrize("case", UNBATCHED)
def test_batched_tangents(case, fast):
    def script(t):
        f = times(t, lambda d: UNBATCHED[case](t, d))
        error = attempt(lambda: gradcheck(t, f, real(t), fast_mode=fast, check_batched_forward_grad=True, **FORWARD))
        return str(error).split(",")[0], gradcheck(t, f, real(t), fast_mode=fast, **FORWARD)

    agree(script)


def test_a_batch_that_differs_from_its_rows():
    f = times(torchlike, lambda d: d * (3 if "Batched" in repr(d) else 1))
    with pytest.raises(RuntimeError, match="For output 0 and input 0, the batched tangent is not"):
        gradcheck(torchlike, f, real(torchlike), check_batched_forward_grad=True, **FORWARD)


# -- second derivatives --------------------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("case", TWICE)
def test_gradgradcheck(case, fast):
    agree(lambda t: summary(attempt(lambda: gradgradcheck(t, *TWICE[case](t), fast_mode=fast, **SECOND))))


@MODES
@pytest.mark.parametrize("case", ["cube", "two", "complex to real", "wrong"])
def test_gradgradcheck_both_ways(case, fast):
    keywords = {"check_fwd_over_rev": True, "check_batched_grad": True, "gen_non_contig_grad_outputs": True}
    agree(lambda t: summary(attempt(lambda: gradgradcheck(t, *TWICE[case](t), fast_mode=fast, **keywords))))


FLAGS = {
    "undefined": ({"check_fwd_over_rev": True, "check_rev_over_rev": False},
                  "check_undefined_grad=True requires check_rev_over_rev to be True"),
    "batched": ({**SECOND, "check_batched_grad": True}, "check_batched_grad=True requires check_rev_over_rev to be"),
    "none": ({"check_rev_over_rev": False}, "at least one of check_fwd_over_rev or check_rev_over_rev"),
}  # fmt: skip


@pytest.mark.parametrize("case", FLAGS)
def test_refused_flags(case):
    keywords, match = FLAGS[case]
    agree_error(lambda t: gradgradcheck(t, lambda a: a, real(t), **keywords), match)


def test_a_backward_without_derivative_forwards():
    def script(t):
        class Square(t.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.save_for_backward(a)
                ctx.save_for_forward(a)
                return a**2

            @staticmethod
            def backward(ctx, g):
                return 2 * ctx.saved_tensors[0].detach() * g

            @staticmethod
            def jvp(ctx, d):
                return 2 * ctx.saved_tensors[0] * d

        return summary(attempt(lambda: gradgradcheck(t, Square.apply, real(t), real(t), **SECOND)))

    agree(script)


@pytest.mark.parametrize("needed", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("undefined", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_how_often_the_rule_is_called(needed, undefined, batched):
    def f(t):
        calls = []

        class Twice(t.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                return x.clone(), y.clone()

            @staticmethod
            def jvp(ctx, x, y):
                calls.append(1)
                return x, y

        inputs = [t.ones(1, dtype=t.float64, requires_grad=yes) for yes in needed]
        t.autograd.gradcheck(Twice.apply, inputs, check_forward_ad=True, check_undefined_grad=undefined,
                             check_backward_ad=False, check_batched_grad=False,
                             check_batched_forward_grad=batched)  # fmt: skip
        return len(calls)

    agree(f)
