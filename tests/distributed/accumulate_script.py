"""Gradients of several backwards: ``accumulate_script.py LIBRARY FILE``, run by ``test_processes.py``."""

import importlib
import sys
import warnings

import ranks

t = importlib.import_module(sys.argv[1])
d, nn = t.distributed, t.nn
DDP = importlib.import_module(f"{sys.argv[1]}.nn.parallel").DistributedDataParallel
warnings.simplefilter("ignore")
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


class Branches(nn.Module):
    """Each call goes through one of three layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        for i, p in enumerate(self.parameters()):
            nn.init.constant_(p, 0.1 * (i + 1))

    def forward(self, x, which):
        return self.layers[which](x)


def firsts(model):
    return [None if p.grad is None else p.grad.flatten()[0].item() for p in model.parameters()]


def gone(rank, *steps, **options):
    """The gradients after each step: (whether they are averaged, the layer on each rank)."""
    model, found = DDP(Branches(), **options), []
    for averaged, *which in steps:
        model.require_backward_grad_sync = bool(averaged)
        model(t.ones(2, 3) * (rank + 1), which[rank]).sum().backward()
        found.append(firsts(model))
    return found


UNUSED = {"find_unused_parameters": True}
CASES["unused since"] = lambda r: gone(r, (0, 0, 0), (1, 1, 1), (1, 2, 2), (1, 0, 0), **UNUSED)
CASES["used on one rank"] = lambda r: gone(r, (0, 0, 1), (1, 2, 2), (1, 2, 2), **UNUSED)
CASES["used twice"] = lambda r: gone(r, (0, 0, 1), (0, 1, 1), (1, 2, 2), (0, 0, 0), (1, 1, 1), **UNUSED)
CASES["in buckets"] = lambda r: gone(r, (0, 0, 1), (1, 2, 2), (1, 1, 0), gradient_as_bucket_view=True, **UNUSED)
CASES["kept"] = lambda r: gone(r, (1, 0, 0), (1, 1, 1), (1, 1, 1), (1, 0, 1), **UNUSED)
CASES["always averaged"] = lambda r: gone(r, (1, 0, 1), (1, 2, 2), (1, 2, 1), (1, 2, 2), **UNUSED)
CASES["static graph"] = lambda r: gone(r, (1, 1, 1), (1, 1, 1), static_graph=True)


@case
def a_gradient_of_ones_own(rank):
    model = DDP(Branches(), find_unused_parameters=True)
    model.module.layers[0].weight.grad = t.ones(3, 3) * (rank + 1)
    model(t.ones(2, 3), 1).sum().backward()
    return firsts(model)


@case
def a_compiled_backward_alone(rank):
    """Ours goes on in eager code, since what it touches is to be averaged later."""
    model = DDP(Branches(), find_unused_parameters=True)

    def step(x, which):
        model(x, which).sum().backward()

    with model.no_sync():
        (t.compile(step) if sys.argv[1] == "torchlike" else step)(t.ones(2, 3) * (rank + 1), rank)
    step(t.ones(2, 3), 2)
    return firsts(model)


if __name__ == "__main__":
    ranks.run(d, CASES)
