"""Tools on top of dispatch modes: the FLOP counter, the operator profile, the module tracker, logging tensors."""

from __future__ import annotations

from importlib import import_module

import pytest
from both import agree, agree_error

import torchlike
from torchlike.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula
from torchlike.utils.op_profile import OperatorProfile


def counted(t, run, **options):
    """{module: {packet: operations}} of ``run(t)``."""
    with import_module(t.__name__ + ".utils.flop_counter").FlopCounterMode(display=False, **options) as counter:
        run(t)
    counts = counter.get_flop_counts()
    return {name: {str(op): n for op, n in c.items()} for name, c in counts.items()}, counter.get_total_flops()


def perceptron(t):
    m = t.nn.Sequential(t.nn.Linear(4, 8), t.nn.ReLU(), t.nn.Sequential(t.nn.Linear(8, 2)))
    m(t.ones(3, 4)).sum().backward()


def convolutions(t):
    x = t.ones(2, 3, 8, 8, requires_grad=True)
    t.nn.ConvTranspose2d(3, 4, 3)(t.nn.Conv2d(3, 3, 3, stride=2, padding=1)(x)).sum().backward()
    t.nn.functional.conv2d(t.ones(2, 4, 8, 8), t.ones(4, 2, 3, 3), groups=2)
    t.nn.functional.conv1d(t.ones(2, 4, 8), t.ones(4, 4, 3))


def products(t):
    t.baddbmm(t.ones(2, 3, 4), t.ones(2, 3, 5), t.ones(2, 5, 4))
    t.bmm(t.ones(2, 3, 4), t.ones(2, 4, 5))
    t.ones(2, 3, 4) @ t.ones(4, 5)
    t.addmm(t.ones(5), t.ones(3, 4), t.ones(4, 5))
    t.nn.functional.linear(t.ones(2, 3, 4), t.ones(5, 4), t.ones(5))


@pytest.mark.parametrize("run", [perceptron, convolutions, products])
def test_counts(run):
    agree(lambda t: counted(t, run))


def test_attention_is_counted_by_its_products():
    def run(t):
        q = t.ones(2, 3, 5, 4, requires_grad=True)
        t.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()

    once = 2 * (2 * 3) * 5 * 5 * 4  # a product of every head: [5, 4] by [4, 5]
    assert counted(torchlike, run)[0]["Global"] == {
        "aten._scaled_dot_product_flash_attention_for_cpu": 2 * once,
        "aten._scaled_dot_product_flash_attention_for_cpu_backward": 5 * once,
    }


def test_formulas_of_users():
    def own(t):
        seen = []

        def formula(x_shape, *args, out_shape=None, **kwargs):
            seen.append((x_shape, out_shape, args, kwargs))
            return 5

        def raw(x, *args, out_val=None, **kwargs):
            return x.numel() + out_val.numel()

        raw._get_raw = True
        mapping = {t.ops.aten.sin: formula, t.ops.aten.sum: raw}
        return counted(t, lambda t: t.ones(2).sin().sum([0]), custom_mapping=mapping), seen

    agree(own)


def test_registration():
    packet = torchlike.ops.aten.cumsum
    try:
        register_flop_formula(packet)(lambda x, *args, out_shape=None, **kwargs: 11)
        with FlopCounterMode(display=False) as counter:
            torchlike.ones(2).cumsum(0)
        assert counter.get_total_flops() == 11
        with pytest.raises(RuntimeError, match="duplicate registrations for aten.cumsum"):
            register_flop_formula(packet)(lambda *args: 0)
    finally:
        flop_registry.pop(packet)
    agree_error(
        lambda t: import_module(t.__name__ + ".utils.flop_counter").register_flop_formula("x")(lambda: 1),
        "expected each target to be OpOverloadPacket .*got x which is of type <class 'str'>",
    )


def test_the_table(capsys):
    with FlopCounterMode(depth=1) as counter:
        perceptron(torchlike)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["Module", "FLOP", "%", "Total"] and lines[2].split()[0] == "Global"
    assert not any("Sequential.0" in line for line in lines)
    assert any("Sequential.2.0" in line for line in counter.get_table(4).splitlines())
    assert counter.get_table(0).splitlines()[2].endswith("100.00%")
    with pytest.warns(UserWarning, match="mods argument is not needed"):
        FlopCounterMode(torchlike.nn.Linear(1, 1), display=False)
    with FlopCounterMode(display=False) as empty:
        pass
    assert empty.get_total_flops() == 0 and "Global" in empty.get_table()


def parents(t):
    tracker = import_module(t.__name__ + ".utils.module_tracker").ModuleTracker
    mode = import_module(t.__name__ + ".utils._python_dispatch").TorchDispatchMode
    model = t.nn.Sequential(t.nn.Linear(4, 8), t.nn.Sequential(t.nn.ReLU()), t.nn.Linear(8, 2))
    seen = []
    with tracker() as modules:

        class Mode(mode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                if "detach" not in str(func):
                    seen.append((str(func), sorted(modules.parents), modules.is_bw))
                return func(*args, **(kwargs or {}))

        with Mode():
            model(t.ones(3, 4)).sum().backward()
    return sorted(map(str, seen)), sorted(modules.parents), modules.is_bw


def test_modules_are_tracked_through_backward():
    agree(parents)


# -- the profile -----------------------------------------------------------------------------------------------------


def test_a_profile_counts_calls_and_bytes():
    x = torchlike.ones(4, 4, requires_grad=True)
    with OperatorProfile() as profile:
        for _ in range(3):
            (x @ x).sum().backward()
    found = {r.name: r for r in profile.records()}
    assert found["aten.mm.default"].calls == 9 and found["aten.mm.default"].bytes == 9 * 64
    assert found["aten.sum.default"].calls == 3 and found["aten.sum.default"].bytes == 12
    assert profile.total_seconds() >= found["aten.mm.default"].seconds > 0


def test_the_table_of_a_profile():
    with OperatorProfile(synchronize=False) as profile:
        torchlike.ones(3) + torchlike.ones(3)
    table = profile.table("calls").splitlines()
    assert table[0].split()[:2] == ["Operator", "Calls"] and table[2].split()[:2] == ["aten.ones.default", "2"]
    assert len(profile.table(row_limit=1).splitlines()) == 3 and str(profile).splitlines()[0] == table[0]
    assert "aten.add.Tensor: 1 calls" in repr(profile.records()[0])
    with pytest.raises(ValueError, match="sort_by must be name, calls, seconds or bytes, not 'age'"):
        profile.records("age")


# -- logging tensors -------------------------------------------------------------------------------------------------


def loggers(t):
    return import_module(t.__name__ + ".testing._internal.logging_tensor")


def wrapped(t):
    m = loggers(t)
    with m.capture_logs() as logs:
        x = m.LoggingTensor(t.tensor([3.0]), requires_grad=True)
        m.log_input("x", x)
        y = x * x
        y.backward()
        m.log_input("grad_x", x.grad)
        t.add(x, 2, alpha=3)
        x.sum([0], dtype=t.float64)
        t.cat([x, x])
        x.max(0)
    return logs, repr(x), repr(y)


def by_mode(t):
    m = loggers(t)
    with m.capture_logs(is_mode=True) as logs, m.LoggingTensorMode():
        a = t.ones(2)
        b = a * 2
        b.add_(1)
        t.add(a, b, out=t.empty(2))
        (b > 1).to(t.float64)
    return logs


def reentrant(t):
    m = loggers(t)
    with m.capture_logs_with_logging_tensor_mode() as logs:
        m.LoggingTensorReentrant(t.ones(1)) + 1
    return logs


# What PyTorch logs outside of pytest, whose handler keeps the tensors of each record and so changes the calls.
MADE = "torch._ops.aten.ones.default"
WRAPPED = [
    "$0: f32[1] = input('x')",
    "$1: f32[1] = torch._ops.aten.mul.Tensor($0, $0)",
    "$2: f32[1] = torch._ops.aten.ones_like.default($1, pin_memory=False, memory_format=torch.preserve_format)",
    "$3: f32[1] = torch._ops.aten.mul.Tensor($2, $0)",
    "$4: f32[1] = torch._ops.aten.mul.Tensor($2, $0)",
    "$5: f32[1] = torch._ops.aten.add.Tensor($4, $3)",
    "$6: f32[1] = torch._ops.aten.detach.default($5)",
    "$6: f32[1] = input('grad_x')",
    "$7: f32[1] = torch._ops.aten.add.Tensor($0, 2, alpha=3)",
    "$8: f64[] = torch._ops.aten.sum.dim_IntList($0, ['0'], dtype=torch.float64)",
    "$9: f32[2] = torch._ops.aten.cat.default(['$0', '$0'])",
    "('$10: f32[]', '$11: i64[]') = torch._ops.aten.max.dim($0, 0)",
]
BY_MODE = [
    f"$0: f32[2] = {MADE}(['2'], device=device(type='cpu'), pin_memory=False)",
    "$1: f32[2] = torch._ops.aten.mul.Tensor($0, 2)",
    "$1: f32[2] = torch._ops.aten.add_.Tensor($1, 1)",
    "$2: f32[2] = torch._ops.aten.empty.memory_format(['2'], device=device(type='cpu'), pin_memory=False)",
    "$2: f32[2] = torch._ops.aten.add.out($0, $1, out=$2)",
    "$3: b8[2] = torch._ops.aten.gt.Scalar($1, 1)",
    "$4: f64[2] = torch._ops.aten._to_copy.default($3, dtype=torch.float64)",
]
REENTRANT = [
    f"$0: f32[1] = {MADE}(['1'], device=device(type='cpu'), pin_memory=False)",
    "$2: f32[1] = torch._ops.aten.add.Tensor($1, 1)",
    "$2: f32[1] = torch._ops.aten.add.Tensor($1, 1)",
]


@pytest.mark.parametrize("f, expected", [(by_mode, BY_MODE), (reentrant, REENTRANT)])
def test_logs(f, expected):
    assert f(torchlike) == expected


def test_logs_of_a_wrapper():
    logs, x, y = wrapped(torchlike)
    assert logs == WRAPPED
    assert x == "LoggingTensor(tensor([3.]), requires_grad=True)"
    assert y == "LoggingTensor(tensor([9.]), grad_fn=<MulBackward0>)"


def test_stacks_of_logged_calls():
    m = loggers(torchlike)
    with m.capture_logs(python_tb=True, is_mode=True) as (logs, stacks), m.LoggingTensorMode():
        torchlike.ones(1)
    assert len(logs) == len(stacks) == 1
    assert any(f["name"] == "test_stacks_of_logged_calls" for f in stacks[0])
    with pytest.raises(NotImplementedError, match="cpp_tb"), m.capture_logs(cpp_tb=True):
        pass
