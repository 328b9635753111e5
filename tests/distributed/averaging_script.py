"""Means of parameters now and then: ``averaging_script.py LIBRARY FILE``, run by ``test_processes.py``."""

import importlib
import sys
import warnings
from collections import OrderedDict

import ranks

LIBRARY = sys.argv[1]
t = importlib.import_module(LIBRARY)
d, nn, SGD = t.distributed, t.nn, t.optim.SGD
PostLocalSGD = importlib.import_module(f"{LIBRARY}.distributed.optim").PostLocalSGDOptimizer
DDP = importlib.import_module(f"{LIBRARY}.nn.parallel").DistributedDataParallel
algorithms = f"{LIBRARY}.distributed.algorithms"
averagers = importlib.import_module(f"{algorithms}.model_averaging.averagers")
tiers = importlib.import_module(f"{algorithms}.model_averaging.hierarchical_model_averager")
means = importlib.import_module(f"{algorithms}.model_averaging.utils")
hooks = importlib.import_module(f"{algorithms}.ddp_comm_hooks.post_localSGD_hook")
warnings.simplefilter("ignore")
Periodic, Tiered = averagers.PeriodicModelAverager, tiers.HierarchicalModelAverager
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def plain(x):
    if isinstance(x, t.Tensor):
        return [round(v, 3) for v in x.detach().double().flatten().tolist()]
    if isinstance(x, (list, tuple)):
        return [plain(y) for y in x]
    return x if isinstance(x, (int, float, str, bool, type(None))) else str(x)


def linear():
    model = nn.Linear(3, 2)
    with t.no_grad():
        for i, p in enumerate(model.parameters()):
            p.fill_(0.5 + i)
    return model


def steps(rank, model, optimizer, count=7):
    found = []
    for k in range(count):
        optimizer.zero_grad()
        model(t.arange(6.0).reshape(2, 3) / 6 + rank + k).square().mean().backward()
        optimizer.step()
        found.append([p.detach().clone() for p in model.parameters()])
    return found


def averaged(rank, make, **options):
    model, averager = linear(), make()
    optimizer = PostLocalSGD(SGD(model.parameters(), 0.05, **options), averager)
    return steps(rank, model, optimizer), averager.step, sorted(optimizer.state_dict())


CASES["each step"] = lambda rank: averaged(rank, lambda: Periodic(1))
CASES["each third step"] = lambda rank: averaged(rank, lambda: Periodic(3, 2))
CASES["two tiers"] = lambda rank: averaged(rank, lambda: Tiered(OrderedDict({2: 1, 4: 2}), 1), momentum=0.9)
CASES["one tier"] = lambda rank: averaged(rank, lambda: Tiered(OrderedDict({3: 2})))


@case
def wrong(rank):
    def said(f):
        try:
            f()
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    tries = (
        lambda: Periodic(0), lambda: Periodic(2, -1), Tiered, lambda: Tiered(OrderedDict({2: 1})),
        lambda: Tiered(OrderedDict({0: 2})), lambda: means.get_params_to_average([1]),
    )  # fmt: skip
    return [said(f) for f in tries]


@case
def with_gradients(rank):
    found = []
    for among in (True, False):
        model = DDP(linear())
        state = hooks.PostLocalSGDState(None, d.new_subgroups(1)[0], 2, among)
        model.register_comm_hook(state, hooks.post_localSGD_hook)
        optimizer = PostLocalSGD(SGD(model.parameters(), 0.05), Periodic(3, 2))
        found.append((steps(rank, model, optimizer, 5), state.iter))
    return found


@case
def loaded(rank):
    model, other = linear(), linear()
    first, second = (PostLocalSGD(SGD(m.parameters(), 0.05, momentum=0.9), Periodic(3)) for m in (model, other))
    steps(rank, model, first, 4)
    told = first.state_dict()
    second.load_state_dict(told)
    found = steps(rank, other, second, 3)
    del told["step"]
    second.load_state_dict(told)
    return found, second.averager.step


@case
def by_hand(rank):
    model = linear()
    model(t.ones(2, 3)).sum().backward()
    model.bias.grad = None
    with t.no_grad():
        for p in model.parameters():
            p.add_(rank)
    means.average_parameters_or_parameter_groups([{"params": list(model.parameters())}], d.group.WORLD)
    found = [p.detach().clone() for p in model.parameters()]
    means.average_parameters(model.parameters(), d.group.WORLD)
    return found, list(model.parameters())


if __name__ == "__main__":
    ranks.run(d, CASES, told=plain)
