"""What hooks may do in backward: register, remove, replace, run a backward, raise; compared with torch."""

import copy
import functools
import gc
import weakref

import pytest
from both import agree, agree_error, attempt
from hook_kit import Log, accumulator, leaf, messages


class Twice:
    """A hook that has no name."""

    def __call__(self, g):
        return g * 2


# -- what a hook may do --------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["tensor", "leaf", "pre", "post", "accumulated"])
def test_a_handle_removed_in_a_hook(kind):
    def code(T):
        log, x, handles = Log(), leaf(T), []
        y = x.exp()
        register = {
            "tensor": y.register_hook,
            "leaf": x.register_hook,
            "pre": y.grad_fn.register_prehook,
            "post": y.grad_fn.register_hook,
            "accumulated": x.register_post_accumulate_grad_hook,
        }[kind]

        def hook(i, *args):
            log.append(i)
            handles[i].remove()

        handles += [register(functools.partial(hook, i)) for i in range(3)]
        o = y.sum()
        first = messages(lambda: o.backward(retain_graph=True))[0]
        o.backward()
        return first is None or first, log

    agree(code)


@pytest.mark.parametrize("kind", ["tensor", "leaf", "pre", "post"])
def test_a_handle_removed_before(kind):
    def code(T):
        log, x = Log(), leaf(T)
        y = x.exp()
        register, make = {
            "tensor": (y.register_hook, log.tensor),
            "leaf": (x.register_hook, log.tensor),
            "pre": (y.grad_fn.register_prehook, log.pre),
            "post": (y.grad_fn.register_hook, log.post),
        }[kind]
        handles = [register(make(i)) for i in range(3)]
        handles[1].remove()
        handles[1].remove()
        with register(make("inside")):
            y.sum().backward(retain_graph=True)
        y.sum().backward()
        for handle in handles:
            handle.remove()
        register(make("again"))
        y = x.exp()
        y.sum().backward()
        return log

    agree(code)


def test_hooks_registered_during_backward():
    def code(T):
        log, x = Log(), leaf(T)
        y = x.exp()
        z = y.sin()

        def hook(g):
            log.append("z")
            z.register_hook(log.tensor("z late"))
            y.register_hook(log.tensor("y late"))
            x.register_hook(log.tensor("x late"))
            z.grad_fn.register_hook(log.post("z node late"))
            x.register_post_accumulate_grad_hook(log.leaf("accumulated late"))
            y.retain_grad()

        z.register_hook(hook)
        o = z.sum()
        o.backward(retain_graph=True)
        o.backward()
        return log, y.grad, x.grad

    agree(code)


@pytest.mark.parametrize("create", [False, True])
def test_grad_mode_in_hooks(create):
    def code(T):
        log, x = Log(), leaf(T)
        y = x.exp()

        def mode(*args):
            log.append(T.is_grad_enabled())

        y.register_hook(mode)
        y.grad_fn.register_prehook(mode)
        y.grad_fn.register_hook(mode)
        x.register_hook(mode)
        x.register_post_accumulate_grad_hook(mode)
        accumulator(x).register_hook(mode)
        y.sum().backward(create_graph=create)
        return log, T.is_grad_enabled()

    agree(code)


def test_hooks_in_no_grad_mode():
    def code(T):
        log, x = Log(), leaf(T)
        y = x.exp()
        o = y.sum()
        with T.no_grad():
            y.register_hook(log.tensor("y", lambda g: g * 2))
            o.backward()
        return log, x.grad

    agree(code)


def test_double_backward_through_replaced_gradients():
    def code(T):
        log, x = Log(), leaf(T)
        y = x.exp()
        y.register_hook(log.tensor("y", lambda g: g * g))
        y.grad_fn.register_prehook(log.pre("pre", lambda gs: (gs[0] * x,)))
        y.grad_fn.register_hook(log.post("post", lambda gs: (gs[0] * 3,)))
        (g,) = T.autograd.grad((y * 2).sum(), x, create_graph=True)
        (h,) = T.autograd.grad(g.sum(), x)
        return log, g, h

    agree(code)


def test_hooks_fire_again_in_double_backward():
    def code(T):
        log, x = Log(), leaf(T)
        y = x**2
        y.register_hook(log.tensor("y"))
        z = y**2
        (g,) = T.autograd.grad(z.sum(), x, create_graph=True)
        log.append("second")
        (h,) = T.autograd.grad(g.sum(), x)
        return log, g, h

    agree(code)


def test_a_hook_on_a_gradient():
    def code(T):
        log, x = Log(), leaf(T)
        (g,) = T.autograd.grad((x**3).sum(), x, create_graph=True)
        g.register_hook(log.tensor("g", lambda g: g * 2))
        g.sum().backward()
        return log, x.grad

    agree(code)


def test_a_backward_inside_a_hook():
    def code(T):
        log, x, w = Log(), leaf(T), leaf(T)

        def hook(g):
            with T.enable_grad():
                (w * g).sum().backward()
            log.append(T.is_grad_enabled())
            return g * w.grad

        y = x.exp()
        y.register_hook(hook)
        w.register_hook(log.tensor("w"))
        y.sum().backward()
        return log, x.grad, w.grad

    agree(code)


def test_a_post_accumulate_hook_that_steps_and_forgets():
    def code(T):
        x, seen = leaf(T), []

        def step(p):
            seen.append(T.is_grad_enabled())
            with T.no_grad():
                p.sub_(p.grad)
            p.grad = None

        x.register_post_accumulate_grad_hook(step)
        for _ in range(2):
            (x * x).sum().backward()
        return x, x.grad, seen

    agree(code)


def test_hooks_of_a_disabled_leaf():
    def code(T):
        log, x, y = Log(), leaf(T), leaf(T)
        y.register_hook(log.tensor("y"))
        o = (x * y).sum()
        y.requires_grad_(False)
        o.backward()
        return log, x.grad, y.grad

    agree(code)


def test_a_tensor_without_gradient_refuses_hooks():
    def code(T):
        x = T.ones(2)
        return [
            messages(lambda: x.register_hook(print))[0],
            messages(lambda: x.retain_grad())[0],
            messages(lambda: x.register_post_accumulate_grad_hook(print))[0],
            messages(lambda: (leaf(T) * 2).register_post_accumulate_grad_hook(print))[0],
        ]

    agree(code)


# -- what a hook returns -------------------------------------------------------------------------------
TENSOR_RESULTS = {
    "None": lambda T, g: None,
    "same": lambda T, g: g,
    "times two": lambda T, g: g * 2,
    "number": lambda T, g: 3,
    "tuple": lambda T, g: (g,),
    "False": lambda T, g: False,
}


@pytest.mark.parametrize("name", TENSOR_RESULTS)
@pytest.mark.parametrize("where", ["leaf", "inner"])
def test_result_of_a_tensor_hook(where, name):
    def code(T):
        x = leaf(T)
        y = x.exp()
        {"leaf": x, "inner": y}[where].register_hook(lambda g: TENSOR_RESULTS[name](T, g))
        return attempt(lambda: y.sum().backward()), x.grad

    agree(code)


WRONG = {
    "size": lambda T, g: T.ones(3),
    "fewer dimensions": lambda T, g: T.ones(()),
    "more dimensions": lambda T, g: T.ones(1, 2),
    "one element": lambda T, g: T.ones(1),
    "dtype": lambda T, g: g.double(),
    "complex": lambda T, g: g + 0j,
    "integers": lambda T, g: g.long(),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("where", ["leaf", "inner"])
def test_wrong_result_of_a_tensor_hook(where, name):
    def code(T):
        x = leaf(T)
        y = x.exp()
        {"leaf": x, "inner": y}[where].register_hook(lambda g: WRONG[name](T, g))
        return y.sum().backward()

    agree_error(code, r"hook '<lambda>' has changed the (size|type) of value")


@pytest.mark.parametrize("hook", [functools.partial(lambda n, g: g * n, 2), Twice()], ids=["partial", "object"])
def test_hooks_without_a_name(hook):
    def code(T):
        x = leaf(T)
        x.register_hook(hook)
        x.sum().backward()
        return x.grad

    agree(code)


def test_one_function_registered_twice():
    def code(T):
        log, x = Log(), leaf(T)
        hook = log.tensor("x", lambda g: g * 2)
        first = x.register_hook(hook)
        x.register_hook(hook)
        x.sum().backward()
        first.remove()
        x.sum().backward()
        return log, x.grad

    agree(code)


def test_a_hook_lives_as_long_as_the_graph():
    def code(T):
        class Thing:
            """Something a hook refers to."""

        thing = Thing()
        ref = weakref.ref(thing)
        y = leaf(T) * 2
        y.register_hook(lambda g, thing=thing: None)
        del thing
        alive = ref() is not None
        del y
        gc.collect()
        return alive, ref() is None

    agree(code)


def test_retained_gradients():
    def code(T):
        x = leaf(T)
        y = x**2
        y.retain_grad()
        y.retain_grad()
        dead = y * 3
        dead.retain_grad()
        o = (dead * y).sum()
        del dead
        o.backward(retain_graph=True)
        first = y.grad.clone()
        o.backward()
        x.retain_grad()
        return first, y.grad, x.grad, x.retains_grad, y.retains_grad, (y + 1).retains_grad

    agree(code)


@pytest.mark.parametrize("create", [False, True])
def test_a_retained_gradient_is_a_copy(create):
    def code(T):
        seen, x = [], leaf(T)
        y = x**2
        y.register_hook(seen.append)
        y.retain_grad()
        y.sum().backward(create_graph=create)
        return y.grad is seen[0], y.grad, y.grad.requires_grad, x.grad.requires_grad

    agree(code)


@pytest.mark.parametrize("kind", ["tensor", "leaf", "pre", "post", "accumulated", "accumulator"])
def test_a_hook_that_raises(kind):
    def code(T):
        log, x = Log(), leaf(T)
        y = x.exp()
        y.retain_grad()

        def hook(*args):
            log.append(len(args))
            if len(log) == 1:
                raise ValueError("once")

        node = accumulator(x)
        {
            "tensor": y.register_hook,
            "leaf": x.register_hook,
            "pre": y.grad_fn.register_prehook,
            "post": y.grad_fn.register_hook,
            "accumulated": x.register_post_accumulate_grad_hook,
            "accumulator": node.register_hook,
        }[kind](hook)
        o = y.sum()
        first = messages(lambda: o.backward(retain_graph=True))[0]
        between = x.grad, y.grad, T.is_grad_enabled()
        o.backward()
        return first, log, between, x.grad, y.grad

    agree(code)


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_grad_mode_after_a_hook_that_raises(before, create):
    def code(T):
        def hook(g):
            with T.set_grad_enabled(not T.is_grad_enabled()):
                raise KeyError("a")

        x = leaf(T)
        y = x.exp()
        y.register_hook(hook)
        o = y.sum()
        with T.set_grad_enabled(before):
            got = attempt(lambda: o.backward(create_graph=create))
            return got, T.is_grad_enabled(), x.grad

    agree(code)


def test_a_backward_that_raises_inside_a_hook():
    def code(T):
        log, x = Log(), leaf(T)
        y, a = x.exp(), leaf(T)

        def bad(g):
            raise ValueError("inner")

        def hook(g):
            with T.enable_grad():
                b = a * 2
                b.register_hook(bad)
                log.append(messages(lambda: b.sum().backward())[0])
            return g * 2

        y.register_hook(hook)
        y.sum().backward()
        return log, x.grad, a.grad

    agree(code)


def test_a_copy_of_a_leaf_has_no_hooks():
    def code(T):
        log, x = Log(), leaf(T)
        x.register_hook(log.tensor("x"))
        x.register_post_accumulate_grad_hook(log.leaf("accumulated"))
        y = copy.deepcopy(x)
        y.sum().backward()
        return log, y.grad, x.grad

    agree(code)


# -- less common -----------------------------------------------------------------------------------------
NODE_RESULTS = {
    "None": lambda T, gs: None,
    "tuple": lambda T, gs: (gs[0] * 2,),
    "(None,)": lambda T, gs: (None,),
    "tensor": lambda T, gs: gs[0],
    "list": lambda T, gs: [gs[0]],
    "number": lambda T, gs: 3,
    "numbers": lambda T, gs: (3,),
    "too few": lambda T, gs: (),
    "too many": lambda T, gs: (gs[0], None),
    "size": lambda T, gs: (T.ones(3),),
    "one element": lambda T, gs: (T.ones(1),),
    "more dimensions": lambda T, gs: (T.ones(1, 2),),
    "dtype": lambda T, gs: (gs[0].double(),),
    "complex": lambda T, gs: (gs[0] + 0j,),
}


@pytest.mark.parametrize("name", NODE_RESULTS)
@pytest.mark.parametrize("kind", ["pre", "post"])
def test_result_of_a_node_hook(kind, name):
    def code(T):
        x = leaf(T)
        y = x.exp()
        if kind == "pre":
            y.grad_fn.register_prehook(lambda gs: NODE_RESULTS[name](T, gs))
        else:
            y.grad_fn.register_hook(lambda gi, go: NODE_RESULTS[name](T, gi))
        got = attempt(lambda: y.sum().backward())
        return got, str(got).partition("(")[0].strip() if isinstance(got, RuntimeError) else "", x.grad

    agree(code)


@pytest.mark.parametrize("kind", ["tensor", "post"])
def test_none_cannot_become_a_gradient(kind):
    def code(T):
        x = leaf(T, 4)
        a, b = (x * 1).split(2)
        y = a.exp()
        a.register_hook(lambda g: T.ones(2)) if kind == "tensor" else y.grad_fn.register_hook(lambda gi, go: (None,))
        y.grad_fn.register_hook(lambda gi, go: (T.ones(2),))
        return (b.sum() if kind == "tensor" else y.sum() + b.sum()).backward()

    agree_error(code, "can't replace a None gradient with a non-None value")


@pytest.mark.parametrize("result", ["tensor", 3, "text", False])
def test_post_accumulate_hooks_return_none(result):
    def code(T):
        x = leaf(T)
        x.register_post_accumulate_grad_hook(lambda p: p.grad if result == "tensor" else result)
        x.exp().sum().backward()

    agree_error(code, "hooks should return None" if result == "tensor" else "")


def test_post_accumulate_hooks_may_return_the_leaf():
    def code(T):
        x = leaf(T)
        x.register_post_accumulate_grad_hook(lambda p: p.add_(p.grad, alpha=-0.5))
        x.exp().sum().backward()
        return x

    agree(code)


def test_a_node_hook_registered_while_saved_tensors_are_unpacked():
    def code(T):
        log, x, node = Log(), leaf(T), []

        def unpack(v):
            node[0].register_hook(lambda gi, go: log.note("late", gi))
            return v

        with T.autograd.graph.saved_tensors_hooks(lambda v: v, unpack):
            y = x.sin()
        node.append(y.grad_fn)
        y.sum().backward()
        return log, x.grad

    agree(code)
