"""The import paths of functorch, and what it had before torch.func, compared with PyTorch."""

from __future__ import annotations

import importlib
import sys
import warnings

import pytest
from both import agree
from story_kit import said, warned

import torchlike
from torchlike.interop.alias import install_as_torch, uninstall_as_torch

PATHS = [
    "apis.vmap", "apis.grad", "apis.grad_and_value", "apis.chunk_vmap", "eager_transforms.vjp", "eager_transforms.jvp",
    "eager_transforms.jacrev", "eager_transforms.jacfwd", "eager_transforms.hessian", "eager_transforms.linearize",
    "eager_transforms.functionalize", "eager_transforms.debug_unwrap", "functional_call.functional_call",
    "functional_call.stack_module_state", "make_functional.make_functional",
    "make_functional.make_functional_with_buffers", "make_functional.combine_state_for_ensemble",
    "batch_norm_replacement.replace_all_batch_norm_modules_",
]  # fmt: skip


def part(t, name):
    return importlib.import_module(f"{t.__name__}._functorch.{name}")


@pytest.mark.parametrize("path", PATHS)
def test_paths(path):
    module, name = path.split(".")
    agree(lambda t: getattr(part(t, module), name).__name__)


def net(t):
    made = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.BatchNorm1d(3)).double()
    for p in made.parameters():
        p.data.fill_(0.5)
    return made


def test_modules_as_functions():
    def functions(t):
        old, x = part(t, "make_functional"), t.ones(4, 2, dtype=t.float64)
        f, params = old.make_functional(net(t)[0])
        g, more, buffers = old.make_functional_with_buffers(net(t))
        _, plain = old.make_functional(net(t)[0], disable_autograd_tracking=True)
        fm, stacked, kept = old.combine_state_for_ensemble([net(t), net(t)])
        each = t.vmap(fm, (0, 0, None), randomness="same")(stacked, kept, x) if not fm.training else None
        return (
            f(params, x),
            g(more, buffers, x),
            f.param_names,
            plain,
            stacked,
            kept,
            each,
            repr(f),
            len(list(f.parameters())),
        )

    agree(functions)


def test_gradients_of_functional_modules():
    def gradients(t):
        f, params = part(t, "make_functional").make_functional(net(t)[0])
        x = t.ones(4, 2, dtype=t.float64)
        each = t.vmap(t.func.grad(lambda p, v: f(p, v).sum()), (None, 0))(params, x)
        return [g.detach() for g in each]

    agree(gradients)


def test_what_is_refused():
    def refused(t):
        old = part(t, "make_functional")
        return [
            said(lambda: old.make_functional(net(t))),
            said(lambda: old.combine_state_for_ensemble([])),
            said(lambda: old.combine_state_for_ensemble([net(t), t.nn.Linear(1, 1)])),
            said(lambda: old.combine_state_for_ensemble([net(t), net(t).eval()])),
            said(lambda: part(t, "apis").chunk_vmap(t.sin, chunks=0)(t.ones(2)), "greater than 0, got: 0"),
        ]

    agree(refused)


@pytest.mark.parametrize("chunks", [1, 2, 5])
def test_chunks(chunks):
    agree(lambda t: part(t, "apis").chunk_vmap(lambda v: v * 2, chunks=chunks)(t.arange(3.0)))


def test_batch_norm_without_statistics():
    def replaced(t):
        m = t.func.replace_all_batch_norm_modules_(net(t))
        return repr(m), m[1].running_mean, m(t.ones(4, 2, dtype=t.float64)), m is not None

    agree(replaced)


@pytest.mark.parametrize("name", ["vmap", "grad", "jacrev", "make_functional", "functionalize"])
def test_deprecated_names_warn(name):
    def warns(t):
        old = getattr(part(t, "deprecated"), name)
        given = t.nn.Linear(1, 1) if name == "make_functional" else t.sin
        return warned(lambda: old(given), r"`functorch.\w+` is deprecated as of PyTorch 2.0"), warned(
            lambda: old(given), r"Please use `[\w.]+` instead"
        )

    agree(warns)


def test_questions_to_tensors():
    def asked(t):
        C, x, seen, kept = t._C._functorch, t.ones(2, 3), [], []

        def ask(v):
            inside = C.is_functorch_wrapped_tensor(v)
            seen.append((
                C.is_batchedtensor(v), C.is_gradtrackingtensor(v), inside, C.is_legacy_batchedtensor(v),
                C.maybe_get_level(v), C.maybe_get_bdim(v), C.maybe_current_level(), C.is_dead_tensor_wrapper(v),
                str(C.get_unwrapped(v)) if inside else said(lambda: C.get_unwrapped(v), "No wrappers present!"),
            ))  # fmt: skip
            return v.sum()

        ask(x)
        t.vmap(ask)(x)
        t.func.grad(ask)(x)
        t.vmap(t.func.grad(ask), in_dims=1)(x)
        t.func.jvp(ask, (x,), (x,))
        t.func.grad(lambda a: t.vmap(ask)(a).sum())(x)
        t.func.grad(lambda v: kept.append(v) or v.sum())(x)
        ask(kept[0])
        return seen

    agree(asked)


def test_functorch_is_known_beside_torch(monkeypatch):
    before = dict(sys.modules)
    for name in before:
        if name.split(".")[0] in ("torch", "functorch"):
            monkeypatch.delitem(sys.modules, name)
    install_as_torch()
    try:
        functorch = importlib.import_module("functorch")
        assert functorch is torchlike.functorch
        assert importlib.import_module("functorch.experimental").jacfwd is torchlike.func.jacfwd
        with pytest.raises(ModuleNotFoundError, match="does not have the module functorch.compile yet"):
            importlib.import_module("functorch.compile")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert functorch.vmap(torchlike.neg)(torchlike.ones(2)).tolist() == [-1.0, -1.0]
    finally:
        uninstall_as_torch()
    assert "functorch" not in sys.modules
