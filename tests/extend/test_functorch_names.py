"""The import paths of functorch, and what it had before torch.func, compared with PyTorch."""

from __future__ import annotations

import importlib
import sys
import warnings

import pytest
from both import agree
from story_kit import said, story, warned

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
        assert importlib.import_module("functorch.compile").nop is torchlike.functorch.compile.nop
        dim = importlib.import_module("functorch.dim")
        with pytest.raises(NotImplementedError, match=r"functorch.dim.dims: .* use vmap"):
            dim.dims(2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert functorch.vmap(torchlike.neg)(torchlike.ones(2)).tolist() == [-1.0, -1.0]
    finally:
        uninstall_as_torch()
    assert "functorch" not in sys.modules


def test_ties_survive():
    def tied(t):
        old = part(t, "make_functional")
        m = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Linear(2, 2)).double()
        m[1].weight = m[0].weight
        for i, p in enumerate(m.parameters()):
            p.data.fill_(i + 1.0)
        f, params = old.make_functional(m)
        return len(params), f.names_map, f(params, t.ones(1, 2, dtype=t.float64))

    agree(tied)


def test_ensembles_made_at_once():
    def ensembles(t):
        old, made = part(t, "make_functional"), []

        def module():
            made.append(net(t))
            return made[-1]

        weights, f, names = old.functional_init(t.nn.Linear, (3,))(2, 3)
        more, buffers, g, *both = old.functional_init_with_buffers(module, [2])()
        x = t.ones(2, 4, 2, dtype=t.float64)
        out = t.vmap(g, randomness="same")(more, [b.clone() for b in buffers], (x,))
        shapes = [p.shape for p in t.vmap(f)(weights, (t.ones(3, 4, 2),))]
        return (
            [w.shape for w in weights],
            names,
            shapes,
            out,
            both,
            [w.requires_grad for w in more],
            said(lambda: old.functional_init(t.nn.Linear, (2, 2))(2, 3)),
            said(lambda: old.functional_init(t.nn.Linear, (0,))(2, 3)),
            said(lambda: old.functional_init(module)(), "buf"),
        )

    agree(ensembles)


def test_weights_out_and_in():
    def moved(t):
        old, m = part(t, "make_functional"), net(t)
        weights, names, groups = old.extract_weights(m)
        buffers, more, _ = old.extract_buffers(m)
        told = [weights, names, groups, buffers, more, [p.is_meta for p in m.parameters()]]
        told += [
            old.load_state(m, weights, names, buffers, more) is m,
            m[0].weight is weights[0],
            m(t.ones(3, 2).double()),
        ]
        had = old._swap_state(m, {"0.weight": ["0.weight"]}, [t.zeros(3, 2).double()])
        return told, had[0] is weights[0], m[0].weight, said(lambda: old.load_state(m, weights[:1], names))

    agree(moved)


def test_steps_of_vmap():
    def steps(t):
        v, told = part(t, "vmap"), []
        restored = v.restore_vmap(lambda x, y: (x + y, y), (1, None), 2, "error")(t.ones(3, 2), t.ones(3))
        with v.vmap_increment_nesting(3, "error") as level:
            inside = v.wrap_batched((t.arange(3.0), t.ones(2)), (0, None), level)
            told += [level, str(inside[0]), v.unwrap_batched((inside[0] * 2, inside[1]), level)]
            told += [v._unwrap_batched((inside[0] * 2, inside[1]), 0, level, 3, t.sin)]
            told += [said(lambda: v._unwrap_batched(inside[0], None, level, 3, t.sin), "can not return a Batched")]
        told += [v._process_batched_inputs(0, (t.ones(3, 2),), t.sin)[:2], v.get_chunk_sizes(7, 3)]
        told += [said(lambda: v._validate_and_get_batch_size([0, 1], [t.ones(2), t.ones(3, 3)]))]
        return told, restored, v.vmap_impl(t.sin, 0, 0, "error", 1, t.zeros(2)), t._C._functorch.maybe_current_level()

    agree(steps)


def test_steps_of_transforms():
    def steps(t):
        e, x = part(t, "eager_transforms"), t.ones(2)
        told = [e._slice_argnums((1, 2, 3), (0, -1)), e._slice_argnums((1, 2), 1), e._slice_argnums((1, 2), 1, False)]
        told += [said(lambda a=a: e._slice_argnums((1, 2), a)) for a in ((), (0, 0), (5,))]
        told += [e._replace_args((1, 2, 3), (7, 8), (0, 2)), e._validate_and_wrap_argnums((-1, 0), 2)]
        told += [e._jvp_with_argnums(t.mul, (x, x * 3), (x,), (0,), has_aux=False)]
        told += [e._vjp_with_argnums(t.mul, x, x * 3, argnums=(0,))[1](x)]
        told += [e._construct_standard_basis_for([t.zeros(2), t.zeros(1)], [2, 1]), e._as_tuple(1)]
        told += [said(lambda: e.error_if_complex("f", (x * 1j,), True))]
        return told, e.grad_and_value_impl(t.sin, 0, False, (t.tensor(0.0),), {})

    agree(steps)


@pytest.mark.parametrize("place", [(0, 1), (1, 0), (2, 0), (-1, -1)])
def test_axes_joined(place):
    agree(lambda t: t._C._functorch.reshape_dim_into(*place, t.arange(24).reshape(2, 3, 4)))


@pytest.mark.parametrize("place", [(0, 2), (-1, 2), (2, 4), (1, 1)])
def test_axes_split(place):
    agree(lambda t: t._C._functorch.reshape_dim_outof(*place, t.arange(24).reshape(2, 3, 4)))


def test_an_axis_that_cannot_be_split():
    with pytest.raises(RuntimeError, match="size1 == 0"):
        torchlike._C._functorch.reshape_dim_outof(1, 2, torchlike.ones(2, 3))


def test_levels_of_derivatives():
    def levels(t):
        seen, kept, C = [], [], t._C._functorch

        def ask(x):
            kept.append(x.sin())
            seen.append((C.dlevel(x), C.dlevel(t.ones(1))))
            return x.sum()

        ask(t.ones(2))
        t.func.grad(ask)(t.ones(2))
        t.vmap(ask)(t.ones(2, 2))
        t.vmap(t.func.grad(ask))(t.ones(2, 2))
        t.func.jvp(ask, (t.ones(2),), (t.ones(2),))
        return seen, C.dlevel(kept[1])

    agree(levels)


def test_old_paths():
    vmap = importlib.import_module("torchlike.functorch._src.vmap")
    assert vmap._unwrap_batched is importlib.import_module("torchlike._functorch.vmap")._unwrap_batched
    assert importlib.import_module("torchlike.functorch._src.make_functional")._swap_state


def test_the_switch_of_a_warning():
    def switched(t):
        before = t._C._debug_only_are_vmap_fallback_warnings_enabled()
        t._C._debug_only_display_vmap_fallback_warnings(True)
        try:
            return before, t._C._debug_only_are_vmap_fallback_warnings_enabled()
        finally:
            t._C._debug_only_display_vmap_fallback_warnings(False)

    agree(switched)


@story
def test_boxes(t):
    """Functions of a list, as PyTorch's compilers of graphs give them."""
    module = importlib.import_module("torchlike.functorch.compile" if t is torchlike else "functorch.compile")
    boxed = module.make_boxed_func(lambda a, b: a - b)
    compiler = module.make_boxed_compiler(lambda graph, inputs: lambda a: a * 2)
    return boxed([5, 3]), boxed._boxed_call, compiler(None, [])([4]), module.nop(max, [])([1, 3])


def test_what_compiles_and_what_cuts_graphs():
    module = importlib.import_module("torchlike.functorch.compile")
    layer = module.memory_efficient_fusion(torchlike.nn.Linear(2, 1))
    layer(torchlike.ones(1, 2)).sum().backward()
    assert layer.weight.grad.tolist() == [[1, 1]]
    with pytest.raises(NotImplementedError, match=r"memory_efficient_fusion\(\) takes no options"):
        module.memory_efficient_fusion(max, static_argnums=0)
    with pytest.raises(NotImplementedError, match=r"functorch.compile.aot_module_simplified: .* torch.compile"):
        module.aot_module_simplified(max, module.nop)
    with pytest.raises(AttributeError, match="aot_functoin"):
        getattr(module, "aot_functoin")  # noqa: B009


def test_settings_of_functorch():
    def settings(t):
        config = part(t, "config")
        before = config.donated_buffer
        with config.patch(donated_buffer=not before, activation_memory_budget=0.5):
            within = config.donated_buffer, config.activation_memory_budget
        wrong = said(lambda: config.no_such_setting, "no_such_setting does not exist")
        of_ci = "error_on_custom_op_aliasing"  # which PyTorch sets where the environment has CI
        values = {k: v for k, v in config.get_config_copy().items() if k.islower() and not k.startswith("_save")}
        values.pop(of_ci)
        return before, within, config.donated_buffer, wrong, sorted(values.items(), key=str)

    agree(settings)


@pytest.mark.parametrize("name", ["pyfunctorch.retrieve_all_functorch_interpreters", "compilers.ts_compile",
                                  "autograd_function.custom_function_call"])  # fmt: skip
def test_parts_that_are_not_here(name):
    module, _, what = name.partition(".")
    with pytest.raises(NotImplementedError, match=f"torch._functorch.{name}: "):
        getattr(part(torchlike, module), what)()


def test_a_compiler_that_prints(capsys):
    x = torchlike.ones(2, requires_grad=True)
    compilers = part(torchlike, "compilers")
    fn = importlib.import_module("torchlike.functorch.compile").aot_function
    fn(lambda v: v.sin().sum(), fw_compiler=compilers.print_compile, bw_compiler=compilers.nop)(x).backward()
    assert "torch.ops.aten.sin.default" in capsys.readouterr().out
    assert x.grad.equal(x.detach().cos())


def test_control_flow_of_functorch():
    flow = importlib.import_module("torchlike.functorch.experimental.control_flow")
    x = torchlike.arange(3.0)
    assert flow.cond(x.sum() > 1, torchlike.sin, torchlike.cos, (x,)).equal(x.sin())
    assert flow.map(lambda row: row * 2, x).equal(x * 2)


def test_custom_functions_at_a_single_level():
    with part(torchlike, "utils").enable_single_level_autograd_function():
        assert torchlike.func.grad(lambda v: v.sin())(torchlike.zeros(())).item() == 1.0
