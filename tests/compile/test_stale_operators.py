"""What custom operators and functions read has changed since: closures of kernels, formulas, replaced backwards."""

import random

import numpy as np
import pytest
from guard_kit import x2
from stale_kit import Stories, calls, never_stale

import torchlike as torch
from torchlike.library import Library, custom_op

STORIES = Stories()
story = STORIES.story
NUMBERS = iter(range(1000))


def operator(kernel):
    """A custom operator of this kernel, under a name of its own."""
    kernel.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    return custom_op(f"stale::kernel{next(NUMBERS)}", kernel, mutates_args=())


def changed_by(state):
    return lambda i: state.__setitem__(0, i + 5.0)


@story
def closure_of_a_kernel(wrap):
    state = [2.0]
    op = operator(lambda x: x * state[0])
    return calls(wrap(lambda x: op(x) + 1), changed_by(state))


@story
def a_kernel_that_counts(wrap):
    state = [2.0]

    def kernel(x):
        state[0] += 1
        return x * state[0]

    op = operator(kernel)
    return calls(wrap(lambda x: op(x) + 1), changed_by(state)), state[0]


@story
def a_kernel_on_the_host_that_counts(wrap):
    state = [2.0]

    def kernel(x):
        state[0] += 1
        return torch.from_numpy(np.asarray(x.numpy() * state[0], np.float32))

    op = operator(kernel)
    op.register_fake(lambda x: torch.empty_like(x))
    return calls(wrap(lambda x: op(x) + 1), changed_by(state)), state[0]


@story
def a_kernel_that_draws(wrap):
    random.seed(0)
    op = operator(lambda x: x * random.random())
    return calls(wrap(lambda x: op(x) + 1), lambda i: None)


@story
def a_kernel_that_writes(wrap):
    state, b = [2.0], torch.ones(())

    def kernel(x):
        x.mul_(state[0])

    kernel.__annotations__ = {"x": torch.Tensor, "return": None}
    op = custom_op(f"stale::kernel{next(NUMBERS)}", kernel, mutates_args=("x",))

    def f(x):
        op(b)
        return x * b

    return calls(wrap(f), changed_by(state)), b


@story
def the_formula_of_an_operator(wrap):
    state = [2.0]
    op = operator(lambda x: x * 2)
    op.register_autograd(lambda ctx, grad: grad * state[0])

    def f(x):
        p = x.detach().requires_grad_()
        op(p).sum().backward()
        return p.grad

    return calls(wrap(f), changed_by(state))


@pytest.mark.parametrize("key", ["CompositeExplicitAutograd", "CompositeImplicitAutograd", "CPU", "AutogradCPU"])
def test_kernels_of_a_library(key):
    def told(wrap):
        state, name = [2.0], f"stale{next(NUMBERS)}"
        library = Library(name, "DEF")
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x * state[0], key)
        return calls(wrap(lambda x: getattr(torch.ops, name).f(x) + 1), changed_by(state))

    never_stale(told)


@story
def a_fake_that_reads(wrap):
    state = [2]
    op = operator(lambda x: torch.from_numpy(np.asarray(x.numpy().repeat(state[0]), np.float32)))
    op.register_fake(lambda x: x.new_empty(x.numel() * state[0]))
    return calls(wrap(lambda x: op(x) + 1), lambda i: state.__setitem__(0, i + 2))


@story
def a_replaced_backward(wrap):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    def f(x):
        p = x.detach().requires_grad_()
        Scaled.apply(p).sum().backward()
        return p.grad

    def change(i):
        Scaled.backward = staticmethod(lambda ctx, grad: grad * (i + 5))

    return calls(wrap(f), change)


@pytest.mark.parametrize("name", STORIES)
def test_nothing_is_stale(name):
    never_stale(STORIES[name])


def test_a_kernel_on_the_host_stays_in_the_program():
    state = [0]

    def kernel(x):
        state[0] += 1
        return torch.from_numpy(np.asarray(x.numpy() * 2, np.float32))

    op = operator(kernel)
    op.register_fake(lambda x: torch.empty_like(x))
    run = torch.compile(lambda x: op(x) + 1, fullgraph=True)
    before = [(run(x2()).tolist(), state[0]) for _ in range(4)]
    assert [count for _, count in before] == [1, 2, 3, 4]
