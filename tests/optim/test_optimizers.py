"""Optimizers: steps and state equal to PyTorch's, step by step; forms, errors, compilation."""

import copy
import gc
import io
import math

import numpy as np
import pytest
import torch
from oracle import check_error, host

import torchlike
from torchlike._executor import fused
from torchlike._ops import lbfgs

STEPS = 5
SHAPES = ((3, 4), (5,), ())
# A list stands for a tensor: {"lr": [0.1]} is lr=tensor(0.1).
CASES = [
    ("SGD", {}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"maximize": True, "weight_decay": 0.1, "lr": [0.1]}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "lr": 0.1}),
    ("Adam", {"maximize": True, "betas": (0.5, 0.9), "lr": [0.1]}),
    ("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {}),
    ("AdamW", {"amsgrad": True, "lr": 0.1}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9}),
    ("RMSprop", {"weight_decay": 0.1, "centered": True, "momentum": 0.3, "maximize": True}),
    ("RMSprop", {"centered": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}),
    ("Adagrad", {"initial_accumulator_value": 0.5, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"weight_decay": 0.1, "maximize": True, "lr": 0.3}),
    ("Adamax", {}),
    ("Adamax", {"weight_decay": 0.1, "maximize": True, "lr": 0.3}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "maximize": True, "lr": 0.3}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"weight_decay": 0.1, "maximize": True, "lr": 0.3}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("ASGD", {}),
    ("ASGD", {"t0": 2, "weight_decay": 0.1}),
    ("ASGD", {"maximize": True, "lambd": 0.1, "alpha": 0.5, "t0": 0}),
    ("Rprop", {}),
    ("Rprop", {"maximize": True, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.02)}),
    ("Adafactor", {}),
    ("Adafactor", {"weight_decay": 0.1, "maximize": True, "lr": 0.3, "eps": (1e-6, 1e-2)}),
]
NAMES = list(dict.fromkeys(name for name, _ in CASES))
TOLERANCE = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-7, "complex128": 1e-9}


def arrays(dtype, shapes=SHAPES, seed=0):
    rng = np.random.RandomState(seed)
    found = [rng.standard_normal(s) for s in shapes]
    if dtype.startswith("complex"):
        found = [a + 1j * rng.standard_normal(np.shape(a)) for a in found]
    return [np.asarray(a).astype(dtype) for a in found]


def train(lib, name, options, dtype="float64", steps=STEPS, shapes=SHAPES, skip=True):
    """The parameters and the optimizer after some steps; the second parameter has no gradient in the
    second.
    """
    params = [lib.nn.Parameter(lib.tensor(a)) for a in arrays(dtype, shapes)]
    options = {k: lib.tensor(v[0]) if isinstance(v, list) else v for k, v in options.items()}
    optimizer = getattr(lib.optim, name)(params, **options)
    for i in range(steps):
        for j, (p, g) in enumerate(zip(params, arrays(dtype, shapes, i + 1), strict=True)):
            p.grad = None if skip and (i, j) == (1, 1) else lib.tensor(g)
        optimizer.step()
    return params, optimizer


def compare(ours, theirs, tol):
    (p, a), (q, b) = ours, theirs
    for x, y in zip(p, q, strict=True):
        np.testing.assert_allclose(host(x), y.detach().numpy(), rtol=5 * tol, atol=tol)
        mine, real = a.state.get(x, {}), b.state.get(y, {})
        assert list(mine) == list(real)
        for k, v in real.items():
            if isinstance(v, torch.Tensor):
                assert str(mine[k].dtype) == str(v.dtype) and tuple(mine[k].shape) == tuple(v.shape), k
                np.testing.assert_allclose(host(mine[k]), v.detach().numpy(), rtol=5 * tol, atol=tol, err_msg=k)
            else:
                assert mine[k] == v


@pytest.mark.parametrize("name, options", CASES)
def test_steps_and_state(name, options):
    ours, theirs = train(torchlike, name, options), train(torch, name, options)
    compare(ours, theirs, TOLERANCE["float64"])
    mine, real = ours[1].state_dict(), theirs[1].state_dict()
    assert list(mine["state"]) == list(real["state"])
    assert [list(g) for g in mine["param_groups"]] == [list(g) for g in real["param_groups"]]
    if not any(isinstance(v, list) for v in options.values()):
        assert repr(ours[1]) == repr(theirs[1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_dtypes(name, dtype):
    if name == "Adafactor" and dtype.startswith("complex"):
        for lib in (torch, torchlike):
            with pytest.raises(RuntimeError, match="complex"):
                train(lib, name, {}, dtype)
        return
    options = {"lr": 0.1}
    compare(train(torchlike, name, options, dtype, 3), train(torch, name, options, dtype, 3), TOLERANCE[dtype])


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}], ids=str)
@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adagrad"])
def test_counts_under_a_default_of_doubles(name, options):
    def dtypes(t):
        p = t.nn.Parameter(t.ones(2, dtype=t.float32))
        p.grad = t.ones_like(p)
        t.set_default_dtype(t.float64)
        try:
            optimizer = getattr(t.optim, name)([p], lr=0.1, **options)
            optimizer.step()
        finally:
            t.set_default_dtype(t.float32)
        return [(k, str(v.dtype).rpartition(".")[2]) for k, v in optimizer.state[p].items()]

    assert dtypes(torchlike) == dtypes(torch)


def test_radam_beyond_its_warm_up():
    compare(train(torchlike, "RAdam", {}, steps=9), train(torch, "RAdam", {}, steps=9), 1e-9)


@pytest.mark.parametrize(
    "options", [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "lr": 0.01, "momentum": 0.5}]
)
def test_muon(options):
    shapes = ((3, 4), (4, 2))
    found = [train(lib, "Muon", options, "float32", 3, shapes) for lib in (torchlike, torch)]
    compare(*found, 2e-3)  # the iterations are in bfloat16


def test_muon_of_bfloat16_keeps_the_unit_matrix():
    def run(t):
        p = t.tensor([[1.0, 2, 3], [4, 5, 6]], dtype=t.bfloat16, requires_grad=True)
        optimizer = t.optim.Muon([p], lr=0.01, momentum=0.5, nesterov=False)
        for _ in range(2):
            p.grad = t.tensor([[1.0, 2, 3], [4, -5, 6]], dtype=t.bfloat16)
            optimizer.step()
        return optimizer.state[p]["momentum_buffer"].tolist()

    np.testing.assert_allclose(run(torchlike), run(torch), rtol=0.02)


@pytest.mark.once
@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_state_of_compiled_steps_in_the_memory_order_of_the_parameter(name):
    def run(t):
        p = t.arange(6.0, dtype=t.float64).reshape(3, 2).t().requires_grad_()
        optimizer = getattr(t.optim, name)([p], lr=0.1, **({"momentum": 0.9} if name == "SGD" else {}))

        def step():
            optimizer.zero_grad()
            (p.sin() * p).sum().backward()
            optimizer.step()

        (t.compile(step) if t is torchlike else step)()
        file = io.BytesIO()
        t.save(optimizer.state[p], file)
        file.seek(0)
        tensors = [*optimizer.state[p].values(), *t.load(file).values()]
        return [v.numpy().tolist() for v in tensors]

    for a, b in zip(run(torchlike), run(torch), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("name", "options"), [case for case in CASES if case[0] != "Adafactor"])
def test_half_precision(name, options, dtype):
    """16-bit numbers are rounded where PyTorch rounds them, but beyond its last whole vector; some are ties."""
    rng = np.random.RandomState(0)
    start, grads = rng.randn(32, 16), rng.randn(4, 32, 16) * 10.0 ** rng.randint(-6, 1, (4, 32, 16))

    def run(t):
        p = t.tensor(start, dtype=getattr(t, dtype)).requires_grad_()
        given = {k: t.tensor(v[0]) if isinstance(v, list) else v for k, v in options.items()}
        optimizer = getattr(t.optim, name)([p], **given)
        for g in grads:
            p.grad = t.tensor(g, dtype=p.dtype)
            optimizer.step()
        state = optimizer.state[p]
        return [x.detach().double().numpy() for x in (p, *[state[k] for k in sorted(state)]) if isinstance(x, t.Tensor)]

    for ours, expected in zip(run(torchlike), run(torch), strict=True):
        assert (ours != expected).mean(where=~np.isnan(expected)) <= 0.02
        assert (np.isnan(ours) == np.isnan(expected)).all()


# ----- state dicts -----


def from_torch(value):
    if isinstance(value, torch.Tensor):
        return torchlike.tensor(value.detach().numpy())
    if isinstance(value, dict):
        return {k: from_torch(v) for k, v in value.items()}
    return [from_torch(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", NAMES)
def test_continues_from_a_state_dict_of_pytorch(name):
    options = {"momentum": 0.9, "lr": 0.1} if name == "SGD" else {"lr": 0.1}
    params, optimizer = train(torch, name, options, skip=False)
    mine = [torchlike.nn.Parameter(torchlike.tensor(p.detach().numpy())) for p in params]
    resumed = getattr(torchlike.optim, name)(mine, lr=0.5)
    resumed.load_state_dict(from_torch(optimizer.state_dict()))
    assert resumed.param_groups[0]["lr"] == 0.1
    reloaded = getattr(torch.optim, name)(params, lr=0.5)  # which casts what it loads
    reloaded.load_state_dict(optimizer.state_dict())
    for i in range(3):
        for p, q, g in zip(params, mine, arrays("float64", seed=i), strict=True):
            p.grad, q.grad = torch.tensor(g), torchlike.tensor(g)
        reloaded.step(), resumed.step()
    compare((mine, resumed), (params, reloaded), 1e-7)  # scalars of the state were float32


def test_parameters_out_of_step():
    """Counts that differ are kept apart, and loading does not slow what was in step."""
    params, optimizer = train(torchlike, "Adam", {"lr": 0.1})
    counts = [optimizer.state[p]["step"].item() for p in params]
    assert counts == [5, 4, 5]
    loaded = torchlike.optim.Adam(params)
    loaded.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    loaded.step()
    assert [loaded.state[p]["step"].item() for p in params] == [6, 5, 6]


def test_old_state_dicts_lack_options():
    p = torchlike.nn.Parameter(torchlike.ones(2))
    optimizer = torchlike.optim.Adam([p])
    saved = optimizer.state_dict()
    for key in ("amsgrad", "maximize", "foreach", "decoupled_weight_decay"):
        del saved["param_groups"][0][key]
    optimizer.load_state_dict(saved)
    p.grad = torchlike.ones(2)
    optimizer.step()


# ----- behaviour -----


def test_writes_in_place():
    p = torchlike.nn.Parameter(torchlike.ones(3))
    alias = p.data.view(3)
    version, address = p._version, p.data_ptr()
    p.grad = torchlike.ones(3)
    torchlike.optim.SGD([p], lr=0.5).step()
    np.testing.assert_array_equal(host(alias), [0.5] * 3)
    assert p._version > version and p.data_ptr() == address and p.is_leaf and p.requires_grad


def test_views_as_parameters():
    base = torchlike.zeros(2, 3)
    p = base[1].requires_grad_()
    p.grad = torchlike.ones(3)
    torchlike.optim.SGD([p], lr=1.0).step()
    np.testing.assert_array_equal(host(base), [[0, 0, 0], [-1, -1, -1]])


def test_a_step_after_forward_is_noticed():
    w = torchlike.ones(2, requires_grad=True)
    y = (w * w).sum()
    w.grad = torchlike.ones(2)
    torchlike.optim.SGD([w], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_closure_and_groups():
    def run(lib):
        a, b = (lib.nn.Parameter(lib.ones(2)) for _ in range(2))
        optimizer = lib.optim.Adam([{"params": [a]}, {"params": [b], "lr": 0.5, "betas": (0.1, 0.2)}], lr=0.1)

        def closure():
            optimizer.zero_grad()
            loss = (a * a).sum() + (b * b * b).sum()
            loss.backward()
            return loss

        with lib.no_grad():
            losses = [optimizer.step(closure).item() for _ in range(3)]
        return losses, a.tolist(), b.tolist()

    for x, y in zip(run(torchlike), run(torch), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)


def test_nothing_to_do():
    p = torchlike.nn.Parameter(torchlike.ones(2))
    for name in ("SGD", "Adam"):
        optimizer = getattr(torchlike.optim, name)([p])
        assert optimizer.step() is None and not optimizer.state and p._version == 0


def test_new_numbers_do_not_compile_again():
    for name, options in [("SGD", {"momentum": 0.9}), ("Adam", {"weight_decay": 0.1}), ("RMSprop", {})]:
        params = [torchlike.nn.Parameter(torchlike.ones(s)) for s in SHAPES]
        optimizer = getattr(torchlike.optim, name)(params, **options)

        def step(rate, params=params, optimizer=optimizer):
            optimizer.param_groups[0].update(
                lr=rate,
                weight_decay=rate + 1,
                momentum=rate if "momentum" in optimizer.defaults and optimizer.defaults["momentum"] else 0,
            )
            for p in params:
                p.grad = torchlike.ones(tuple(p.shape))
            optimizer.step()

        for rate in (0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.3):  # recorded execution compiles what comes back
            step(rate)
        before = _programs()
        for i in range(3, 6):
            step(i / 10)
        assert _programs() == before


def _programs():
    """How many programs all compiled functions have."""
    return sum(x._cache_size() for x in gc.get_objects() if type(x).__name__ == "PjitFunction")


def test_one_program_for_all_parameters():
    params, optimizer = train(torchlike, "Adam", {}, skip=False)
    assert len({id(optimizer.state[p]["step"]._storage.value) for p in params}) == 1


def test_meta_parameters():
    p = torchlike.nn.Parameter(torchlike.empty(2, device="meta"))
    p.grad = torchlike.empty(2, device="meta")
    torchlike.optim.SGD([p], momentum=0.9).step()
    assert p.is_meta


# ----- differentiable steps -----


@pytest.mark.parametrize("name", ["Adam", "RAdam", "SGD"])
def test_differentiable(name):
    def run(lib):
        w = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
        lr = lib.tensor(0.1, dtype=lib.float64, requires_grad=name != "SGD")
        p = w.clone()
        p.retain_grad()
        optimizer = getattr(lib.optim, name)([p], lr=lr if name != "SGD" else 0.1, differentiable=True)
        for i in range(3):
            p.grad = (w * 3 + i) ** 2
            optimizer.step()
        inputs = [w] if name == "SGD" else [w, lr]
        return [p.detach(), *lib.autograd.grad(p.sum(), inputs)]

    for x, y in zip(run(torchlike), run(torch), strict=True):
        np.testing.assert_allclose(host(x), y.numpy(), rtol=1e-4)  # PyTorch takes the rate through float32


def test_differentiable_of_a_leaf():
    def f(t):
        p = t.nn.Parameter(t.ones(2))
        p.grad = t.ones(2)
        t.optim.SGD([p], differentiable=True).step()

    check_error(f, match="a leaf Variable that requires grad")


@pytest.mark.parametrize("name", ["Adam", "RMSprop"])
def test_a_differentiable_step_is_none_of_foreach(name):
    def f(t):
        p = t.ones(2, requires_grad=True) * 2
        p.retain_grad()
        p.grad = t.ones(2)
        getattr(t.optim, name)([p], foreach=True, differentiable=True).step()

    check_error(f, match="_foreach ops don't support autograd")


# ----- L-BFGS -----


def rosenbrock(p):
    return (100 * (p[1:] - p[:-1] ** 2) ** 2 + (1 - p[:-1]) ** 2).sum()


def quartic(p):
    return ((p - 1) ** 4).sum()


LBFGS = [
    {"lr": 1e-3},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "max_iter": 5, "history_size": 2},
    {"lr": 0.01, "max_eval": 3},
    {"lr": 1e-5, "max_iter": 3, "line_search_fn": "strong_wolfe"},
]


@pytest.mark.once
@pytest.mark.parametrize("options", LBFGS)
@pytest.mark.parametrize("function", [rosenbrock, quartic])
def test_lbfgs(function, options):
    def run(lib):
        start = np.array([-1.2, 1.0, 0.5, 2.0])
        p, q = lib.nn.Parameter(lib.tensor(start)), lib.nn.Parameter(lib.tensor(start[:1]))
        optimizer = lib.optim.LBFGS([p, q], **options)
        calls = []

        def closure():
            optimizer.zero_grad()
            loss = function(p) + (q * q).sum() * (p * p).sum()
            loss.backward()
            calls.append(loss.item())
            return loss

        losses = [optimizer.step(closure).item() for _ in range(2)]
        state = optimizer.state[p]
        facts = len(calls), state["n_iter"], state["func_evals"], len(state["old_dirs"]), sorted(state)
        return losses, p.detach().tolist(), facts

    ours, theirs = run(torchlike), run(torch)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5)
    assert ours[2] == theirs[2]


@pytest.mark.once
def test_lbfgs_histories_of_many_lengths_share_programs():
    p = torchlike.nn.Parameter(torchlike.tensor([-1.2, 1.0, 0.5, 2.0]))
    optimizer = torchlike.optim.LBFGS([p], 1e-3, max_iter=32, tolerance_grad=-math.inf, tolerance_change=-math.inf)
    program = fused.compiled(lbfgs.direct, ())

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(p)
        loss.backward()
        return loss

    before = program._cache_size()
    optimizer.step(closure)
    assert len(optimizer.state[p]["old_dirs"]) == 31
    assert program._cache_size() - before <= 6  # histories of 1, 2, 4, 8, 16 and 32


def test_lbfgs_without_a_slope():
    """A tolerance that no gradient meets has it go on where there is none."""

    def run(lib):
        p = lib.nn.Parameter(lib.ones(3))
        p.grad = lib.zeros(3)
        optimizer = lib.optim.LBFGS([p], 0.01, tolerance_grad=-math.inf)
        return optimizer.step(lambda: lib.tensor([10])).tolist(), p.tolist(), optimizer.state[p]["t"]

    assert run(torchlike) == run(torch)


# ----- errors -----

ERRORS = """
SGD([P], lr=-1)=learning rate: -1
SGD([P], momentum=-1)=momentum value: -1
SGD([P], weight_decay=-1)=weight_decay value
SGD([P], nesterov=True)=Nesterov momentum requires
SGD([P], lr=T.tensor([0.1, 0.2]))=1-element
SGD([P], fused=True, differentiable=True)=does not support `differentiable`
SGD([P], fused=True, foreach=True)=cannot be `True` together
Adam([P], lr=-1)=learning rate
Adam([P], eps=-1)=epsilon value: -1
Adam([P], betas=(1.0, 0.9))=beta parameter at index 0: 1.0
Adam([P], betas=(0.1, 1.9))=index 1: 1.9
Adam([P], betas=(T.tensor(0.9), 0.99))=both floats or both Tensors
Adam([P], lr=T.tensor(0.1), foreach=True)=lr as a Tensor is not supported
AdamW([P], weight_decay=-1)=weight_decay value
RMSprop([P], alpha=-1)=alpha value
RMSprop([P], momentum=-1)=momentum value
Adagrad([P], lr_decay=-1)=lr_decay value
Adagrad([P], initial_accumulator_value=-1)=initial_accumulator_value
Adadelta([P], rho=-1)=rho value
Adamax([P], betas=(1, 1))=index 0
NAdam([P], momentum_decay=-1)=momentum_decay value
RAdam([P], betas=(2, 1))=index 0: 2
Rprop([P], etas=(2, 1))=eta values: 2, 1
ASGD([P], lr=-1)=learning rate
LBFGS([P], lr=-1)=learning rate
LBFGS([{'params': [P]}, {'params': [T.nn.Parameter(T.ones(1))]}])=per-parameter options
LBFGS([P], line_search_fn='x').step(lambda: (P**2).sum())=strong_wolfe
Muon([T.nn.Parameter(T.ones(2))])=2D parameters
Adafactor([P], d=0.5)=d should be >= 1
""".strip().split("\n")


@pytest.mark.parametrize("line", ERRORS)
def test_errors(line):
    call, match = line.rsplit(")=", 1)[0] + ")", line.rsplit(")=", 1)[1]

    def f(t):
        p = t.nn.Parameter(t.ones(2, 2))
        p.grad = t.ones(2, 2)
        return eval(f"T.optim.{call}", {"T": t, "P": p})

    check_error(f, match=match)
