"""The tape and the engine: accumulation, retention, hooks, order, several roots, and errors."""

import threading
import warnings

import numpy as np
import pytest
from both import agree, agree_error, attempt

import torchlike


def leaf_of(t, *shape, dtype="float64"):
    """A leaf with the numbers 1, 2, ..."""
    x = t.arange(1.0, float(np.prod(shape)) + 1, dtype=t.float64).reshape(shape).to(getattr(t, dtype))
    return x.detach().clone().requires_grad_()


# -- accumulation --------------------------------------------------------------------------------------


def test_gradients_accumulate_in_place():
    def f(t):
        x = leaf_of(t, 2)
        (x * x).sum().backward()
        first = x.grad
        (x * 3).sum().backward()
        alias = first.detach()
        x.backward(t.tensor([10.0, 20.0], dtype=t.float64))
        return x.grad is first, alias, first, x.is_leaf

    agree(f)


def test_the_first_gradient_is_the_leaf_s_own():
    """Neither the seed nor another leaf's gradient changes with it."""

    def f(t):
        x, y, seed = leaf_of(t, 2), leaf_of(t, 2), t.ones(2, dtype=t.float64)
        (x + y).backward(seed)
        x.grad.mul_(5)
        x.backward(seed)
        return seed, x.grad, y.grad, x.grad is seed

    agree(f)


def test_a_gradient_given_by_hand_is_added_to():
    def f(t):
        x = leaf_of(t, 2)
        x.grad = given = t.full((2,), 7.0, dtype=t.float64)
        x.sum().backward()
        row = leaf_of(t, 2, 2)
        row.grad = wide = t.zeros(2, 2, dtype=t.float64).t()
        row[0].sum().backward()
        x.grad = None
        del row.grad
        return given, wide, x.grad, row.grad

    agree(f)


def test_accumulation_with_history_makes_a_new_tensor():
    def f(t):
        x = leaf_of(t, 2)
        (x**3).sum().backward()
        old = x.grad
        (x**3).sum().backward(create_graph=True)
        new = x.grad
        names = new is old, old.requires_grad, new.requires_grad, new.is_leaf
        (second,) = t.autograd.grad(new.sum(), x)
        seed = t.ones(2, dtype=t.float64)
        y = leaf_of(t, 2)
        y.backward(seed, create_graph=True)
        y.grad.add_(1)
        x.grad = None
        return names, new.detach(), second, seed, y.grad

    agree(f)


def test_gradients_take_the_memory_order_of_their_leaf():
    def f(t):
        x = t.ones(2, 3).t().detach().requires_grad_()
        (x * t.ones(3, 2)).sum().backward()
        narrow = t.ones(4, 4)[:, :2].detach().requires_grad_()
        narrow.sum().backward()
        return x.grad, x.grad.stride(), narrow.grad.stride()

    agree(f)


def test_a_leaf_switched_off_after_the_forward_receives_nothing():
    def f(t):
        x, y = leaf_of(t, 2), leaf_of(t, 2)
        z = (x * y).sum()
        x.requires_grad_(False)
        z.backward()
        return x.grad, y.grad

    agree(f)


# -- retained graphs, higher orders --------------------------------------------------------------------


def test_retain_graph():
    def f(t):
        x = leaf_of(t, 2)
        y = (x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
        nothing_saved = (x + 1)[0].expand(3).sum()
        nothing_saved.backward()
        nothing_saved.backward()
        return x.grad, type(attempt(y.backward)).__name__

    agree(f)


@pytest.mark.parametrize("name", ["polynomial", "quotient", "exp", "views", "in place", "matrix", "complex"])
def test_gradients_of_gradients_of_gradients(name):
    functions = {
        "polynomial": lambda t, x: x**3 * 2 - x * x,
        "quotient": lambda t, x: x / (1 + x * x),
        "exp": lambda t, x: (x * x).exp() * x.tanh(),
        "views": lambda t, x: x.t()[0] * x[:, 1] * x.view(-1)[::2],
        "in place": lambda t, x: (y := x * 2, y[0].mul_(3), y.mul_(x.clone()), y.exp_())[0],
        "matrix": lambda t, x: (x @ x).cos() @ x,
        "complex": lambda t, x: (t.complex(x, x * x) ** 3).real,
    }

    def f(t):
        x = leaf_of(t, 2, 2).detach().mul_(0.3).requires_grad_()
        g, found = functions[name](t, x).sum(), []
        for _ in range(3):
            (g,) = t.autograd.grad(g.sum(), x, create_graph=True)
            found.append(g.detach())
        return found

    agree(f)


def test_second_order_through_a_leaf_s_grad():
    def f(t):
        x, v = leaf_of(t, 3), t.tensor([1.0, -1.0, 2.0], dtype=t.float64)
        (g,) = t.autograd.grad((x**4).sum(), x, create_graph=True)
        (g * v).sum().backward()
        return x.grad

    agree(f)


def test_gradients_with_respect_to_the_seed():
    def f(t):
        x, seed = leaf_of(t, 2), leaf_of(t, 2)
        (g,) = t.autograd.grad(x * x, x, seed, create_graph=True)
        g.sum().backward()
        return g.requires_grad, seed.grad, x.grad

    agree(f)


# -- grad() --------------------------------------------------------------------------------------------

GRAD = {
    "several": lambda t, x, y: t.autograd.grad((x * y).sum(), [x, y]),
    "intermediate": lambda t, x, y: (z := x * y, t.autograd.grad((z * z).sum(), [z, x]))[1],
    "unused": lambda t, x, y: t.autograd.grad(x.sum(), [x, y], allow_unused=True),
    "materialized": lambda t, x, y: t.autograd.grad(x.sum(), [y, x], materialize_grads=True),
    "the output itself": lambda t, x, y: (z := x * y, t.autograd.grad(z, [z, x], t.ones(2, 3)))[1],
    "a leaf as output": lambda t, x, y: t.autograd.grad(x, x, t.ones(2, 3)),
    "twice the same input": lambda t, x, y: t.autograd.grad((x * y).sum(), [x, x]),
    "several outputs": lambda t, x, y: t.autograd.grad([x.sum(), (x * y).sum()], [x, y]),
    "outputs with seeds": lambda t, x, y: t.autograd.grad([x, y * 2], [x, y], [t.ones(2, 3), t.ones(2, 3) * 3]),
    "one seed is None": lambda t, x, y: t.autograd.grad([x.sum(), y], [x, y], [None, t.ones(2, 3)]),
    "a view": lambda t, x, y: (z := x * y, v := z[0], t.autograd.grad((v * v).sum(), [v, z]))[2],
    "an integer seed": lambda t, x, y: t.autograd.grad(x * 2, x, t.ones(2, 3, dtype=t.int64)),
    "a seed of another precision": lambda t, x, y: t.autograd.grad(x * 2, x, t.ones(2, 3, dtype=t.float32)),
    "nothing on the way": lambda t, x, y: t.autograd.grad(t.ones(2, requires_grad=True).sum(), [x], allow_unused=True),
}


@pytest.mark.parametrize("name", GRAD)
def test_grad(name):
    def f(t):
        x, y = leaf_of(t, 2, 3), leaf_of(t, 2, 3)
        return GRAD[name](t, x, y), x.grad, y.grad

    agree(f)


def test_backward_into_given_inputs():
    def f(t):
        x, y = leaf_of(t, 2), leaf_of(t, 2)
        z = x * y
        (z * z).sum().backward(inputs=[x, z])
        (x * y).sum().backward(inputs=y)
        return x.grad, y.grad, z.grad, z.retains_grad

    agree(f)


def test_multiple_roots():
    def f(t):
        x = leaf_of(t, 2)
        y = x * x
        t.autograd.backward([y.sum(), (y * 2).sum(), x, y], [None, None, x.detach(), t.ones(2, dtype=t.float64)])
        z = x * 3
        t.autograd.backward([z, z], [t.ones(2, dtype=t.float64), t.full((2,), 5.0, dtype=t.float64)])
        return x.grad

    agree(f)


def test_only_used_outputs_of_several_pass_gradients():
    def f(t):
        x = leaf_of(t, 3, 2)
        a, _, c = x.unbind(0)
        values, indices = x.max(0)
        top, bottom = x.split([1, 2])
        (a * c).sum().backward(retain_graph=True)
        ((values * 2).sum() + bottom.sum()).backward()
        flags = values.requires_grad, indices.requires_grad, a.output_nr, c.output_nr, a.grad_fn is c.grad_fn
        return x.grad, flags, t.autograd.grad(bottom.sum(), [top, bottom], allow_unused=True)

    agree(f)


def test_the_complex_convention():
    """The gradient of a real loss is dL/dRe + i dL/dIm; of a holomorphic function, the conjugate of jax's."""

    def f(t):
        z = t.tensor([1 + 2j, -3j, 0.5], dtype=t.complex128, requires_grad=True)
        w = t.tensor([2 - 1j], dtype=t.complex128, requires_grad=True)
        x = leaf_of(t, 3)
        ((z * w).abs() ** 2).sum().backward()
        (z * z).backward(t.tensor([1j, 1, 1 - 1j], dtype=t.complex128))
        ((x * z).real * x).sum().backward()  # a real input receives a real gradient
        return z.grad, w.grad, x.grad

    agree(f)


# -- hooks ---------------------------------------------------------------------------------------------


def test_the_order_of_hooks():
    def f(t):
        x, seen = leaf_of(t, 2), []

        def note(label, change=None):
            def hook(g):
                seen.append((label, g.tolist()))
                return None if change is None else change(g)

            return hook

        y = x * 2
        y.retain_grad()
        y.register_hook(note("first", lambda g: g * 2))
        y.grad_fn.register_prehook(lambda gs: (seen.append("prehook"), (gs[0] * 10,))[1])
        y.grad_fn.register_hook(lambda gi, go: seen.append(("posthook", gi[0].tolist(), go[0].tolist())))
        y.register_hook(note("second", lambda g: g * 3))
        x.register_hook(note("leaf", lambda g: g + 1))
        x.register_post_accumulate_grad_hook(lambda p: seen.append(("accumulated", p.grad.tolist())))
        sink = y.grad_fn.next_functions[0][0]
        sink.register_prehook(lambda gs: seen.append(("sink prehook", gs[0].tolist())))
        sink.register_hook(lambda gi, go: seen.append(("sink posthook", gi, go[0].tolist())))
        y.sum().backward(retain_graph=True)
        captured = t.autograd.grad(y.sum(), [y, x], retain_graph=True), t.autograd.grad(y.sum(), y)
        return seen, y.grad, x.grad, captured

    agree(f)


def test_hooks_are_removed_and_see_every_backward():
    def f(t):
        x, seen = leaf_of(t, 2), []
        handle = x.register_hook(lambda g: seen.append(1))
        with x.register_hook(lambda g: seen.append(2)):
            x.sum().backward()
        x.sum().backward()
        handle.remove()
        x.sum().backward()
        (x * 2).sum().backward()
        y = x * x
        y.register_hook(lambda g: seen.append(3)).remove()
        y.sum().backward()
        later = x * 2
        x.register_hook(lambda g: seen.append("later"))  # also by graphs that were there before
        later.sum().backward()
        return seen, x.grad

    agree(f)


def test_a_hook_may_change_its_argument_in_place():
    def f(t):
        x = leaf_of(t, 2)
        y = x * 1
        y.register_hook(lambda g: g.mul_(5) and None if g.numel() == 1 else (g.mul_(5), None)[1])
        (y * 1).sum().backward()
        return x.grad

    agree(f)


def test_hooks_with_create_graph():
    def f(t):
        x = leaf_of(t, 2)
        y = x**3
        y.register_hook(lambda g: g * x)
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
        return g.detach(), t.autograd.grad(g.sum(), x)

    agree(f)


def test_a_backward_inside_a_hook():
    def f(t):
        x, other = leaf_of(t, 2), leaf_of(t, 2)

        def hook(g):
            with t.enable_grad():  # a backward that records nothing runs its hooks so, too
                (other * g).sum().backward()

        x.register_hook(hook)
        (x * x).sum().backward()
        return x.grad, other.grad, t.is_grad_enabled()

    agree(f)


def test_retain_grad():
    def f(t):
        x = leaf_of(t, 2)
        y = x * 2
        before = y.retains_grad
        y.retain_grad()
        y.retain_grad()
        x.retain_grad()
        y.sum().backward(retain_graph=True)
        (y * y).sum().backward()
        return before, y.retains_grad, x.retains_grad, y.grad, x.grad

    agree(f)


def test_reading_grad_of_what_is_no_leaf_warns():
    x = leaf_of(torchlike, 2)
    y = x * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed.*retain_grad"):
        assert y.grad is None
    y.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad is x.grad is x.detach().grad is None


def test_create_graph_in_backward_warns_of_the_cycle():
    x = leaf_of(torchlike, 2)
    with pytest.warns(UserWarning, match="create_graph=True will create a reference cycle.*autograd.grad"):
        (x * x).sum().backward(create_graph=True)
    x.grad = None


# -- nodes ---------------------------------------------------------------------------------------------


def test_nodes():
    def f(t):
        x = leaf_of(t, 2)
        y = x * x
        node = y.grad_fn
        sink = node.next_functions[0][0]
        node.metadata["mine"] = 3
        facts = node is y.grad_fn, y.grad_fn.metadata, node.name(), sink.variable is x, sink.next_functions
        order = (x + 1).grad_fn._sequence_nr() < (x + 1).grad_fn._sequence_nr()
        again = (x * 1).grad_fn.next_functions[0][0] is sink
        called = y.grad_fn(t.ones(2, dtype=t.float64))
        return facts, order, again, called, [(n, i) for n, i in node.next_functions]

    agree(f)


NAMES = {
    "number": lambda t, x: x * 2,
    "bias": lambda t, x: 1 + x,
    "detached operand": lambda t, x: x.detach() - x,
    "power": lambda t, x: x**2,
    "where": lambda t, x: t.where(x > 0, x, 0.0),
    "sum": lambda t, x: x.sum(),
    "sum over a dimension": lambda t, x: x.sum(0),
    "index": lambda t, x: x[0],
    "slice": lambda t, x: x[1:],
    "everything": lambda t, x: x[...],
    "list": lambda t, x: x[[0]],
    "cat": lambda t, x: t.cat([x, x.detach()]),
    "copy": lambda t, x: t.zeros(2, 2, dtype=t.float64).copy_(x),
    "cast": lambda t, x: x.to(t.float32),
    "clone": lambda t, x: x.clone(),
    "matmul": lambda t, x: x @ x,
    "max": lambda t, x: x.max(0).values,
    "view_as_real": lambda t, x: t.view_as_real(x.to(t.complex128)),
    "real": lambda t, x: x.to(t.complex128).real,
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_nodes(name):
    def f(t):
        y = NAMES[name](t, leaf_of(t, 2, 2))
        return y.grad_fn, [n for n, _ in y.grad_fn.next_functions if n is not None]

    agree(f)


def test_saved_tensors_are_shown_until_they_are_freed():
    def f(t):
        x = leaf_of(t, 2)
        z = x.exp()
        shown = (x * x).grad_fn._saved_other is x, (x * x).grad_fn._saved_self, z.grad_fn._saved_result
        z.sum().backward()
        return shown, attempt(lambda: z.grad_fn._saved_result), attempt(lambda: z.grad_fn._saved_nothing)

    agree(f)


# -- errors --------------------------------------------------------------------------------------------

FREED = "backward through the graph a second time.*Specify retain_graph=True"
ERRORS = {
    "twice": (lambda t, x: (y := (x * x).sum(), y.backward(), y.backward()), FREED),
    "twice through a part": (lambda t, x: (y := x * x, y.sum().backward(), (y + 1).sum().backward()), FREED),
    "saved after freeing": (lambda t, x: (y := x.exp(), y.sum().backward(), y.grad_fn._saved_result), FREED),
    "no scalar": (lambda t, x: (x * 2).backward(), "grad can be implicitly created only for scalar outputs"),
    "complex scalar": (lambda t, x: x.to(t.complex128).sum().backward(), "only for real scalar outputs.*complex128"),
    "no history": (lambda t, x: x.detach().sum().backward(), "^element 0 of tensors does not require grad"),
    "second has no history": (
        lambda t, x: t.autograd.backward([x.sum(), x.detach().sum()]),
        "^element 1 of tensors does not require grad",
    ),
    "neither output nor input": (
        lambda t, x: t.autograd.grad(x.detach().sum(), x.detach()),
        "^element 0 of tensors does not require grad",
    ),
    "a vector and no input": (lambda t, x: t.autograd.grad(x * 2, x.detach()), "only for scalar outputs"),
    "a comparison": (lambda t, x: (x > 0).sum().backward(), "^element 0 of tensors does not require grad"),
    "seed of another shape": (lambda t, x: (x * 2).backward(t.ones(3)), r"Mismatch in shape: grad_output\[0\] has a"),
    "complex seed": (lambda t, x: x.backward(t.ones(2, dtype=t.complex64)), "Mismatch in dtype: grad_output.0. has"),
    "seed that is no tensor": (lambda t, x: (x * 2).backward([1]), "gradients can be either Tensors or None"),
    "too few seeds": (lambda t, x: t.autograd.backward([x.sum(), x.sum()], [None]), "got 2 tensors and 1 gradients"),
    "unused": (lambda t, x: t.autograd.grad(x.sum(), [x, leaf_of(t, 2)]), "at index 1 .* allow_unused=True"),
    "input without grad": (lambda t, x: t.autograd.grad(x.sum(), t.ones(2)), "Tensors does not require"),
    "no inputs": (lambda t, x: t.autograd.grad(x.sum(), []), "`inputs` argument to `grad\\(\\)` cannot be empty"),
    "no inputs of backward": (lambda t, x: x.sum().backward(inputs=[]), "`inputs` argument to `backward"),
    "inputs without grad": (lambda t, x: x.sum().backward(inputs=[t.ones(2)]), "can't retain_grad on Tensor"),
    "materialize": (
        lambda t, x: t.autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True),
        "Expected allow_unused to be True or not passed when materialize_grads=True",
    ),
    "hook on no grad": (lambda t, x: t.ones(2).register_hook(print), "hook on a tensor that doesn't require"),
    "hook of another size": (lambda t, x: hooked(x, lambda g: g[:1]), "hook '.*' has changed the size of value"),
    "hook of another dtype": (lambda t, x: hooked(x, lambda g: g.float()), "hook '.*' has changed the type of value"),
    "hook gives no tensor": (lambda t, x: hooked(x, lambda g: 3), "expected .*, but hook returned 'int'"),
    "hook raises": (lambda t, x: hooked(x, lambda g: 1 // 0), "division( or modulo)? by zero"),
    "post hook on no leaf": (
        lambda t, x: (x * 2).register_post_accumulate_grad_hook(print),
        "post accumulate grad hooks cannot be registered on non-leaf tensors",
    ),
    "retain_grad": (lambda t, x: t.ones(2).retain_grad(), "can't retain_grad on Tensor"),
    "requires_grad of integers": (lambda t, x: t.tensor([1]).requires_grad_(), "only Tensors of floating point"),
    "requires_grad of a result": (lambda t, x: (x * 2).requires_grad_(False), "change requires_grad flags of leaf"),
    "requires_grad is no bool": (lambda t, x: setattr(x, "requires_grad", 1), "requires_grad must be a bool"),
    "grad of another shape": (lambda t, x: setattr(x, "grad", t.ones(3, dtype=t.float64)), r"size.*\[2\]"),
    "grad of another dtype": (lambda t, x: setattr(x, "grad", t.ones(2, dtype=t.int64)), "grad"),
    "grad is no tensor": (lambda t, x: setattr(x, "grad", 3), "assigned grad expected to be a Tensor or None"),
    "its own grad": (lambda t, x: setattr(x, "grad", x), "can't assign Variable as its own grad"),
    "detached in place": (
        lambda t, x: (y := x * 2, z := y * y, y.detach_(), t.autograd.grad(z.sum(), x, create_graph=True)),
        "saved tensor that has been detached in-place",
    ),
    "numpy of what requires grad": (lambda t, x: x.numpy(), "Can't call numpy.. on Tensor that requires grad"),
}


def hooked(x, hook):
    y = x * 2
    y.register_hook(hook)
    y.sum().backward()


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    script, match = ERRORS[name]
    agree_error(lambda t: script(t, leaf_of(t, 2)), match)


def test_after_an_error_the_grad_mode_is_as_before():
    x = leaf_of(torchlike, 2)
    attempt(lambda: hooked(x, lambda g: 1 // 0))
    assert torchlike.is_grad_enabled() and x.grad is None
    with torchlike.no_grad():
        attempt(lambda: hooked(x, lambda g: 3))
        assert not torchlike.is_grad_enabled()


# -- size and threads ----------------------------------------------------------------------------------


@pytest.mark.once
def test_a_graph_of_100000_nodes():
    """It is built, run backward and freed without recursion."""
    x = torchlike.ones(2, requires_grad=True)
    y = x
    for _ in range(50_000):
        y = (y + 1) * 1
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    (g,) = torchlike.autograd.grad((x + y.detach()).sum(), x)
    z = x * 1
    part = z.view(2)
    for _ in range(3_000):
        part.add_(1)
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    del y, z, part, g


def test_a_wide_graph_visits_every_node_once():
    """Diamonds all the way: 2 ** 60 paths."""
    x = torchlike.ones((), dtype=torchlike.float64, requires_grad=True)
    y = x
    for _ in range(60):
        y = y + y
    y.backward()
    assert x.grad.item() == 2.0**60


def test_threads_share_leaves():
    x = torchlike.zeros(4, dtype=torchlike.float64, requires_grad=True)
    modes = []

    def work():
        modes.append(torchlike.is_grad_enabled())
        for _ in range(50):
            (x * 2).sum().backward()

    with torchlike.no_grad():  # which is this thread's alone
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert modes == [True] * 4
    assert x.grad.tolist() == [400.0] * 4


def test_threads_share_a_graph():
    """Each backward works, or says that another has freed the graph."""
    results = []

    def work(y):
        results.append(attempt(lambda: y.backward()))

    for _ in range(20):
        x = torchlike.ones(2, requires_grad=True)
        y = x
        for _ in range(20):
            y = (y * y).tanh()
        y = y.sum()
        threads = [threading.Thread(target=work, args=(y,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(results) == 60
    assert all(r is None or "a second time" in str(r) for r in results), results


def test_the_backward_of_a_loss_runs_for_all_python_code_that_it_meets():
    def f(t):
        seen = []

        class Watching(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                t.autograd.Variable._execution_engine.queue_callback(lambda: seen.append(a.grad.tolist()))
                seen.append((t.is_grad_enabled(), t._C._current_graph_task_id() >= 0, a.grad))
                return g * 2

        a = leaf_of(t, 3)
        ((Watching.apply(a * a) + a) * a).sum().backward()
        return seen, t.is_grad_enabled(), t._C._current_graph_task_id()

    agree(f)
