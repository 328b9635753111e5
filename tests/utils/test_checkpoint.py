"""Checkpointing against PyTorch: what is recomputed when, its errors, random numbers, nesting, selection."""

import contextlib
import functools
import gc
import logging
import warnings
import weakref

import pytest
from both import agree, agree_error

import torchlike
import torchlike.utils.checkpoint
from torchlike._decl.op import REGISTRY


@pytest.fixture(autouse=True)
def unread(monkeypatch):
    """PyTorch's debug mode logs calls, which pytest cannot format; it reads a logger that does not propagate itself."""
    monkeypatch.setattr(logging.getLogger("LoggingTensor"), "propagate", True)


REENTRANT = pytest.mark.parametrize("reentrant", [False, True])


def leaf(t, *numbers):
    return t.tensor(numbers, dtype=t.float64, requires_grad=True)


def chain(x):
    return (x * x).exp().sin()


def runner(t, **options):
    """``run(f, *args)``: a checkpointed call."""
    return functools.partial(t.utils.checkpoint.checkpoint, **options)


@REENTRANT
def test_values_and_gradients(reentrant):
    def script(t):
        x, modes = leaf(t, 0.5, 1.2), []

        def f(x):
            modes.append(t.is_grad_enabled())
            return chain(x)

        z = runner(t, use_reentrant=reentrant)(f, x)
        z.sum().backward()
        return z, z.grad_fn, x.grad, modes

    agree(script)


@REENTRANT
def test_backward_twice_and_once_too_often(reentrant):
    def script(t):
        x = leaf(t, 0.5)
        z = runner(t, use_reentrant=reentrant)(chain, x).sum()
        z.backward(retain_graph=True)
        z.backward()
        first = x.grad.clone()
        with pytest.raises(RuntimeError, match="second time"):
            z.backward()
        return first

    agree(script)


def test_grad_and_inputs_work_without_reentrance():
    def script(t):
        x, y = leaf(t, 0.5), leaf(t, 2.0)
        run = runner(t, use_reentrant=False)
        (a,) = t.autograd.grad(run(chain, x).sum(), x)
        (b,) = t.autograd.grad(run(chain, x).sum(), x, create_graph=True)
        (c,) = t.autograd.grad(b.sum(), x)
        run(lambda x, y: x * y.exp(), x, y).backward(inputs=[y])
        return a, b, c, x.grad, y.grad

    agree(script)


def test_grad_is_refused_with_reentrance():
    def script(t):
        x = leaf(t, 0.5)
        t.autograd.grad(runner(t, use_reentrant=True)(chain, x).sum(), x)

    agree_error(script, "use_reentrant=True, torch.utils.checkpoint is incompatible with .grad()")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"use_reentrant": True, "y": 3}, "Unexpected keyword arguments: y"),
        ({"use_reentrant": False, "q": 3}, "unexpected keyword argument 'q'"),
        ({"use_reentrant": False, "determinism_check": "x"}, "determinism_check should be one of"),
        ({"use_reentrant": True, "context_fn": lambda: (None, None)}, "only supported when use_reentrant=False"),
        ({"use_reentrant": True, "debug": True}, "only supported when use_reentrant=False"),
    ],
    ids=lambda v: "" if isinstance(v, str) else str(sorted(v)),
)
def test_wrong_options(options, match):
    agree_error(lambda t: runner(t, **options)(chain, leaf(t, 1.0)), match)


def changing(t, first, later, **options):
    """Backward of a checkpointed call whose forward is ``first`` and whose recomputation is ``later``."""
    calls, x = [], leaf(t, 0.5, 1.5)

    def f(x):
        calls.append(1)
        return (first if len(calls) == 1 else later)(x)

    runner(t, use_reentrant=False, **options)(f, x).sum().backward()
    return x.grad


FEWER = (lambda x: x.sin().exp(), lambda x: x.sin())
SHORTER = (lambda x: x.sin().exp(), lambda x: x[:1].sin().exp())
MORE = (lambda x: x.sin(), lambda x: x.sin().exp())


@pytest.mark.parametrize(
    ("pair", "options", "match"),
    [
        (FEWER, {}, "different number of tensors.*forward: 2.*recomputation: 1"),
        (FEWER, {"determinism_check": "none"}, "different number of tensors"),
        (FEWER, {"debug": True}, "1 of 2 in original"),
        (SHORTER, {}, r"different metadata.*position 0.*Size\(\[2\]\).*Size\(\[1\]\)"),
        (MORE, {"early_stop": False}, "save more tensors during recomputation"),
    ],
    ids=["fewer", "fewer unchecked", "fewer in debug", "shorter", "more"],
)
def test_a_recomputation_that_differs(pair, options, match):
    agree_error(lambda t: changing(t, *pair, **options), match)


def test_a_recomputation_that_differs_unnoticed():
    agree(lambda t: (changing(t, *SHORTER, determinism_check="none"), changing(t, *MORE)))


def test_early_stop():
    def script(t):
        steps = []

        def f(x):
            a = x.sin()
            steps.append("a")
            b = a.exp()
            steps.append("b")
            return b + 1

        for early in (True, False):
            runner(t, use_reentrant=False, early_stop=early)(f, leaf(t, 0.5)).backward()
        for early in (True, False):
            with t.utils.checkpoint.set_checkpoint_early_stop(early):
                z = runner(t, use_reentrant=False)(f, leaf(t, 0.5))
            z.backward()
        return steps

    agree(script)


@REENTRANT
@pytest.mark.parametrize("preserve", [True, False])
def test_random_numbers(reentrant, preserve):
    """With the state preserved the mask of the forward is that of the recomputation; without, it is not."""

    def script(t):
        t.manual_seed(0)
        x = t.ones(200, requires_grad=True)
        f = lambda x: t.nn.functional.dropout(x, 0.5) * x  # noqa: E731
        z = runner(t, use_reentrant=reentrant, preserve_rng_state=preserve)(f, x)
        after = t.get_rng_state()
        z.sum().backward()
        return t.allclose(z * 2, x.grad), t.equal(after, t.get_rng_state())

    agree(script)


def test_nested():
    def script(t):
        x, order = leaf(t, 0.5), []
        run = runner(t, use_reentrant=False)

        def inner(x):
            order.append("inner")
            return x.sin() * x

        def outer(x):
            order.append("outer")
            return run(inner, x.exp()).cos()

        run(outer, x).backward()
        return x.grad, order

    agree(script)


def test_three_levels_and_two_calls():
    def script(t):
        run = runner(t, use_reentrant=False)
        f = lambda x: run(lambda x: run(chain, x).cos() + run(chain, x * 2), x.sin())  # noqa: E731
        x = leaf(t, 0.3, 0.4)
        run(f, x).sum().backward()
        return x.grad

    agree(script)


@REENTRANT
def test_outputs_of_several_kinds(reentrant):
    def script(t):
        x = leaf(t, 0.5, 1.0)
        a, b, c, d = runner(t, use_reentrant=reentrant)(lambda a, b: (a * 2, b * 3, None, 5), x, x.exp())
        (a.sum() + b.sum()).backward()
        return a, b, c, d, x.grad

    agree(script)


@REENTRANT
def test_a_captured_parameter_receives_its_gradient(reentrant):
    def script(t):
        w, x = leaf(t, 3.0), leaf(t, 0.1)
        runner(t, use_reentrant=reentrant)(lambda x: (x * w).exp(), x).backward()
        return w.grad, x.grad

    agree(script)


@REENTRANT
def test_without_grad(reentrant):
    def script(t):
        with t.no_grad():
            return runner(t, use_reentrant=reentrant)(chain, leaf(t, 1.0)).requires_grad

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(script)


def test_inputs_without_grad_warn_with_reentrance():
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        torchlike.utils.checkpoint.checkpoint(chain, torchlike.ones(1), use_reentrant=True)


def test_an_unsaid_choice_warns():
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        torchlike.utils.checkpoint.checkpoint(chain, torchlike.ones(1, requires_grad=True))


def test_an_input_changed_in_place():
    def script(t):
        y = leaf(t, 1.0) * 1
        z = runner(t, use_reentrant=False)(chain, y)
        y.add_(1)
        z.backward()

    agree_error(script, "modified by an inplace operation.*version 1; expected version 0")


def test_contexts():
    def script(t):
        log = []

        @contextlib.contextmanager
        def context(name):
            log.append("in " + name)
            yield
            log.append("out " + name)

        x = leaf(t, 1.0)
        contexts = lambda: (context("forward"), context("recomputation"))  # noqa: E731
        runner(t, use_reentrant=False, context_fn=contexts, early_stop=False)(chain, x).backward()
        return log, x.grad

    agree(script)


def test_saved_values_read_outside_of_backward():
    def script(t):
        n = runner(t, use_reentrant=False)(chain, leaf(t, 0.5)).grad_fn
        return n._saved_self, n._saved_self, n.next_functions[0][0]._saved_result

    agree(script)


def test_sequential():
    def script(t):
        net = t.nn.Sequential(*(t.nn.Linear(3, 3) for _ in range(5))).double()
        for i, p in enumerate(net.parameters()):
            p.data.fill_(0.1 * (i + 1))
        x = leaf(t, 0.1, 0.2, 0.3)
        grads = []
        for segments in (1, 2, 5):
            x.grad = None
            t.utils.checkpoint.checkpoint_sequential(net, segments, x, use_reentrant=False).sum().backward()
            grads.append(x.grad)
        return grads, [p.grad for p in net.parameters()]

    agree(script)


def test_nothing_of_the_forward_is_kept():
    """The intermediate values die with the forward; without a checkpoint the node keeps them."""

    def alive(run):
        seen = []

        def f(x):
            y = x.exp()
            seen.append(weakref.ref(y._storage))
            return y.sin()

        z = run(f, torchlike.ones(3, requires_grad=True))
        gc.collect()
        return seen[0]() is not None, z

    assert alive(lambda f, x: f(x))[0]
    assert not alive(runner(torchlike, use_reentrant=False))[0]


def test_inner_inputs_of_a_nested_checkpoint_are_not_kept():
    seen = []
    run = runner(torchlike, use_reentrant=False)

    def outer(x):
        y = x.exp()
        seen.append(weakref.ref(y._storage))
        return run(chain, y)

    z = run(outer, torchlike.full((2,), 0.1, requires_grad=True))
    gc.collect()
    assert seen[0]() is None
    z.sum().backward()


# -- selection -----------------------------------------------------------------------------------------


def selected(t, f, policy, **options):
    contexts = functools.partial(t.utils.checkpoint.create_selective_checkpoint_contexts, policy, **options)
    x = leaf(t, 0.5, 1.0)
    z = runner(t, use_reentrant=False, context_fn=contexts)(f, x).sum()
    return x, z


def steps(x):
    return (x * x).sin().exp().cos()


def test_a_policy_sees_every_operator():
    def script(t):
        log = []
        policies = t.utils.checkpoint.CheckpointPolicy

        def policy(context, op, *args, **kwargs):
            log.append((str(op), context.is_recompute, len(args)))
            return policies.MUST_SAVE if op == t.ops.aten.sin.default else policies.PREFER_RECOMPUTE

        x, z = selected(t, steps, policy)
        z.backward()
        return x.grad, log

    agree(script)


def test_a_kept_result_is_not_computed_again():
    calls = []

    class Probe(torchlike.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append(1)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    exp = torchlike.ops.aten.exp.default
    x, z = selected(torchlike, lambda x: Probe.apply(x).exp().sin(), [exp])
    kernels = []
    declared = REGISTRY["exp"]
    compiled = declared.kernels[()]
    declared.kernels[()] = lambda *values: kernels.append(1) or compiled(*values)
    try:
        z.backward()
    finally:
        declared.kernels[()] = compiled
    assert len(calls) == 2 and not kernels
    expected = (x.exp().cos() * x.exp()).detach()
    assert torchlike.allclose(x.grad, expected)


@pytest.mark.parametrize("keep", [["sin"], ["mul", "exp"], ["mul", "sin", "exp", "cos"], []], ids=str)
def test_lists_of_operators(keep):
    def script(t):
        named = {"mul": t.ops.aten.mul.Tensor} | {n: getattr(t.ops.aten, n).default for n in ("sin", "exp", "cos")}
        x, z = selected(t, steps, [named[n] for n in keep])
        z.backward()
        return x.grad

    agree(script)


def test_selection_runs_backward_once():
    def script(t):
        _, z = selected(t, steps, [t.ops.aten.sin.default])
        z.backward(retain_graph=True)
        z.backward()

    agree_error(script, "only allowed to backward once")


def test_a_kept_result_changed_in_place():
    def script(t, **options):
        x, z = selected(t, lambda x: x.sin().mul_(2).exp().cos(), [t.ops.aten.sin.default], **options)
        z.backward()
        return x.grad

    agree_error(script, "cached during selective activation checkpoint has been mutated")


@pytest.mark.parametrize("policy", [3, [3], ["sin"]], ids=str)
def test_wrong_policies(policy):
    agree_error(lambda t: t.utils.checkpoint.create_selective_checkpoint_contexts(policy), "policy_fn_or_list|op_list")
