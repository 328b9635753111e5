"""Models cut into stages by torch.distributed.pipelining.pipeline, next to PyTorch's."""

import importlib

import pytest
import torch
import torch.distributed.pipelining as theirs

import torchlike
import torchlike.distributed.pipelining as ours

BOTH = [(torch, theirs), (torchlike, ours)]


def model(t, pp, split=None):
    class Block(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = t.nn.Linear(4, 4)
            self.register_buffer("k", t.full((4,), 0.5))
            self.register_buffer("hidden", t.ones(4), persistent=False)

        def forward(self, x):
            return self.lin(x).relu() * self.k + self.hidden

    class Model(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = t.nn.Linear(4, 3)  # stages have them in the order of calls
            self.emb = t.nn.Embedding(10, 4)
            self.layers = t.nn.ModuleList(Block() for _ in range(4))
            self.scale = t.nn.Parameter(t.ones(1))

        def forward(self, ids, mask=None, shift: int = 1):
            h = first = self.emb(ids)
            for i, layer in enumerate(self.layers):
                if i == split:
                    pp.pipe_split()
                h = layer(h)
                if mask is not None:
                    h = h * mask[:, None, None] + shift
            return self.out(h + first) * self.scale

    made = Model()
    with t.no_grad():
        for n, p in enumerate(made.parameters()):
            p.copy_(((t.arange(p.numel()) * 7 + n) % 11 - 5).reshape(p.shape) / 8)
    return made


def ids(t):
    return t.arange(6).reshape(2, 3)


def told(t, pp, spec=None, split=None, **kwargs):
    """What is seen of a cut model: the cut, its stages, their names of state and parameters, the results."""
    spec = spec and {path: getattr(pp.SplitPoint, end) for path, end in spec.items()}
    whole = model(t, pp, split)
    pipe = pp.pipeline(whole, (ids(t),), kwargs, spec)
    stages = [pipe.get_stage_module(i) for i in range(pipe.num_stages)]
    # PyTorch's stages keep all buffers
    names = [[name for name in s.state_dict() if "hidden" not in name] for s in stages]
    parts = [dict(s.named_parameters()) for s in stages]
    shared = all(p is whole.get_parameter(name) for part in parts for name, p in part.items())
    (out,) = pipe(ids(t), **kwargs)
    return whole, out, [names, [[*part] for part in parts], shared, pipe.info().num_stages]


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*deprecated:FutureWarning")  # PyTorch's, of its own
@pytest.mark.parametrize(
    "options",
    [
        {}, {"split": 2}, {"spec": {"layers.1": "BEGINNING", "layers.3": "BEGINNING"}}, {"spec": {"layers.1": "END"}},
        {"split": 2, "spec": {"layers.1": "BEGINNING"}}, {"spec": {"out": "BEGINNING"}, "mask": [1.0, 2.0]},
        {"spec": {"layers.0": "END", "layers.2": "BEGINNING"}, "mask": [1.0, 2.0], "shift": 3},
    ],
    ids=str,
)  # fmt: skip
def test_stages_are_pytorchs(options):
    found = []
    for t, pp in BOTH:
        mask = {"mask": t.tensor(options["mask"])} if "mask" in options else {}
        found.append(told(t, pp, **options | mask))
    (_, results, facts), (whole, out, own) = found
    assert own == facts
    torch.testing.assert_close(torch.tensor(out.tolist()), results.detach())
    arguments = {name: value for name, value in options.items() if name == "shift"} | mask
    results = out, whole(ids(torchlike), **arguments)
    through, alone = [torchlike.autograd.grad(y.square().sum(), [*whole.parameters()]) for y in results]
    for a, b in zip(through, alone, strict=True):  # in PyTorch none go from stage to stage
        torchlike.testing.assert_close(a, b)


def test_a_model_is_left_as_it_was_and_may_be_cut_again():
    whole = model(torchlike, ours)
    for end in (ours.SplitPoint.BEGINNING, ours.SplitPoint.END):
        assert ours.pipeline(whole, (ids(torchlike),), split_spec={"layers.1": end}).num_stages == 2
    assert ours.pipeline(whole, (ids(torchlike),)).num_stages == 1
    assert ours.pipe_split() is None


def test_one_tensor_given_twice_is_two_arguments():
    class Two(torchlike.nn.Module):
        def forward(self, a, b):
            return a - b

    x = torchlike.ones(2)
    (out,) = ours.pipeline(Two(), (x, x))(x * 3, x)
    assert out.tolist() == [2, 2]


def test_a_policy_marks_the_graph():
    def policy(traced):
        node = next(n for n in traced.graph.nodes if "relu" in str(n.target))
        with traced.graph.inserting_after(node):
            traced.graph.call_function(ours.pipe_split)
        return traced

    assert ours.pipeline(model(torchlike, ours), (ids(torchlike),), split_policy=policy).num_stages == 2


class Choosing(torchlike.nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x


class Listed(torchlike.nn.Module):
    def forward(self, xs):
        return xs[0]


class Plus(torchlike.nn.Module):
    def forward(self, x, by):
        return x + by


ONE = (torchlike.ones(2),)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: ours.pipeline(abs, ONE), TypeError, "must be a torch.nn.Module, got builtin_function"),
        (lambda: ours.pipeline(Listed(), ONE[0]), TypeError, "mb_args must be a tuple of arguments, got Tensor"),
        (lambda: ours.pipeline(Choosing(), ONE), RuntimeError, "cannot capture your model as a full graph"),
        (lambda: ours.pipeline(Listed(), (list(ONE),)), NotImplementedError, "'xs' of forward is a list of tensors"),
        (lambda: ours.pipeline(Listed(), ONE, split_spec={"": 3}), ValueError, "Unknown split point type: 3"),
        (lambda: ours.pipeline(Listed(), ONE, split_spec={"a": ours.SplitPoint.END}), AttributeError, "no attribute"),
        (lambda: ours.pipeline(Listed(), ()), TypeError, "missing a required argument"),
        (lambda: ours.pipeline(Listed(), ONE).get_stage_module(1), ValueError, "Invalid stage index 1: there are"),
        (lambda: ours.pipeline(Listed(), ONE)(), TypeError, "forward"),
        (lambda: ours.pipeline(Plus(), (*ONE, 1))(*ONE, 2), ValueError, "cut with by=1, which is fixed; got 2"),
    ],
)
def test_wrong_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("case", ["short", "short by name", "uneven", "of lists", "the same", "without rows"])
def test_parts_of_arguments(case):
    def found(t):
        args, kwargs = {
            "short": ((t.ones(3, 2),), {}), "short by name": ((t.ones(6),), {"a": t.ones(2)}),
            "uneven": ((t.ones(5), t.ones(3)), {}), "of lists": (([t.ones(4), t.ones(8)],), {}),
            "the same": ((3,), {"b": "x"}), "without rows": ((t.tensor(1.0),), {}),
        }[case]  # fmt: skip
        pp = importlib.import_module(f"{t.__name__}.distributed.pipelining.microbatch")
        try:
            parts = pp.split_args_kwargs_into_chunks(args, kwargs, 4)
        except IndexError as error:
            return str(error)
        return str(tree_map(lambda x: list(x.shape) if isinstance(x, t.Tensor) else x, parts))

    tree_map = torch.utils._pytree.tree_map
    assert found(torchlike) == found(torch)
