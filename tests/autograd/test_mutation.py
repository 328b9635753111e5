"""Changing saved tensors in place: allowed by a context, hidden from version counters, or counted by hand."""

import gc
import threading

import pytest
from both import agree, attempt
from story_kit import leaf, said, story

OUTSIDE = "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"


def allowed(t):
    return t.autograd.graph.allow_mutation_on_saved_tensors()


CHANGES = {
    "itself": lambda t, b: b.mul_(5),
    "a function": lambda t, b: b.sin_(),
    "a part": lambda t, b: b[:2].mul_(5),
    "an item": lambda t, b: b.__setitem__(0, 9.0),
    "items": lambda t, b: b.__setitem__(slice(1), 7.0),
    "a mask": lambda t, b: b.masked_fill_(b > 1, 4.0),
    "a reshape": lambda t, b: b.view(3, 1).exp_(),
    "detached": lambda t, b: b.detach().mul_(2),
    "out": lambda t, b: t.no_grad()(lambda: t.mul(b, 5, out=b))(),
    "copied into": lambda t, b: b.copy_(t.zeros(3)),
    "twice": lambda t, b: b.mul_(2).add_(1),
}
SAVES = {
    "square": lambda t, b: b * b,
    "a view of it": lambda t, b: b.view(3, 1) ** 2,
    "its own result": lambda t, b: b.exp_(),
    "an expansion": lambda t, b: b.expand(2, 3) ** 3,
    "two nodes": lambda t, b: b**2 + b**3,
    "a part": lambda t, b: b[1:].exp() * b[:2],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("save", SAVES)
def test_changed_after_it_was_saved(save, change):
    def f(t):
        with allowed(t):
            x = leaf(t)
            b = x.clone()
            y = SAVES[save](t, b)
            total = y.sum()
            CHANGES[change](t, b)
            total.backward()
        return x.grad, b

    agree(f)


@pytest.mark.parametrize("save", SAVES)
def test_second_order(save):
    def f(t):
        with allowed(t):
            x = leaf(t)
            b = x.clone()
            total = SAVES[save](t, b).sum()
            b.mul_(2)
            (g,) = t.autograd.grad(total, x, create_graph=True)
            other = (g * g).sum() if g.requires_grad else g.sum()
            b.zero_()
            return g, t.autograd.grad(other, x, allow_unused=True) if other.requires_grad else None

    agree(f)


@story
def test_a_chain_of_changes(t):
    with allowed(t):
        x = leaf(t)
        b = x.clone()
        b.exp_()
        b.mul_(2)
        b.sigmoid_()
        b.add_(b)
        b[1:] *= b[:2].clone()
        b.sum().backward()
    return x.grad


@story
def test_a_leaf_changed_without_recording(t):
    with allowed(t):
        w, x = leaf(t), leaf(t, 4, 5, 6)
        loss = ((w * x) ** 2).sum()
        loss.backward(retain_graph=True)
        first = w.grad.clone()
        with t.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        loss.backward()
    return first, w.grad, w


@story
def test_what_the_context_counts(t):
    seen = []
    with allowed(t) as context:

        def count():
            gc.collect()
            seen.append((len(context.original), len(context.cloned), len(context.tid_to_weakhandle)))

        x = leaf(t)
        b = x.clone()
        y = b**2
        z = b**3
        count()
        b.sin_()
        count()
        w = b**2
        count()
        head, same = b[:2], b[:2]
        v = head**2 + same**2
        count()
        b.add_(1)
        count()
        (y + z + w).sum().backward()
        count()
        del v
        count()
        del y, z, w
        count()
    return seen, x.grad


@story
def test_cleared(t):
    with allowed(t) as context:
        x = leaf(t)
        b = x.clone()
        y = (b**2).sum()
        b.mul_(2)
        context.clear()
        return said(lambda: y.backward(), OUTSIDE), x.grad, len(context.original), len(context.cloned)


@story
def test_backward_outside(t):
    with allowed(t):
        x = leaf(t)
        y = (x.clone() ** 2).sum()
    outside = said(lambda: y.backward(), OUTSIDE)
    with allowed(t):
        return outside, said(lambda: y.backward(), OUTSIDE), x.grad


@story
def test_not_nested(t):
    def nested():
        with allowed(t), allowed(t):
            pass

    error = said(nested, "allow_mutation_on_saved_tensors contexts cannot be nested")
    with allowed(t):
        x = leaf(t)
        b = x.clone()
        y = (b * b).sum()
        b.zero_()
        y.backward()
    return error, x.grad


@story
def test_after_an_error_all_is_as_before(t):
    def failing():
        with allowed(t):
            raise ValueError("x")

    error = said(failing)
    x = leaf(t)
    b = x.clone()
    y = (b * b).sum()
    b.zero_()
    return error, said(lambda: y.backward(), "modified by an inplace operation")


@story
def test_another_thread_does_not_allow_it(t):
    out = []

    def use():
        b = leaf(t).clone()
        y = (b * b).sum()
        b.zero_()
        out.append(said(lambda: y.backward(), "modified by an inplace operation"))

    with allowed(t):
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    return out


@story
def test_as_a_decorator(t):
    @allowed(t)
    def f():
        x = leaf(t)
        b = x.clone()
        y = (b * b).sum()
        b.zero_()
        y.backward()
        return x.grad

    return f(), f()


@story
def test_other_hooks_inside(t):
    log = []
    with allowed(t):
        with t.autograd.graph.saved_tensors_hooks(lambda v: log.append("pack") or v.clone(), lambda v: v):
            x = leaf(t)
            b = x.clone()
            y = (b * b).sum()
        b.zero_()
        y.backward()
    return log, x.grad


@story
def test_where_hooks_are_disabled(t):
    def use():
        with t.autograd.graph.disable_saved_tensors_hooks("no hooks"), allowed(t):
            pass

    error = said(use)
    with allowed(t):
        return error


@story
def test_what_a_node_shows(t):
    with allowed(t):
        x = leaf(t)
        b = x.clone()
        y = b * b
        b.mul_(3)
        return y.grad_fn._saved_self, y.grad_fn._saved_self.grad_fn.name()


# -- version counters ----------------------------------------------------------------------------------


@story
def test_increment_version(t):
    bump = t.autograd.graph.increment_version
    b = leaf(t) * 1
    y, view = (b * b).sum(), b[1:]
    bump(b)
    seen = [b._version, view._version, said(lambda: y.backward(), "is at version 1; expected version 0")]
    bump([b, view, b.detach(), b.data])
    bump(x for x in (b,))
    bump([])
    return seen, b._version, bump(view), b._version


@pytest.mark.parametrize("wrong", [3, None, [3], [None]])
def test_increment_version_wants_tensors(wrong):
    agree(lambda t: said(lambda: t.autograd.graph.increment_version(wrong), "increment_version expect"))


@story
def test_a_version_kept(t):
    keep = t.autograd.grad_mode._unsafe_preserve_version_counter
    x = leaf(t)
    b = x * 1
    y, a, c = (b * b).sum(), t.ones(2), t.ones(2)
    with keep(b) as entered:
        b.mul_(3)
        during = b._version
    y.backward()
    with keep((a, c)):
        a.add_(1)
        c[0].mul_(2)

    def failing():
        with keep(a):
            a.add_(1)
            raise KeyError("x")

    return entered, during, b._version, x.grad, said(failing), a, a._version, c._version


@pytest.mark.parametrize("wrong", [3, None, []])
def test_a_version_kept_of_a_tuple(wrong):
    agree(lambda t: attempt(lambda: t.autograd.grad_mode._unsafe_preserve_version_counter(wrong)))
