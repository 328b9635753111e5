"""What is written to local parts of DTensors: ``local_script.py LIBRARY FILE``, run by ``test_processes.py``."""

import importlib
import sys

import ranks

t = importlib.import_module(sys.argv[1])
d, nn = t.distributed, t.nn
dt = importlib.import_module(f"{sys.argv[1]}.distributed.tensor")
mesh_of = importlib.import_module(f"{sys.argv[1]}.distributed.device_mesh").init_device_mesh
S, R = dt.Shard, dt.Replicate
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def plain(x):
    if isinstance(x, dt.DTensor):
        return [str(x.placements), plain(x.to_local())]
    if isinstance(x, t.Tensor):
        return [list(x.shape), [round(v, 4) for v in x.detach().double().flatten().tolist()]]
    if isinstance(x, (list, tuple)):
        return [plain(y) for y in x]
    return x if isinstance(x, (int, float, str, bool, type(None))) else str(x)


def spread(x, placement):
    return dt.distribute_tensor(x, mesh_of("cpu", (d.get_world_size(),)), [placement])


def numbers(*shape):
    return t.arange(4.0 if len(shape) == 1 else 8.0).reshape(shape)


def row(placement=None):
    return spread(numbers(4), placement or S(0))


def parameter():
    return nn.Parameter(row())


def refused(f):
    try:
        f()
    except RuntimeError as error:
        return str(error).split(" of ")[0], "created inside a custom Function" in str(error)


@case
def under_autograd(rank):
    p = parameter()
    y = p * 2
    found = refused(lambda: p.to_local().add_(1)), refused(lambda: y.to_local().mul_(5))
    y.to_local().sum().backward()
    return found, p, y, p.grad


@case
def without_autograd(rank):
    p, q = parameter(), parameter()
    part = p.to_local()
    with t.no_grad():
        part.add_(rank + 1)
        q.to_local().mul_(3)
        q._local_tensor.add_(1)
    q.detach().to_local().mul_(2)
    nn.init.ones_(q.to_local()[:1])
    p.to_local().data.add_(1)
    (p * q).sum().backward()
    return p, q, part, p.grad, q.grad


@case
def gradients(rank):
    p = parameter()
    (p * p).sum().backward()
    p.grad.to_local().mul_(0.5)
    d.all_reduce(p.grad.to_local())
    return p.grad


@case
def both_ways(rank):
    x = row(R())
    part = x.to_local()
    x.add_(1)
    part.add_(1)
    x.mul_(2)
    part.mul_(2)
    return part, x, x + 1, x._version, part._version


@case
def replicas_of_their_own(rank):
    x = row(R())
    x.to_local().add_(10 * rank)
    return x, x.redistribute(placements=[S(0)]), d.all_reduce(x.to_local()), x


@case
def views(rank):
    x, y = spread(numbers(4, 2), S(0)), spread(numbers(4, 2), S(0))
    x.t().to_local().add_(1)
    part = y.to_local()
    part[0] = 5
    part.view(-1)[1] = 9
    part[1:].copy_(t.full((1, 2), rank))
    return x, y, part


@case
def wholes(rank):
    x, y, z = row(R()), row(R()), row()
    x.full_tensor().add_(1)
    y.redistribute(placements=[R()]).add_(1)
    z.full_tensor().add_(1)
    z.redistribute(placements=[R()]).add_(1)
    return x, y, z


@case
def other_memory(rank):
    x = row()
    part = x.to_local()
    part.set_(t.ones(2))
    part.add_(1)
    part = x.to_local()
    part.data = t.ones(2)
    part.add_(1)
    return x, part


@case
def functional(rank):
    f = importlib.import_module(f"{sys.argv[1]}.distributed._functional_collectives")
    mesh = mesh_of("cpu", (2,))
    x, g = t.arange(4.0) + rank, d.group.WORLD
    found = [
        f.broadcast(x, 1, g), f.all_gather_single(x, 0, g), f.reduce_scatter_single(x, "sum", 0, g),
        f.all_reduce(x, "max", mesh), f.all_reduce(x, "avg", (mesh, 0)), f.all_reduce(x, "sum", [0, 1]),
        *f.all_reduce_coalesced([x, x * 2], "sum", g), *f.all_gather_into_tensor_coalesced([x, x * 2], g),
        *f.reduce_scatter_tensor_coalesced([x, t.arange(8.0).reshape(2, 4) + rank], "sum", [0, 1], g),
    ]  # fmt: skip
    return [y + 0 for y in found]


@case
def what_is_refused(rank):
    """Ours only: what cannot be shared is said."""
    if sys.argv[1] == "torch":
        return True
    uneven, x = spread(t.arange(5.0), S(0)), row()

    tries = [
        (NotImplementedError, "whose parts are not equal", lambda: uneven.to_local().add_(1)),
        (ValueError, "read-only", lambda: x.to_local().numpy().fill(1)),
        (RuntimeError, "1 rows for 2 ranks", lambda: d.all_to_all_single(t.tensor(0.0), t.tensor(1.0))),
    ]
    for kind, words, f in tries:
        try:
            f()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    doubled, y = t.compile(lambda p: p * 2)(x.to_local()), row()
    part = y.to_local()
    t.compile(lambda p: p.add_(1))(part)
    t.compile(lambda: part.add_(1))()
    same = doubled.tolist() == (x.to_local() * 2).tolist() and y.full_tensor().tolist() == [2, 3, 4, 5]
    return same and uneven.full_tensor().tolist() == [0, 1, 2, 3, 4]


@case
def gradients_of_parts(rank):
    found = []
    for placement in (R(), S(0), dt.Partial(), dt.Partial("max")):
        for back in (None, R(), S(0), dt.Partial(), dt.Partial("avg")):
            leaf = (numbers(4) * (rank + 1)).requires_grad_()
            x = dt.DTensor.from_local(leaf, mesh_of("cpu", (2,)), [placement])
            y = x.to_local(grad_placements=None if back is None else [back])
            try:
                (y * (y.detach() * 0 + rank + 2)).sum().backward()
            except (RuntimeError, AssertionError):
                y = None
            found.append([y, leaf.grad])
    return found


@case
def sums_of_programs(rank):
    """A compiled function makes the whole alone: ours refuses parts that may be Partial, PyTorch has them."""
    ours = sys.argv[1] == "torchlike"
    compiled = t.compile if ours else lambda f: f

    def refused(f):
        try:
            return plain(f()) and not ours
        except NotImplementedError as error:
            return "may be Partial in PyTorch" in str(error)

    def changed():
        q = partial()
        compiled(lambda q: q.mul_(2))(q)
        return q

    def partial():
        return dt.DTensor.from_local(t.ones(3) * (rank + 1), x.device_mesh, [dt.Partial()])

    x, w = spread(numbers(4, 2), S(1)), spread(numbers(2, 4), S(0))
    total, doubled = compiled(lambda x: x.sum() * 2)(x), compiled(lambda p: p * 2)(partial())
    whole = compiled(lambda x, w: (x @ w).redistribute(placements=[R()]).relu())(x, w)
    return [
        *[refused(f) for f in (total.to_local, total.item, lambda: (total + total).to_local(), doubled.to_local,
                               compiled(lambda x, w: x @ w)(x, w).to_local, changed().to_local)],
        total.full_tensor(), (total * 2).redistribute(placements=[R()]), doubled.full_tensor(), whole,
        changed().full_tensor(), (changed() * 3).full_tensor(), compiled(lambda x: x * 2)(x),
        compiled(lambda p: p.to_local() * 2)(partial()), compiled(lambda x: x.sum().to_local())(x),
    ]  # fmt: skip


@case
def store_of_all(rank):
    store = d.distributed_c10d._get_default_store()
    store.set(f"k{rank}", f"v{rank}")
    before = [store.get(f"k{1 - rank}"), store.check([f"k{rank}"]), store.check(["none"])]
    d.barrier()
    store.add("sum", rank + 2)
    store.wait([f"k{1 - rank}"])
    d.barrier()
    after = [store.add("sum", 0), store.get("sum"), store.delete_key(f"k{rank}"), store.check([f"k{rank}"])]
    if rank == 0:
        store.set("n", "5")
        after += [store.add("n", 2), store.get("n")]
    return str(before), str(after)


@case
def parts_make_the_whole(rank):
    """Whatever placement a result of Partial tensors has, its parts are what makes the whole."""
    m, two = mesh_of("cpu", (2,)), lambda y, q: (y, q)
    calls = {
        t.complex: two, t.polar: two, t.add: two, t.mul: two, t.maximum: two, t.hypot: two, t.cat: lambda *ys: [ys],
        t.stack: lambda *ys: [ys], t.nansum: lambda y, q: (y,), t.cumsum: lambda y, q: (y, 0),
        t.flip: lambda y, q: (y, (0,)), t.where: lambda y, q: (y > 0, y, q), t.lerp: lambda y, q: (y, q, 0.25),
    }  # fmt: skip

    def made(op, f, given):
        x, q = t.tensor([[1.0, -2], [3, 4]]) * (rank + 1), dt.distribute_tensor(t.tensor([[5.0, 6], [7, 8]]), m)
        try:
            y = f(*given(dt.DTensor.from_local(x, m, [dt.Partial(op)]), q))
            kind, part = y.placements[0], y.to_local().clone()
            if isinstance(kind, dt.Partial):
                d.all_reduce(part, getattr(d.ReduceOp, kind.reduce_op.upper()))
        except (RuntimeError, NotImplementedError, ValueError):  # PyTorch has no placements, or wrong ones
            assert "torchlike" not in sys.argv[1]
            return True
        return t.allclose(part, y.full_tensor())

    return [made(op, f, given) for op in ("sum", "avg", "max") for f, given in calls.items()]


if __name__ == "__main__":
    ranks.run(d, CASES, told=plain)
