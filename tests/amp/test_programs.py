"""Autocast inside and around compiled functions, checkpoints, recorded calls and exports."""

import pytest
from both import agree
from story_kit import story

import torchlike

t = torchlike


def values(t, scale=8.0):
    return (t.arange(1.0, 10.0) / scale).reshape(3, 3)


def test_each_state_has_a_program_of_its_own():
    @t.compile(fullgraph=True)
    def double(x):
        return x @ x

    def dtypes():
        found = [double(x).dtype]
        for how in ({}, {"dtype": t.float16}, {"enabled": False}):
            with t.autocast("cpu", **how):
                found.append(double(x).dtype)
        return found

    x = values(t)
    expected = [t.float32, t.bfloat16, t.float16, t.float32]
    assert dtypes() == dtypes() == dtypes() == expected
    assert double.count == 3


def test_settings_that_are_put_back_are_no_other_state():
    double = t.compile(lambda x: x @ x, fullgraph=True)
    double(values(t))
    t.set_autocast_dtype("cpu", t.float16)
    t.set_autocast_dtype("cpu", t.bfloat16)
    t.set_autocast_cache_enabled(True)
    double(values(t))
    assert double.count == 1


def test_contexts_within_a_function():
    @t.compile(fullgraph=True)
    def mixed(x):
        with t.autocast("cpu", dtype=t.float16):
            y = x @ x
            with t.autocast("cpu", enabled=False):
                z = x @ x
            on = t.is_autocast_enabled("cpu")
        return y, z, x @ x, on

    x = values(t)
    for _ in range(3):
        y, z, last, on = mixed(x)
        assert (y.dtype, z.dtype, last.dtype, on) == (t.float16, t.float32, t.float32, True)
        assert t.equal(y, (x.half() @ x.half())) and t.equal(z, x @ x)
    assert mixed.count == 1 and not t.is_autocast_enabled("cpu")


@pytest.mark.parametrize("order", ["compile, autocast", "autocast, compile"])
def test_decorators(order):
    def double(x):
        return x @ x

    for word in reversed(order.split(", ")):
        double = t.compile(double) if word == "compile" else t.autocast("cpu")(double)
    assert [double(values(t)).dtype for _ in range(3)] == [t.bfloat16] * 3 and not t.is_autocast_enabled("cpu")


def losses(step, n=6):
    return [step().item() for _ in range(n)]


@pytest.mark.parametrize("dtype", [t.bfloat16, t.float16])
def test_a_training_step_is_the_eager_one(dtype):
    def run(compiled):
        t.manual_seed(0)
        model = t.nn.Sequential(t.nn.Linear(3, 8), t.nn.ReLU(), t.nn.Linear(8, 1))
        optimizer = t.optim.SGD(model.parameters(), lr=0.1)
        x, y = values(t), values(t)[:, :1]

        def step():
            optimizer.zero_grad()
            with t.autocast("cpu", dtype=dtype):
                loss = t.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return losses(t.compile(step, fullgraph=True) if compiled else step)

    assert run(True) == pytest.approx(run(False), rel=2e-2) and run(False)[-1] < run(False)[0]


def test_programs_know_where_they_compute():
    """Tracers are on no device; what they stand for is."""
    x = values(t)
    double = t.compile(lambda: x @ x, fullgraph=True)
    with t.autocast("cpu"), t.device("meta"):
        assert (x @ x).dtype is double().dtype is t.compile(lambda x: x @ x)(x).dtype is t.bfloat16


def test_casts_kept_outside_are_not_read_inside():
    w, x = values(t).clone().requires_grad_(), values(t)
    double = t.compile(lambda: w @ x, fullgraph=True)
    with t.autocast("cpu"):
        before = w @ x
        for _ in range(2):
            with t.no_grad():
                w.mul_(2)
            assert t.equal(double(), (w.bfloat16() @ x.bfloat16()))
        assert t.equal(w @ x, before)  # the eager cast is kept, as PyTorch's


def test_a_function_that_leaves_autocast_on_does_so_in_each_call():
    def switch(x):
        t.set_autocast_enabled("cpu", True)
        return x @ x

    compiled = t.compile(switch)
    for _ in range(3):
        assert compiled(values(t)).dtype is t.bfloat16 and t.is_autocast_enabled("cpu")
        t.set_autocast_enabled("cpu", False)
    with pytest.raises(RuntimeError, match="leaves autocast otherwise than it was"):
        t.compile(switch, fullgraph=True)(values(t))
    assert not t.is_autocast_enabled("cpu")


def test_in_pieces():
    seen = []

    def broken(x):
        with t.autocast("cpu"):
            y = x @ x
            if y.sum().item() > 0:
                seen.append(t.is_autocast_enabled("cpu"))
            z = y @ x
        return y.dtype, z.dtype, (x @ x).dtype

    compiled = t.compile(broken)
    for _ in range(4):
        assert compiled(values(t)) == (t.bfloat16, t.bfloat16, t.float32) and seen.pop()


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("where", ["around", "inside", "around backward"])
def test_checkpoints_run_again_in_the_state_of_forward(where, reentrant):
    def run(t):
        w, x, seen = values(t, 5).requires_grad_(), values(t).requires_grad_(), []

        def region(x):
            y = x @ w
            seen.append((y.dtype, t.get_autocast_dtype("cpu"), t.is_autocast_cache_enabled()))
            return (y @ w).float()

        def inner(x):
            with t.autocast("cpu", dtype=t.float16, enabled=where == "inside"):
                return region(x)

        chosen = region if where == "around" else inner
        with t.autocast("cpu", dtype=t.float16, cache_enabled=False, enabled=where == "around"):
            y = t.utils.checkpoint.checkpoint(chosen, x, use_reentrant=reentrant)
        with t.autocast("cpu", enabled=where == "around backward"):
            y.sum().backward()
        return seen, w.grad.dtype, x.grad.dtype, [round(v / 4) for v in w.grad.flatten().tolist()]

    agree(run)


@story
def test_a_steady_loop(t):
    """In recorded execution these become one program, for each dtype one."""
    w, x = values(t).clone().requires_grad_(), values(t)
    found = []
    for i in range(8):
        with t.autocast("cpu", dtype=(t.bfloat16, t.float16)[i % 2]):
            y = w @ x
            loss = t.nn.functional.mse_loss(y, x)
        loss.backward()
        found.append((y, w.grad.dtype))
    return found


def test_exports_have_the_casts():
    with t.autocast("cpu"):
        program = t.export(lambda x: x @ x, (values(t),))
    assert program.module()(values(t)).dtype is t.bfloat16
