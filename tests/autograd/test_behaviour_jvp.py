"""What forward mode demands of a Function's jvp, and of out=."""

from both import attempt
from story_kit import said, story, warned


def _dual(t, how, primal, dot):
    fw = t.autograd.forward_ad
    if how == "view":
        return fw.make_dual(primal, dot).view_as(primal)
    return fw.make_dual(primal.view_as(primal), dot.view_as(dot)) if how == "views" else fw.make_dual(primal, dot)


def _views(t):
    class Narrow(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, make):
            ctx.make = make
            return x[:2]

        @staticmethod
        def jvp(ctx, x, y, _):
            return ctx.make(x, y)

    class Same(Narrow):
        @staticmethod
        def forward(ctx, x, y, make):
            ctx.make = make
            return x

    class Own(Narrow):
        @staticmethod
        def forward(ctx, x, y, make):
            ctx.make = make
            return x.clone()[:2]

    return Narrow, Same, Own


@story
def test_the_tangent_of_a_view_is_a_view_of_the_inputs(t):
    makes = {
        "part": lambda x, y: x[:2], "copy": lambda x, y: x[:2].clone(), "other": lambda x, y: y[:2],
        "strange": lambda x, y: t.zeros(3)[:2] + 0, "view of strange": lambda x, y: t.zeros(3)[:2],
    }  # fmt: skip
    found = []
    narrow, _, own = _views(t)
    fw = t.autograd.forward_ad
    for cls, named, how in [(narrow, n, h) for n in makes for h in ("base", "view", "views")] + [(own, "part", "base")]:
        with fw.dual_level():
            x = _dual(t, how, t.ones(3), t.tensor([1.0, 2.0, 3.0]))
            y = fw.make_dual(t.ones(3), t.tensor([4.0, 5.0, 6.0]))
            found.append(said(lambda: fw.unpack_dual(cls.apply(x, y, makes[named])).tangent, "^A custom.*"))  # noqa: B023
    return found


@story
def test_the_tangent_of_an_input_that_is_returned(t):
    same = _views(t)[1]
    makes = (lambda x, y: x, lambda x, y: x.view_as(x), lambda x, y: x.clone(), lambda x, y: x.clone().view_as(x))
    found = []
    for make in makes:
        with t.autograd.forward_ad.dual_level():
            x = t.autograd.forward_ad.make_dual(t.ones(2), t.tensor([1.0, 2.0]))
            found.append(said(lambda: t.autograd.forward_ad.unpack_dual(same.apply(x, x, make)).tangent, "^A custom.*"))  # noqa: B023
    return found


@story
def test_a_transform_takes_the_tangent_of_a_view_as_it_is(t):
    class Head(t.autograd.Function):
        @staticmethod
        def forward(x):
            return x[:2]

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def jvp(ctx, x):
            return t.tensor([5.0, 6.0, 7.0])[:2]

    return t.func.jvp(lambda x: Head.apply(x * 1), (t.ones(3),), (t.ones(3),))


def _changing(t, make):
    class Doubled(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, x, y):
            return make(x, y)

    return Doubled


@story
def test_the_tangent_of_a_changed_input_is_changed_too(t):
    makes = (
        lambda x, y: x.mul_(2), lambda x, y: x, lambda x, y: x * 2, lambda x, y: x.mul_(2).view_as(x), lambda x, y: y,
    )  # fmt: skip
    found = []
    fw = t.autograd.forward_ad
    for make in makes:
        for which in ("x", "y", "xy"):
            with fw.dual_level():
                x = fw.make_dual(t.ones(2), t.tensor([1.0, 2.0])) if "x" in which else t.ones(2)
                y = fw.make_dual(t.ones(2), t.tensor([3.0, 4.0])) if "y" in which else t.ones(2)
                apply = _changing(t, make).apply
                found.append(said(lambda: fw.unpack_dual(apply(x, y)).tangent, "^An inplace.*"))  # noqa: B023
    return found


@story
def test_jvp_is_given_what_was_saved_for_it(t):
    found = []

    class Kept(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, which):
            if "b" in which:
                ctx.save_for_backward(x)
            if "f" in which:
                ctx.save_for_forward(x, x)
            return x.clone()

        @staticmethod
        def jvp(ctx, x, _):
            found.append(len(ctx.saved_tensors))
            return x

        @staticmethod
        def backward(ctx, grad):
            found.append(len(ctx.saved_tensors))
            return grad, None

    for which in ("", "b", "f", "bf"):
        with t.autograd.forward_ad.dual_level():
            x = t.autograd.forward_ad.make_dual(t.ones(2, requires_grad=True), t.ones(2))
            Kept.apply(x, which).sum().backward()
    return found


@story
def test_out_has_no_tangents(t):
    fw = t.autograd.forward_ad
    with fw.dual_level():
        x, plain = fw.make_dual(t.ones(2), t.ones(2)), t.ones(2)
        calls = [
            lambda: t.add(plain, plain, out=x), lambda: t.add(x, plain, out=plain), lambda: t.eq(x, x, out=plain),
            lambda: t.argmax(x, out=t.tensor(0)), lambda: t.cat([x, plain], out=t.zeros(4)),
            lambda: t.sort(x, out=(plain, t.zeros(2, dtype=t.long))), lambda: t.add(plain, plain, out=t.zeros(2)),
        ]  # fmt: skip
        found = [said(call, "^.* is an out= function") for call in calls]
        with t.no_grad():
            return found[:-1], said(calls[1], "^.* is an out= function")


@story
def test_out_has_no_tangents_under_a_transform(t):
    def of(f):
        return said(lambda: t.func.jvp(f, (t.ones(2),), (t.ones(2),)), "^.* is an out= function")

    return of(lambda x: t.add(x, x, out=t.zeros(2))), of(lambda x: t.add(t.ones(2), 1, out=x.clone()))


@story
def test_marking_dirty_what_was_no_input(t):
    class Wrong(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 3
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    x = t.ones(2, requires_grad=True)
    got = []
    pattern = "^.*to ctx.mark_dirty"
    warnings = warned(lambda: got.append(Wrong.apply(x)), pattern)
    with t.no_grad():
        quiet = warned(lambda: Wrong.apply(x), pattern)
    got[0].sum().backward()
    return warnings, quiet, x.grad, got[0]._version


_RANGES = ("arange(3., out=d)", "linspace(0, 1, 3, out=d)", "logspace(0, 1, 3, out=d)", "range(0, 2, out=d)")
_SIZED = ("zeros", "ones", "rand", "randn", "randperm")
_MORE = ("full((3,), 2., out=d)", "empty(3, out=d)", "eye(3, out=m)")
_FILLED = (*_RANGES, *(f"{name}(3, out=d)" for name in _SIZED), *_MORE)


@story
def test_what_fills_out_refuses_dual_tensors(t):
    """A tangent that stayed as it was would be wrong. The words differ: PyTorch resizes what some of them fill."""
    found = []
    for call in _FILLED:
        with t.autograd.forward_ad.dual_level():
            d = t.autograd.forward_ad.make_dual(t.ones(3), t.ones(3))
            names = {"t": t, "d": d, "m": d.expand(3, 3).clone()}
            found.append("forward" in str(attempt(lambda: eval(f"t.{call}", names))))  # noqa: B023
    return found


@story
def test_geometry_of_dual_tensors_is_fixed(t):
    with t.autograd.forward_ad.dual_level():
        d = t.autograd.forward_ad.make_dual(t.ones(3), t.ones(3))
        calls = lambda: d.resize_(4), lambda: d.set_(t.zeros(3)), lambda: t.zeros(3).set_(d), lambda: d.set_()
        return [said(call, "^Trying to use forward AD with set_|^cannot resize variables") for call in calls]
