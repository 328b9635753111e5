"""Non-full and global backward hooks of modules, handles and copies: with torch and with torchlike."""

import copy
import gc
import pickle

import pytest
import torch
from both import agree
from hook_kit import FULL, KINDS, LAST, PRE, leaf, logged, messages, module, tensors, total
from module_kit import kit

import torchlike
from torchlike.nn.modules import _hooks


@pytest.fixture(autouse=True)
def undecided():
    """No global hook has yet decided between full and other ones."""
    torch.nn.modules.module._global_is_full_backward_hook = None
    _hooks._global_full[0] = None


# -- hooks of the last node ----------------------------------------------------------------------------
LAST_NODE = {
    "one node": (lambda a: a.exp(), lambda T: (leaf(T) * 1,)),
    "one node of a leaf": (lambda a: a.exp(), lambda T: (leaf(T),)),
    "two nodes": (lambda a: a.exp().sin(), lambda T: (leaf(T) * 1,)),
    "two inputs": (lambda a, b: a * b, lambda T: (leaf(T) * 1, leaf(T) * 2)),
    "two leaves": (lambda a, b: a * b, lambda T: (leaf(T), leaf(T))),
    "unused input": (lambda a, b: a.exp(), lambda T: (leaf(T) * 1, leaf(T) * 2)),
    "number": (lambda a, b: a.exp(), lambda T: (leaf(T) * 1, 3)),
    "no tensor": (lambda a: a, lambda T: (3,)),
    "tuple": (lambda a: (a.exp(), a.sin()), lambda T: (leaf(T) * 1,)),
    "tuple of one": (lambda a: (a.exp(),), lambda T: (leaf(T) * 1,)),
    "tuple of one node": (lambda a: a.split(1), lambda T: (leaf(T) * 1,)),
    "tuple with a leaf": (lambda a, b: (a.exp(), b), lambda T: (leaf(T) * 1, leaf(T))),
    "list": (lambda a: [a.exp()], lambda T: (leaf(T) * 1,)),
    "dict": (lambda a: {"n": 3, "k": a.exp()}, lambda T: (leaf(T) * 1,)),
    "dict without": (lambda a: {"n": 3}, lambda T: (leaf(T) * 1,)),
    "nested": (lambda a: ((a.exp(),), a), lambda T: (leaf(T) * 1,)),
    "number first": (lambda a: (3, a.exp()), lambda T: (leaf(T) * 1,)),
    "None": (lambda a: None, lambda T: (leaf(T) * 1,)),
    "empty": (lambda a: (), lambda T: (leaf(T) * 1,)),
    "input": (lambda a: a, lambda T: (leaf(T) * 1,)),
    "leaf": (lambda a: a, lambda T: (leaf(T),)),
    "constant": (lambda a: a.detach(), lambda T: (leaf(T),)),
}


@pytest.mark.parametrize("name", LAST_NODE)
def test_hook_of_the_last_node(name):
    f, make = LAST_NODE[name]

    def code(T):
        m, log = logged(module(T, f), LAST)
        out, warned = messages(lambda: m(*make(T)))
        if tensors(out):
            total(out).backward()
        return log, out, warned

    agree(code)


def test_hook_of_the_last_node_replaces():
    def code(T):
        m, log = module(T, lambda a: a.exp()), []
        m.register_backward_hook(lambda m, gi, go: (gi[0] * 10,))
        m.register_backward_hook(lambda m, gi, go: log.append((gi, go)))
        x = leaf(T)
        m(x).sum().backward()
        return log, x.grad

    agree(code)


def test_hook_of_a_dead_module():
    def code(T):
        def out(kind):
            made = logged(module(T, lambda a: a.exp()), kind)[0](leaf(T)).sum()
            gc.collect()
            return made

        return messages(lambda: out(LAST).backward())[0], messages(lambda: out(FULL).backward())[0]

    agree(code)


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_mixing(first, second):
    def code(T):
        def run(register):
            getattr(m, register.format(""))(print)
            return m._is_full_backward_hook

        m = kit(T).Tiny()
        state = [m._is_full_backward_hook, messages(lambda: run(first)), messages(lambda: run(second))]
        m._backward_hooks.clear()
        return state, messages(lambda: run(second))

    agree(code)


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_mixing_global_hooks(first, second):
    def code(T):
        def run(name):
            register = getattr(T.nn.modules.module, name.replace("register", "register_module"))
            register(print).remove()

        return messages(lambda: run(first)), messages(lambda: run(second))

    agree(code)


@pytest.mark.parametrize("own", [FULL, LAST])
@pytest.mark.parametrize("shared", [FULL, LAST])
def test_global_and_own_hooks(shared, own):
    def code(T):
        register = getattr(T.nn.modules.module, shared.replace("register", "register_module"))
        m, log = logged(module(T, lambda a: a.exp()), own)
        with register(lambda m, gi, go: log.append(("global", gi, go))):
            out = m(leaf(T))
        out.sum().backward()
        m(leaf(T)).sum().backward()
        return log

    agree(code)


def test_global_hooks_of_every_module():
    def code(T):
        mm, log = T.nn.modules.module, []
        net = T.nn.Sequential(module(T, lambda a: a * 2), T.nn.ReLU())
        with (
            mm.register_module_full_backward_hook(lambda m, gi, go: log.append((type(m).__name__, gi, go))),
            mm.register_module_full_backward_pre_hook(lambda m, go: log.append((type(m).__name__, go))),
        ):
            net(leaf(T)).sum().backward()
        net(leaf(T)).sum().backward()
        return log

    agree(code)


# -- copies and handles --------------------------------------------------------------------------------
def test_copies_keep_the_hooks():
    def code(T):
        out = []
        m = T.nn.ReLU()
        m.register_full_backward_hook(copied_hook)
        for made in (copy.copy(m), copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
            x = leaf(T)
            made(x).sum().backward()
            out.append((x.grad, len(made._backward_hooks), made._is_full_backward_hook))
            made._backward_hooks.clear()
        return out, len(m._backward_hooks)

    agree(code)


def copied_hook(module, grad_input, grad_output):
    return (grad_input[0] * 10,)


@pytest.mark.parametrize("kind", KINDS)
def test_handles(kind):
    def code(T):
        m = kit(T).Tiny()
        hooks = m._backward_pre_hooks if kind == PRE else m._backward_hooks
        with getattr(m, kind)(print) as inside:
            during = len(hooks), inside.id in hooks
        handle = getattr(m, kind)(print)
        handle.remove()
        handle.remove()
        return during, len(hooks), type(handle).__name__

    agree(code)


def test_a_module_before_init_says_what_is_missing():
    class Bare(torchlike.nn.Module):
        def __init__(self):
            """Forgets Module's own."""

        def forward(self, x):
            return x

    with pytest.raises(AttributeError, match=r"no attribute '_backward_hooks'; call super\(\).__init__\(\) first"):
        Bare()(1)
