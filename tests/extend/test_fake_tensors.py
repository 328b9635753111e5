"""FakeTensorMode: shapes, dtypes, devices, histories and refusals of fake tensors are PyTorch's."""

import copy
import io
import warnings

import numpy as np
import pytest
import torch
import torch._subclasses.fake_tensor
import torch.fx.passes.fake_tensor_prop
from both import agree

import torchlike


def mode(t, **options):
    return t._subclasses.fake_tensor.FakeTensorMode(**options)


def seen(x):
    """A result by its repr, nodes by their class, errors by their type."""
    if isinstance(x, tuple | list):
        return [seen(v) for v in x]
    if isinstance(x, dict):
        return {k: seen(v) for k, v in x.items()}
    return repr(x) if isinstance(x, torch.Tensor | torchlike.Tensor) else str(x)


def raised(f):
    try:
        return seen(f())
    except Exception as e:
        return type(e).__name__, getattr(e, "func", None) is not None


def within(f, **options):
    def run(t):
        with mode(t, **options) as m:
            return raised(lambda: f(t, m))

    return run


def trained(t, m):
    net = t.nn.Sequential(
        t.nn.Conv2d(3, 4, 3), t.nn.BatchNorm2d(4), t.nn.ReLU(), t.nn.Dropout(), t.nn.Flatten(), t.nn.Linear(144, 5)
    )
    opt = t.optim.Adam(net.parameters())
    out = net(t.randn(2, 3, 8, 8))
    loss = t.nn.functional.cross_entropy(out, t.zeros(2, dtype=t.long))
    loss.backward()
    norm = t.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    return out, loss, net[0].weight.grad, list(net.parameters()), norm, isinstance(net[0].weight, t.nn.Parameter)


def attended(t, m):
    layer = t.nn.TransformerEncoderLayer(8, 2, batch_first=True)
    out = layer(t.randn(1, 3, 8))
    out.sum().backward()
    return out.shape, layer.self_attn.in_proj_weight.grad


def geometry_in_place(t, m):
    x, y, z = t.ones(2, 3), t.ones(2, 3), t.ones(2)
    x.t_()
    y.unsqueeze_(0)
    z.resize_(5)
    return x, y, z, x.stride()


def written(t, m):
    x = t.ones(2, 3)
    x.add_(1)
    x[0] = 2
    y = x.view(6)
    y.mul_(2)
    y[y > 0] = 1
    return x._version, y._base is x, y, x.untyped_storage().nbytes()


def custom(t, m):
    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = t.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    return x.grad


def loaded(t, m):
    file = io.BytesIO()
    with t._subclasses.fake_tensor.unset_fake_temporarily():
        t.save({"a": t.ones(2), "b": t.nn.Parameter(t.ones(1))}, file)
    file.seek(0)
    return t.load(file)


def drawn(t, m):
    with t._subclasses.fake_tensor.unset_fake_temporarily():
        t.manual_seed(0)
    made = t.randint(0, 3, (2,)), t.nn.functional.dropout(t.ones(2)), t.empty(2).normal_(), t.randperm(3)
    with t._subclasses.fake_tensor.unset_fake_temporarily():
        return made, t.randn(2).tolist()


def many(t, m):
    x, i = t.randn(3, 4), t.zeros(3, 4, dtype=t.long)
    return (
        t.cat([x, x]), t.stack([x, x]), t.where(x > 0, x, 0), x[i], x.gather(1, i), x.sort().values, x.topk(2).indices,
        t.einsum("ij,kj->ik", x, x), t.linalg.svd(x)[1], x.max(), x.argmax(), x.half(), x.to(t.float64) @ x.double().T,
        len(x), [r.shape for r in x], x.numel(), x.nbytes, x.is_contiguous(),
    )  # fmt: skip


INSIDE = {
    "new ones": lambda t, m: (t.ones(2, 3), t.empty(2, dtype=t.int64), t.ones(2, requires_grad=True) * 2, t.arange(3)),
    "of numbers": lambda t, m: (t.tensor([1, 2.0]), t.tensor(3), t.from_numpy(np.ones(3)), t.nn.Parameter(t.ones(2))),
    "known numbers": lambda t, m: (t.tensor(3).item(), (t.tensor(3) + 1).item(), t.zeros(int(t.tensor(2)))),
    "item": lambda t, m: t.ones(1).item(),
    "bool": lambda t, m: bool(t.ones(1) > 0),
    "tolist": lambda t, m: t.ones(1).tolist(),
    "float": lambda t, m: float(t.ones(())),
    "numpy": lambda t, m: t.ones(1).numpy(),
    "nonzero": lambda t, m: t.ones(1).nonzero(),
    "mask": lambda t, m: t.ones(1)[t.ones(1) > 0],
    "unique": lambda t, m: t.ones(1).unique(),
    "equal": lambda t, m: t.equal(t.ones(2), t.ones(2)),
    "shapes that do not fit": lambda t, m: t.ones(2, 3) @ t.ones(2, 3),
    "on meta": lambda t, m: (t.ones(2).to("meta"), t.ones(2, device="meta"), t.ones(2).to("cpu").device),
    "elsewhere": lambda t, m: (t.ones(2, device="cuda"), (t.ones(2, device="cuda") + 1).device.type, t.ones(2).is_meta),
    "two devices": lambda t, m: t.ones(2, device="cuda") + t.ones(2),
    "a number of another device": lambda t, m: t.ones(2, device="cuda") + t.tensor(2.0),
    "transforms": lambda t, m: (t.func.grad(lambda x: x.sin().sum())(t.ones(2)), t.vmap(lambda a: a * 2)(t.ones(2, 3))),
    "copied": lambda t, m: copy.deepcopy(t.nn.Linear(2, 3)).weight,
    "states": lambda t, m: t.nn.Linear(2, 3).load_state_dict(t.nn.Linear(2, 3).state_dict()),
    "checkpointed": lambda t, m: t.utils.checkpoint.checkpoint(
        t.sin, t.ones(2, requires_grad=True), use_reentrant=False
    ),
    "trained": trained, "attended": attended, "geometry": geometry_in_place, "written": written, "custom": custom,
    "loaded": loaded, "drawn": drawn, "many": many,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Accessing the data pointer")
@pytest.mark.parametrize("name", INSIDE)
def test_inside(name):
    agree(within(INSIDE[name]))


def likes(t):
    m, p, x = mode(t), t.nn.Parameter(t.ones(3, 2)), t.zeros(2, 3).t()
    f, g, row = m.from_tensor(p), m.from_tensor(x), m.from_tensor(x[1])
    shared = g.untyped_storage().data_ptr() is not None and g.stride(), row.storage_offset(), row.stride()
    return seen((f, g)), isinstance(f, t.nn.Parameter), m.from_tensor(p) is f, shared, g.is_contiguous()


def outside(t):
    with mode(t) as m:
        x = t.ones(2, 3)
    fake = t._subclasses.fake_tensor
    known = x.fake_mode is m, fake.is_fake(x), fake.is_fake(t.ones(2)), fake.maybe_get_fake_mode(x + 1) is m
    return seen((x + 1, x @ x.t(), x.detach(), x.clone())), type(x).__name__, known


def with_numbers(t):
    y = t.ones(3)
    with mode(t):
        x = t.ones(3)
        refused = raised(lambda: x + y), raised(lambda: y + y), raised(lambda: t.nn.Linear(3, 2)(y))
    with mode(t, allow_non_fake_inputs=True):
        taken = seen((t.ones(3) + y, y + y))
    with mode(t):
        return refused, taken, raised(lambda: x + y), raised(lambda: x + t.ones(3))


def functional(t):
    m, net = mode(t), t.nn.Linear(3, 2)
    fakes = {k: m.from_tensor(v) for k, v in net.named_parameters()}
    return seen(t.func.functional_call(net, fakes, (m.from_tensor(t.ones(1, 3)),)))


def propagated(t):
    prop = t.fx.passes.fake_tensor_prop.FakeTensorProp
    plain, masked = t.fx.symbolic_trace(lambda x: (x @ x.T).relu()), t.fx.symbolic_trace(lambda x: x[x > 0])
    net = t.fx.symbolic_trace(t.nn.Sequential(t.nn.Linear(3, 2), t.nn.ReLU()))
    out = seen(prop(plain).propagate(t.ones(2, 3))), seen([n.meta["val"] for n in plain.graph.nodes])
    refused = [raised(lambda: prop(gm).propagate(t.ones(2, 3)))[0] for gm in (masked, net)]  # noqa: B023
    return out, refused, seen(prop(net, mode(t, allow_non_fake_inputs=True)).propagate(t.ones(2, 3)))


def operators(t):
    @t.library.custom_op(f"fakes_{t.__name__}::seven", mutates_args=())
    def seven(x: t.Tensor) -> t.Tensor:
        return x.clone()

    seven.register_fake(lambda x: x.new_empty(7))
    with mode(t):
        return seen(seven(t.ones(2)))


@pytest.mark.parametrize("f", [likes, outside, with_numbers, functional, propagated, operators])
def test_as_in_pytorch(f):
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        agree(f)


def test_what_is_changed_is_never_lost():
    """PyTorch drops a change of a tensor with numbers; a number that was written over is not known here."""
    y = torchlike.zeros(3)
    with mode(torchlike, allow_non_fake_inputs=True):
        with pytest.raises(AssertionError, match="would change a tensor that is not fake"):
            y.add_(torchlike.ones(3))
        x, z = torchlike.tensor(3), torchlike.tensor(3)
        x.add_(1)
        z.data.add_(1)
        for changed in (x, z):
            with pytest.raises(RuntimeError, match="_local_scalar_dense"):
                changed.item()
    assert y.tolist() == [0.0] * 3


def test_no_array_stands_behind_one():
    with mode(torchlike):
        x = torchlike.ones(2)
    for refused in (lambda: x.jax(), lambda: np.asarray(x), lambda: copy.copy(torchlike.save(x, io.BytesIO()))):
        with pytest.raises((RuntimeError, AttributeError)):
            refused()
    with pytest.raises(torchlike._subclasses.fake_tensor.UnsupportedFakeTensorException, match="sparse"):
        mode(torchlike).from_tensor(torchlike.eye(2).to_sparse())


def test_clipping_is_a_call_of_each_step():
    """Modes and classes see how gradients are clipped."""

    def run(t):
        def f(x):
            p = x.clone().requires_grad_()
            (p * p).sum().backward()
            norm = t.nn.utils.clip_grad_norm_([p], 1.0)
            t.nn.utils.clip_grad_value_([p], 0.5)
            return norm, p.grad

        gm = t.fx.experimental.proxy_tensor.make_fx(f)(t.tensor([1.0, 2.0]))
        return [str(n.target) for n in gm.graph.nodes if "foreach_mul" not in str(n.target)], gm(t.tensor([3.0, 4.0]))

    agree(run)
