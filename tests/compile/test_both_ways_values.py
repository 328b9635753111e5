"""What goes in and out of compiled functions: structures, views, arguments, keywords; in place on all of them."""

import asyncio
import collections
import gc
import types

import pytest
from compile_kit import data, numbers, same, sequence

import torchlike as torch

Point = collections.namedtuple("Point", "x y")


def calls(f, *arguments, fullgraph=True):
    """``f`` on each of the arguments, made anew for eager and compiled: results and arguments alike."""
    seen = []
    for wrap in (lambda g: g, lambda g: torch.compile(g, fullgraph=fullgraph)):
        torch.manual_seed(0)
        run, out = wrap(f), []
        for make in arguments:
            args, kwargs = make()
            result = run(*args, **kwargs)
            out.append((type(result).__name__, numbers(result), numbers(args), numbers(kwargs)))
        seen.append(out)
    same(*seen)


def args(*shapes, **kwargs):
    return lambda: ([data(i, *s) if isinstance(s, tuple) else s for i, s in enumerate(shapes)], kwargs)


def with_defaults(x, scale=2.0, *rest, shift=1.0, **more):
    return x * scale + shift + sum(rest) + sum(more.values())


RESULTS = {
    "nothing": lambda x: None,
    "the argument": lambda x: x,
    "the argument twice": lambda x: (x, x),
    "a view": lambda x: x[1:],
    "views of one result": lambda x: (x * 2).split(1),
    "a result and its view": lambda x: (lambda y: (y, y.t(), y[0]))(x + 1),
    "an expanded one": lambda x: (x.sum().expand(3), x[:1].expand(2, 2)),
    "a transposed one": lambda x: (x + 1).t(),
    "numbers": lambda x: (1, 2.5, "text", None, True, x.shape, x.dtype, x.device.type),
    "nested": lambda x: {"a": [x, (x * 2, {"b": None})], "c": Point(x[0], [x.sum()])},
    "empty": lambda x: ((), [], {}, x[:0]),
    "an outer tensor": lambda x: (OUTER, OUTER[0], x + OUTER),
    "detached": lambda x: (x.detach(), (x * 2).detach()),
    "a complex one": lambda x: (torch.complex(x, x), torch.complex(x, x).real),
    "integers": lambda x: (x > 0, x.long(), x.argmax(), x.topk(1).indices),
    "ordered": lambda x: collections.OrderedDict(b=x, a=x * 2),
}
OUTER = torch.arange(4.0).reshape(2, 2)


@pytest.mark.parametrize("name", RESULTS)
def test_results(name):
    calls(RESULTS[name], args((2, 2)), args((2, 2)), args((3, 2)) if name != "an outer tensor" else args((2, 2)))


@pytest.mark.parametrize("name", RESULTS)
def test_results_with_history(name):
    """Their gradients reach the argument."""
    seen = []
    for wrap in (lambda g: g, lambda g: torch.compile(g, fullgraph=True)):
        run, out = wrap(RESULTS[name]), []
        for i in range(2):
            x = data(i, 2, 2).requires_grad_()
            found = [t for t in tensors(run(x * 1)) if t.requires_grad]
            total = sum((t.abs() * (k + 1)).sum() for k, t in enumerate(found))
            if found:
                total.backward()
            out.append(numbers([len(found), x.grad]))
        seen.append(out)
    same(*seen)


def tensors(x):
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, list | tuple):
        return [t for v in x for t in tensors(v)]
    return [x] if isinstance(x, torch.Tensor) else []


CALLED = {
    "defaults": (with_defaults, args((2,)), args((2,), 3.0), args((2,), 3.0, 4.0, 5.0)),
    "keywords": (with_defaults, args((2,), shift=3.0), args((2,), scale=1.0), args((2,), a=1.0, b=2.0)),
    "tensors as keywords": (with_defaults, lambda: ([data(0, 2)], {"shift": data(1, 2), "z": data(2, 2)})),
    "no arguments": (lambda: OUTER * 2, args(), args()),
    "containers": (lambda d: [v * 2 for v in d["x"]], lambda: ([{"x": [data(0, 2), data(1, 2)]}], {})),
    "named tuples": (lambda p: Point(p.y, p.x * 2), lambda: ([Point(data(0, 2), data(1, 3))], {})),
    "0-dim and empty": (lambda a, b: (a * 2, b.sum()), lambda: ([data(0, 1)[0], data(1, 0, 3)], {})),
    "views": (lambda x: x * 2 + x.t(), lambda: ([data(0, 3, 4)[:, 1:]], {}), lambda: ([data(0, 3, 3)], {})),
    "mixed dtypes": (lambda a, b: a * b, lambda: ([data(0, 2), torch.arange(2)], {})),
}


@pytest.mark.parametrize("name", CALLED)
def test_arguments(name):
    calls(*CALLED[name])


def in_place(f):
    def run(x):
        f(x)
        return x + 0

    return run


WRITES = {
    "add_": lambda x: x.add_(1),
    "assignment": lambda x: x.__setitem__(0, 7.0),
    "masked": lambda x: x.__setitem__(x > 0, 0.0),
    "row": lambda x: x[0].mul_(3),
    "column": lambda x: x.t()[0].mul_(3),
    "diagonal": lambda x: x.diagonal().zero_(),
    "copy_": lambda x: x.copy_(x.flip(0)),
    "twice": lambda x: x.add_(1).mul_(2)[1].sub_(1),
    "random": lambda x: x.uniform_(),
    "index_add_": lambda x: x.index_add_(0, torch.tensor([0, 0]), torch.ones(2, 2)),
}


@pytest.mark.parametrize("name", WRITES)
def test_arguments_are_written(name):
    f = in_place(WRITES[name])
    calls(f, args((2, 2)), args((2, 2)))
    calls(f, lambda: ([data(0, 4, 4)[1:3, ::2]], {}), lambda: ([data(1, 4, 4)[1:3, ::2]], {}))


@pytest.mark.parametrize("name", WRITES)
def test_outer_tensors_are_written(name):
    def script(wrap):
        base = data(0, 4, 2)
        view = base[1:3]
        run = wrap(lambda: in_place(WRITES[name])(view))
        return [run(), base.clone(), run(), base, view, base._version]

    sequence(script)


def overlapping(wrap):
    run = wrap(lambda a, b: (a.add_(1), b * 2)[1])
    x, y = data(0, 4), data(1, 4)
    return [run(x, y), run(x, x), run(x[1:], x[:-1]), run(x[:2], x[2:]), x, y]


def overlapping_the_base(wrap):
    run = wrap(lambda a, b: (b.add_(1), a * 2, b * a.sum())[1:])
    x = data(0, 4)
    return [run(x, x[1:]), run(x[1:], x), x]


def overlapping_from_outside(wrap):
    x = data(0, 4)
    run = wrap(lambda a: (a.add_(1), x * 2)[1])
    other = wrap(lambda a: (x.add_(1), a * 2)[1])
    return [run(x[1:]), other(x[1:]), run(x), other(x), x]


def read_only(wrap):
    x = data(0, 4)
    run = wrap(lambda a, b: a * 2 + b + x[0])
    return [run(x[1:], x[:-1]), run(x[:2], x[2:])]


@pytest.mark.parametrize("script", [overlapping, overlapping_the_base, overlapping_from_outside, read_only])
def test_memory_seen_in_several_ways(script):
    """A write to one shows in the others; what a program cannot do is done in pieces."""
    same(numbers(script(lambda f: f)), numbers(script(torch.compile)))
    if script is read_only:
        sequence(script)


def test_objects_with_tensors():
    def script(wrap):
        box = types.SimpleNamespace(w=data(0, 2), scale=2.0)
        run = wrap(lambda x: x * box.w * box.scale)
        out = [run(data(1, 2))]
        box.w = data(2, 2)
        out += [run(data(1, 2))]
        box.w.zero_()
        return out + [run(data(1, 2))]

    sequence(script)


def yielding(x):
    yield x * 2
    yield x * 3


ONCE = {
    "generator function": (yielding, list),
    "generator": (lambda x: (v * x for v in (1, 2)), list),
    "map": (lambda x: map(torch.sin, [x]), list),
    "function": (lambda x: lambda: x * 2, lambda f: f()),
    "object": (lambda x: types.SimpleNamespace(x=x), lambda o: o.x * 1),
}


@pytest.mark.filterwarnings("ignore:Python iterable type:DeprecationWarning")
@pytest.mark.parametrize("name", ONCE)
def test_results_that_serve_one_call(name):
    """A program cannot make them anew: such functions are no single program."""
    f, read = ONCE[name]
    run = torch.compile(f)
    for i in range(3):
        same(numbers(read(f(data(i, 2)))), numbers(read(run(data(i, 2)))))
    with pytest.raises(RuntimeError, match="returns a .*, which a program does not make anew"):
        torch.compile(f, fullgraph=True)(data(0, 2))


def test_coroutines():
    async def f(x):
        return x * 2

    run = torch.compile(f)
    assert [asyncio.run(run(torch.full((1,), v))).item() for v in (1.0, 2.0)] == [2, 4]


def test_generators_used_up_inside():
    def parts(x):
        for i in range(3):
            yield x * i

    calls(lambda x: (sum(parts(x)), [*parts(x + 1)]), args((2,)), args((2,)))


def test_coroutines_of_an_abandoned_trace_are_not_told_of(recwarn):
    def f(x):
        async def twice():
            return x * 2

        return asyncio.run(twice())

    run = torch.compile(f)
    assert [run(torch.full((1,), v)).item() for v in (1.0, 2.0, 3.0)] == [2, 4, 6]
    gc.collect()
    assert not [w for w in recwarn if "never awaited" in str(w.message)]
