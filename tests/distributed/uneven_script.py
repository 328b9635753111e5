"""Tensors cut into parts that are not equal, of two processes: a script for PyTorch and torchlike.

    python uneven_script.py LIBRARY FILE

Writes what each case gave on this rank, as JSON.
"""

import contextlib
import copy
import importlib
import itertools
import sys
import warnings

import ranks

t = importlib.import_module(sys.argv[1])
d = t.distributed
DT, DM, FSDP = (importlib.import_module(f"{t.__name__}.distributed.{m}") for m in ("tensor", "device_mesh", "fsdp"))
S, R = DT.Shard, DT.Replicate
warnings.simplefilter("ignore")
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def plain(x):
    if isinstance(x, DT.DTensor):
        return ["D", list(x.shape), str(x.placements), plain(x.to_local())]
    if isinstance(x, t.Tensor):
        return [str(x.dtype), list(x.shape), [round(v, 4) for v in x.detach().double().flatten().tolist()]]
    if isinstance(x, (list, tuple)):
        return [plain(y) for y in x]
    return x if isinstance(x, (int, float, str, bool, type(None))) else str(x)


def mesh():
    return DM.init_device_mesh("cpu", (d.get_world_size(),))


@case
def dist(r):
    return DT.distribute_tensor(t.arange(10.0).reshape(5, 2), mesh(), [S(0)])


@case
def dist1(r):
    return DT.distribute_tensor(t.arange(6.0).reshape(2, 3), mesh(), [S(1)])


@case
def small(r):
    return DT.distribute_tensor(t.arange(1.0), mesh(), [S(0)])


@case
def empty(r):
    return DT.distribute_tensor(t.zeros(0, 3), mesh(), [S(0)])


@case
def full(r):
    return DT.distribute_tensor(t.arange(5.0), mesh(), [S(0)]).full_tensor()


@case
def redis(r):
    x = DT.distribute_tensor(t.arange(15.0).reshape(5, 3), mesh(), [S(0)])
    return (
        x.redistribute(placements=[S(1)]),
        x.redistribute(placements=[R()]),
        x.redistribute(placements=[R()]).redistribute(placements=[S(0)]),
    )


@case
def back(r):
    w = t.arange(5.0).requires_grad_()
    x = DT.distribute_tensor(w.detach(), mesh(), [S(0)]).requires_grad_()
    y = x.to_local()
    (y * (t.arange(float(y.numel())) + 1 + 10 * r)).sum().backward()
    return x.grad, x.grad.full_tensor()


@case
def full_back(r):
    x = DT.distribute_tensor(t.arange(5.0), mesh(), [S(0)]).requires_grad_()
    (x.full_tensor() * t.arange(5.0)).sum().backward()
    return x.grad


@case
def ops(r):
    x = DT.distribute_tensor(t.arange(10.0).reshape(5, 2), mesh(), [S(0)])
    return x + 1, x * x, x.sum().full_tensor(), (x.t() @ x).full_tensor(), x.relu()


@case
def from_local(r):
    y = t.arange(float(3 - r)) + 10 * r
    x = DT.DTensor.from_local(y.requires_grad_(), mesh(), [S(0)], shape=t.Size([5]), stride=(1,))
    z = (x * 2).full_tensor()
    return x, z


@case
def from_local_noshape(r):
    y = t.arange(float(3 - r)) + 10 * r
    x = DT.DTensor.from_local(y, mesh(), [S(0)])
    return list(x.shape)


@case
def factories(r):
    return DT.zeros(5, 2, device_mesh=mesh(), placements=[S(0)]), DT.ones(3, device_mesh=mesh(), placements=[S(0)])


@case
def sgd(r):
    lin = t.nn.Linear(3, 5, bias=False)
    with t.no_grad():
        lin.weight.copy_(t.arange(15.0).reshape(5, 3) / 10)
    lin.weight = t.nn.Parameter(DT.distribute_tensor(lin.weight.detach(), mesh(), [S(0)]))
    o = t.optim.Adam(lin.parameters(), lr=0.1)
    x = DT.distribute_tensor(t.ones(2, 3), mesh(), [R()])
    for _ in range(2):
        o.zero_grad()
        (lin(x) ** 2).sum().backward()
        o.step()
    return lin.weight, lin.weight.grad.full_tensor()


@case
def fsdp(r):
    m = t.nn.Sequential(t.nn.Linear(3, 5), t.nn.Linear(5, 1))
    with t.no_grad():
        for p in m.parameters():
            p.copy_(t.arange(float(p.numel())).reshape(p.shape) / 10)
    FSDP.fully_shard(m)
    o = t.optim.SGD(m.parameters(), lr=0.001)
    for _ in range(2):
        o.zero_grad()
        (m(t.ones(2, 3) * (r + 1)) ** 2).sum().backward()
        o.step()
    return [p for p in m.parameters()], [p.full_tensor() for p in m.parameters()]


@case
def fsdp1_with_what_is_not_used(r):
    """As parts of one flat parameter, layers that nothing was computed with have gradients of 0, and moments decay."""

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = t.nn.Linear(2, 2), t.nn.Linear(2, 2)

        def forward(self, x, every):
            return self.a(self.b(x) if every else x)

    net, losses = Net(), []
    with t.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(t.arange(float(p.numel())).reshape(p.shape) / 10 + i)
    m = FSDP.FullyShardedDataParallel(net, use_orig_params=True, device_id=t.device("cpu"))
    o = t.optim.AdamW(m.parameters(), lr=0.1)
    for every in (True, False, False, True):
        losses.append(m(t.ones(2, 2) * (r + 1), every).pow(2).mean())
        losses[-1].backward()
        o.step()
        o.zero_grad()
    return [round(loss.item(), 3) for loss in losses]


@case
def fsdp1_with_large_gradients(r):
    """They are divided before they are added: their mean is finite where their sum is not."""
    found = []
    for options in ({}, {"mixed_precision": FSDP.MixedPrecision(reduce_dtype=t.float32)}):
        net = t.nn.Linear(3, 2, bias=False)
        t.nn.init.ones_(net.weight)
        m = FSDP.FullyShardedDataParallel(net, use_orig_params=True, device_id=t.device("cpu"), **options)
        m(t.full((1, 3), 3e38)).sum().backward()
        o = t.optim.SGD(m.parameters(), lr=1e-37)
        o.step()
        found += [m(t.ones(1, 3)).tolist()]
    return [[round(x, 3) for x in row] for rows in found for row in rows]


@case
def parameters_from_meta(r):
    """They stay the objects that they are, also where two modules share one."""
    found = []
    for kind in ("shared", "colwise"):
        with t.device("meta"):
            m = t.nn.Sequential(t.nn.Embedding(8, 4), t.nn.Linear(4, 8, bias=False))
        if kind == "shared":
            m[1].weight = m[0].weight
            FSDP.fully_shard(m)
        else:
            tp = importlib.import_module(f"{t.__name__}.distributed.tensor.parallel")
            tp.parallelize_module(m, mesh(), {"1": tp.ColwiseParallel()})
        before = m[1].weight
        m.to_empty(device="cpu")
        found += [before is m[1].weight, str(before.device), len([*m.parameters()]), type(before).__name__]
        found += [before is m.double()[1].weight, str(before.dtype)[-7:], before is m.to("meta")[1].weight]
    return found


@case
def mesh2(r):
    m = DM.init_device_mesh("cpu", (1, d.get_world_size()), mesh_dim_names=("a", "b"))
    return DT.distribute_tensor(t.arange(15.0).reshape(5, 3), m, [S(0), S(0)]), DT.distribute_tensor(
        t.arange(15.0).reshape(5, 3), m, [R(), S(1)]
    )


@case
def copy_(r):
    x = DT.distribute_tensor(t.zeros(5), mesh(), [S(0)])
    x.copy_(DT.distribute_tensor(t.arange(5.0), mesh(), [R()]))
    x.add_(1)
    return x


@case
def state(r):
    x = DT.distribute_tensor(t.arange(5.0), mesh(), [S(0)])
    return copy.deepcopy(x), x.clone(), x.detach()


@case
def partial(r):
    x = DT.DTensor.from_local(t.arange(5.0) + r, mesh(), [DT.Partial()])
    return x.redistribute(placements=[S(0)]), x.redistribute(placements=[R()])


@case
def partial_ops(r):
    found = []
    for op in ("sum", "avg", "max", "min", "product"):
        for to in (R(), S(0)):
            y = ((t.arange(4.0) + 1) * (r + 1) * (1 if r else -1)).requires_grad_()
            x = DT.DTensor.from_local(y, mesh(), [DT.Partial(op)]).redistribute(placements=[to])
            (x.to_local() ** 2).sum().backward()
            found += [op, x, y.grad]
    return found


@case
def partial_whole_numbers(r):
    return [
        DT.DTensor.from_local(t.arange(5) * (r + 1), mesh(), [DT.Partial(op)]).full_tensor()
        for op in ("sum", "max", "min", "product")
    ]


@case
def partial_average_of_whole_numbers(r):
    try:
        return DT.DTensor.from_local(t.arange(5), mesh(), [DT.Partial("avg")]).full_tensor()
    except RuntimeError:
        return "RuntimeError"


@case
def clip_mixed(r):
    def refused(f, *more, mix=contextlib.nullcontext, **named):
        w, b = t.nn.Parameter(DT.ones(5, 2, device_mesh=mesh(), placements=[S(0)])), t.nn.Parameter(t.ones(3))
        (w * w).sum().backward()
        (b.sum() * 2).backward()
        try:
            with mix():
                found = f([w, b], *more, **named)
        except RuntimeError as error:
            return "mixed" in str(error)
        return found, w.grad, b.grad

    u = t.nn.utils
    implicit = importlib.import_module(f"{t.__name__}.distributed.tensor.experimental").implicit_replication
    return [
        refused(u.clip_grad_norm_, 1.0), refused(u.clip_grad_norm_, 1.0, foreach=False),
        refused(u.clip_grads_with_norm_, 1.0, t.tensor(2.0)), refused(u.clip_grad_value_, 0.5),
        refused(u.clip_grad_value_, 0.5, foreach=False), refused(u.clip_grad_norm_, 1.0, mix=implicit),
    ]  # fmt: skip


@case
def results_of_other_shapes(r):
    x, square = (DT.distribute_tensor(t.arange(5.0 * n).reshape(5, n), mesh(), [S(0)]) for n in (4, 5))
    w = DT.distribute_tensor(t.arange(28.0).reshape(4, 7), mesh(), [R()])
    found = [
        x @ w, w.t() @ x.t(), x.t(), square.t(), square @ square.t(), x.view(5, 2, 2), x.unsqueeze(0), x.sum(1),
        x.norm(dim=1), x.mean(1, keepdim=True), x[:, 1:3], x[:, 0], x.t().contiguous(), x.amax(1),
        t.cat([x, x], 1), t.stack([x, x]), (x @ w).relu().sum(1), *x.split(2, 1), *x.unbind(1), x > x[:, :1],
    ]  # fmt: skip
    return [(y.placements, y.to_local()) for y in found]


def layouts_of_sums(x, w, v):
    """What is reduced over processes, and what is made of that."""
    F, y, s, m = t.nn.functional, x.t() @ x, x.sum(), x.amax(0)
    yield from (y, s, m, x.sum(0), x.prod(), (x > 1).sum(), (x * 8).int().sum(), F.linear(x.t(), x.t()))
    yield F.mse_loss(x, x * 2, reduction="sum")
    yield from (-y, y + y, y - y * 2, y / 2, y * w, y / (w + 9), y @ w, w @ y, y.t(), y.view(2, 8), y.sum(), y[0])
    yield from (y + w, t.cat([y, y]), y.double(), y.detach(), y.flip(0), y.mv(v), -s, s / 4, 2 * s, s + s, y.sum(1))
    yield from (y.relu(), y + 1, y.clone(), y.mean(), s.sqrt(), s + 1, m * 2, y.softmax(0), y.tril(), y.cumsum(0))
    yield from (*y.chunk(2), *y.unbind(0), *t._foreach_mul([y, s], 2.0), F.linear(y, w, v), y * y, y.t() @ y)
    yield from (m.view(2, 2), m.double(), y.index_select(0, (v - 1).long()), t.diag(y), t.addcmul(y, y, w))
    y *= 2
    yield y
    yield y / 4


def layouts_of_means(x, v):
    """What is a mean or a norm over processes, or tells of each number, and what is made of that."""
    y, n, mse = x.mean(0), x.norm(dim=0), t.nn.functional.mse_loss
    yield from (y, x.mean(), x.mean(1), mse(x, x * 2), n, x.norm(), x.norm(3, 0), x.norm(float("inf")), x.std())
    yield from (y * 2, y - v, y + y, y.sum(), y.mean(), y.abs(), y.double(), y.view(2, 2), y.unbind(0)[1], y.clone())
    yield from (n * 2, n[1:], t.stack([n, n]), n.max(), n + n, (x > -9).all(), (x > 1).any(0))


@case
def sums_of_parts(r):
    x = DT.distribute_tensor(t.arange(16.0).reshape(4, 4) / 8, mesh(), [S(0)])
    w = DT.distribute_tensor(t.arange(16.0).reshape(4, 4) / 4 - 1, mesh(), [R()])
    v = DT.distribute_tensor(t.arange(4.0) + 1, mesh(), [R()])
    found = itertools.chain(layouts_of_sums(x, w, v), layouts_of_means(x, v))
    told = [(y.placements, y.to_local().clone(), y.full_tensor()) for y in found]
    return told, x.sum().item(), float(x.mean()), int(x.amax()), bool(x.sum() > 0)


@case
def sums_of_parts_in_several_dimensions(r):
    grid = DM.init_device_mesh("cpu", (1, d.get_world_size()), mesh_dim_names=("a", "b"))
    x = DT.distribute_tensor(t.arange(16.0).reshape(4, 4) / 8, grid, [R(), S(1)])
    w = DT.distribute_tensor(t.arange(16.0).reshape(4, 4) / 4 - 1, grid, [R(), S(0)])
    return [(y.placements, y.to_local(), y.full_tensor()) for y in (x @ w, -(x @ w), x.sum(), x.sum(0), x.sum(1))]


@case
def laid_out_along_one_process(r):
    grid = DM.init_device_mesh("cpu", (1, d.get_world_size()), mesh_dim_names=("a", "b"))
    x, found = DT.distribute_tensor(t.arange(16.0).reshape(4, 4) / 8, grid, [S(0), S(1)]), []
    for placements in ([R(), S(1)], [S(1), S(0)], [R(), R()], [S(0), R()], [S(0), S(1)], [S(0), S(0)]):
        x = x.redistribute(placements=placements)
        found.append((x, (x * 2).placements, x.relu().placements, x.detach().placements))
    return found


@case
def gradients_of_results_of_other_shapes(r):
    x = DT.distribute_tensor(t.arange(20.0).reshape(5, 4), mesh(), [S(0)]).requires_grad_()
    parts = x.view(5, 2, 2).transpose(1, 2).reshape(5, 4).t().to_local()
    (parts * t.arange(1.0 + r, 1 + r + parts.numel()).reshape(parts.shape)).sum().backward()
    return x.grad


if __name__ == "__main__":
    ranks.run(d, CASES, told=plain)
