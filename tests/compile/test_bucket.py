"""Arguments padded to a few sizes on request: results as without it, and few programs."""

import collections

import pytest
from compile_kit import data, numbers, same

import torchlike as torch
from torchlike import nn

F = nn.functional
Out = collections.namedtuple("Out", "rows total")


def bucketed(f, sizes="powers of two", **rule):
    return torch.compile(f, fullgraph=True, options={"bucket": {"sizes": sizes, **rule}})


def alike(f, run, *calls):
    for call in calls:
        same(numbers(f(*call)), numbers(run(*call)))


def test_sizes_share_programs():
    f = lambda x: (x.sin() * 2, x.sum(1))  # noqa: E731
    run = bucketed(f, dims={"x": 0})
    alike(f, run, *[(data(i, n, 3),) for i, n in enumerate([1, 2, 3, 4, 5, 6, 7, 8, 3, 5, 0])])
    assert run.count == 4  # 1, 2, 4, 8


def test_a_list_of_sizes():
    f = lambda x: x * 2  # noqa: E731
    run = bucketed(f, [16, 4], dims={"x": 0})
    alike(f, run, *[(data(i, n, 2),) for i, n in enumerate([1, 4, 5, 16, 9])])
    assert run.count == 2
    with pytest.raises(ValueError, match="size 17 of x is over the largest bucket, 16; give 'sizes' a larger one"):
        run(data(0, 17, 2))


def test_several_arguments_and_what_they_are_padded_with():
    def f(ids, mask, table, scale=1.0):
        hidden = F.embedding(ids, table).masked_fill(~mask[..., None], 0.0) * scale
        return hidden, hidden.sum(1) / mask.sum(1, keepdim=True), ids

    table, seen = data(0, 5, 2), []
    run = bucketed(f, dims={"ids": 1, "mask": -1}, value={"ids": 4, "mask": False}, results=(1, None, 1))
    for n in (3, 4, 5, 7):
        ids = torch.randint(0, 5, (2, n))
        mask = torch.ones(2, n, dtype=torch.bool)
        mask[1, 1:] = False
        args = (ids, mask, table)
        same(numbers(f(*args, scale=2.0)), numbers(run(*args, scale=2.0)))
        seen.append(run.count)
    assert seen == [1, 1, 2, 2]


def test_structures():
    f = lambda batch, n=2: {"rows": [batch["x"] * n, batch["y"]], "n": n}  # noqa: E731
    run = bucketed(f, dims={"batch": 0})
    alike(f, run, *[({"x": data(n, n, 2), "y": data(n, n)},) for n in (3, 4)])
    assert run.count == 1
    g = lambda x: Out(x * 2, x.shape[1] * torch.ones(1))  # noqa: E731
    run = bucketed(g, dims={"x": 0}, results=(0, None))
    assert type(run(data(0, 3, 2))) is Out
    alike(g, run, (data(0, 3, 2),))
    h = lambda x: {"rows": x * 2, "first": x[0]}  # noqa: E731
    alike(h, bucketed(h, dims={"x": 0}, results={"rows": 0, "first": None}), (data(0, 3, 2),), (data(1, 4, 2),))


def test_two_dimensions():
    f = lambda x: x.exp()  # noqa: E731
    rules = [{"dims": {"x": 0}}, {"dims": {"x": 1}, "sizes": [8]}]
    run = torch.compile(f, options={"bucket": rules})
    alike(f, run, (data(0, 3, 5),), (data(1, 4, 7),), (data(2, 2, 1),))
    assert run.count == 2


def test_gradients():
    w = data(0, 3, 2).requires_grad_()
    f = lambda x: (x @ w).tanh()  # noqa: E731
    run = bucketed(f, dims={"x": 0})
    for n in (3, 5, 7):
        found = []
        for g in (f, run):
            x = data(n, n, 3).requires_grad_()
            w.grad = None
            g(x).pow(2).sum().backward()
            found.append(numbers([x.grad, w.grad]))
        same(*found)
    assert run.count == 2


def test_arguments_written_in_place():
    def f(x):
        x.mul_(2)
        return x + 1

    run = bucketed(f, dims={"x": 0})
    for n in (3, 4):
        found = []
        for g in (f, run):
            x = data(n, n, 2)
            view = x[1:]
            found.append(numbers([g(x), x, view, x._version]))
        same(*found)


def test_modules():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    run = torch.compile(model, options={"bucket": {"dims": {"input": 0}, "sizes": [8]}})
    alike(model, run, (data(0, 3, 3),), (data(1, 8, 3),))
    assert run.forward.count == 1
    model.compile(options={"bucket": {"dims": {"input": 0}, "sizes": [8]}})
    assert model(data(0, 5, 3)).shape == (5, 2)


def test_a_padded_training_step():
    """A mask keeps the padding out of a loss."""

    def make(wrap):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

        def step(x, mask):
            optimizer.zero_grad()
            loss = (model(x).pow(2).sum(1) * mask).sum() / mask.sum()
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(step)
        losses = [run(data(i, n, 3), torch.ones(n)) for i, n in enumerate([5, 8, 6, 7])]
        return numbers([losses, list(model.parameters())])

    same(make(lambda f: f), make(lambda f: bucketed(f, [8], dims={"x": 0, "mask": 0}, results=None)))


def test_reset():
    run = bucketed(lambda x: x, dims={"x": 0})
    run(data(0, 3))
    run.reset()
    assert run.count == 0 and run.__name__ == "<lambda>"


RULES = {
    "no mapping": (3, "got 3; expected"),
    "unknown key": ({"dims": {"x": 0}, "size": 3}, "got .*'size'"),
    "no dims": ({}, "'dims' is None"),
    "dims": ({"dims": {"x": "a"}}, "'dims' is {'x': 'a'}"),
    "no sizes": ({"dims": {"x": 0}, "sizes": []}, r"'sizes' is \[\]"),
    "sizes": ({"dims": {"x": 0}, "sizes": [0, 4]}, r"'sizes' is \[0, 4\]"),
    "results": ({"dims": {"x": 0, "y": 1}}, "'results' does not say which dimension of the results"),
    "parameter": ({"dims": {"z": 0}}, "'dims' names 'z', but the parameters are x, y"),
}


@pytest.mark.parametrize("name", RULES)
def test_wrong_rules(name):
    rule, match = RULES[name]
    with pytest.raises(ValueError, match=match):
        torch.compile(lambda x, y: x, options={"bucket": rule})


def test_wrong_calls():
    run = bucketed(lambda x, y=None: x if y is None else x + y, dims={"x": 0, "y": 0})
    with pytest.raises(ValueError, match="3 of x, 4 of y; expected tensors of one size"):
        run(data(0, 3), data(0, 4))
    with pytest.raises(ValueError, match="no tensor; expected tensors of one size"):
        run(3)
    with pytest.raises(IndexError, match="out of range|no dimensions"):
        run(torch.tensor(3.0))
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        run()


@pytest.mark.parametrize("n", [3, 4])
def test_a_result_that_padding_may_have_gone_into(n):
    run = bucketed(lambda x: x.sum(), dims={"x": 0})
    with pytest.raises(RuntimeError, match=r"a result of shape \[\] does not have the padded size, 4, in dimension 0"):
        run(data(0, n, 2))


def test_dicts_keep_their_order():
    f = lambda batch: {k: v * i for i, (k, v) in enumerate(batch.items())}  # noqa: E731
    alike(f, bucketed(f, dims={"batch": 0}), *[({"y": data(n, n), "x": data(n, n)},) for n in (3, 4)])
