"""Compiled functions that return objects of the user's classes, as caches of transformers: made anew in every call."""

import abc
import dataclasses

import pytest
from both import agree

import torchlike


def compiled(t, f):
    return torchlike.compile(f, fullgraph=True) if t is torchlike else f


class Layer(abc.ABC):
    made = 0

    def __init__(self, key, value):
        self.key, self.value, self.dtype, self.length = key, value, key.dtype, key.shape[0]

    def get(self):
        return self.first() + self.value

    @abc.abstractmethod
    def first(self): ...


class Key(Layer):
    def first(self):
        return self.key


class Cache:
    def __init__(self):
        self.layers, self.length, self.name = [], 0, "cache"

    def update(self, key, value):
        self.layers.append(Key(key, value))
        self.length += key.shape[0]
        return self.layers[-1].get()


@dataclasses.dataclass
class Config:
    n: int = 1


class Guarded:
    """Has code of the user's own for each attribute."""

    def __init__(self, scale):
        self.scale = scale

    def __getattribute__(self, name):
        return super().__getattribute__(name)


def told(cache):
    return cache.name, cache.length, [(v.get(), v.dtype, v.length, type(v).__name__) for v in cache.layers]


def test_an_object():
    def story(t):
        def f(x, n):
            cache = Cache()
            y = cache.update(x, x + 1) + cache.update(x * 2, x * n)
            return y.sum(), {"cache": cache, "config": Config(3)}

        run = compiled(t, f)
        found = [run(t.arange(3.0) + i, n) for i, n in enumerate((1, 1, 2))]
        first, second = (r["cache"] for _, r in found[:2])
        first.layers[0].key.add_(100)
        apart = first is not second and first.layers[0] is not second.layers[0]
        return [(y, told(r["cache"]), r["config"].n) for y, r in found], apart

    agree(story)


def test_with_gradients():
    def story(t):
        m = t.nn.Linear(3, 3)
        t.nn.init.constant_(m.weight, 0.5)
        t.nn.init.zeros_(m.bias)

        def f(x):
            cache = Cache()
            cache.update(x, m(x))
            return cache

        run = compiled(t, f)
        (run(t.ones(2, 3)).layers[0].get() * run(t.arange(6.0).view(2, 3)).layers[0].value).sum().backward()
        return m.weight.grad, m.bias.grad

    agree(story)


def test_objects_whose_attributes_are_computed():
    def story(t):
        given = [Guarded(2), Guarded(3)]
        run = compiled(t, lambda x: sum([x * g.scale for g in (v for v in given)]))
        first = run(t.ones(2))
        given[0].scale = 5
        return first, run(t.ones(2))

    agree(story)


def test_one_list_twice():
    def story(t):
        def f(x):
            one, other = [x, x + 1], {"a": x}
            return one, one, {"one": one, "other": [other, other], "none": [x]}

        run = compiled(t, f)
        for i in range(2):
            a, b, c = run(t.ones(2) + i)
            a.append(3)
            c["other"][0]["b"] = 4
        return a is b is c["one"], len(b), len(c["other"][1]), c["none"] is a, b

    agree(story)


def _twice(x):
    cache = Cache()
    return cache, [cache]


def _shared(x):
    cache = Cache()
    return cache.layers, cache


def _cycle(x):
    cache = Cache()
    cache.me = cache
    return cache


@pytest.mark.parametrize("f", [_twice, _shared, _cycle])
def test_what_stands_there_twice_ends_the_program(f):
    with pytest.raises(torchlike._dynamo.exc.Unsupported, match="stands there twice"):
        torchlike.compile(f, fullgraph=True)(torchlike.ones(2))
    assert type(torchlike.compile(f)(torchlike.ones(2))) is type(f(torchlike.ones(2)))
