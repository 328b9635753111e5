"""Stories of weak references to what a compiled function makes and lets go, of weak methods and proxies."""

import weakref

import pytest
from told_kit import Told, values

case = Told()


class Obj:
    pass


@case
def weakref_of_what_the_function_lets_go(t, c):
    @c
    def f(x):
        o = Obj()
        r = weakref.ref(o)
        before = r() is None
        del o
        return (x * 2 if r() is None else x) + before

    return [values(f(t.ones(1) * i)) for i in range(3)]


@case
def weakref_with_a_callback(t, c):
    gone = []

    @c
    def f(x):
        o = Obj()
        r = weakref.ref(o, gone.append)
        del o
        return x * len(gone) + (r() is None)

    return [values(f(t.ones(1) * i)) for i in range(4)], len(gone)


@case
def weak_set_of_what_the_function_lets_go(t, c):
    @c
    def f(x):
        o, s = Obj(), weakref.WeakSet()
        s.add(o)
        n = len(s)
        del o
        return x * n + len(s)

    return [values(f(t.ones(1) * i)) for i in range(3)]


@case
def weak_method(t, c):
    class A:
        k = 2.0

        def m(self):
            return self.k

    a = A()
    r = weakref.WeakMethod(a.m)

    @c
    def f(x):
        m = r()
        return x if m is None else x * m()

    got = [values(f(t.ones(1))) for _ in range(2)]
    a.k = 3.0
    got += [values(f(t.ones(1))) for _ in range(2)]
    del a
    return [*got, r() is None, values(f(t.ones(1)))]


@case
def weak_proxy_that_dies(t, c):
    o = Obj()
    o.v = 2.0
    p = weakref.proxy(o)

    @c
    def f(x):
        try:
            return x * p.v
        except ReferenceError:
            return x - 1

    got = [values(f(t.ones(1))) for _ in range(2)]
    del o
    return [*got, values(f(t.ones(1))), values(f(t.ones(1)))]


REFUSED = frozenset(case.cases) - {"weak_method", "weak_proxy_that_dies"}  # in pieces these are right


@pytest.mark.parametrize("name", case.cases)
def test_pieces_tell_the_story_as_eager_code_does(name):
    case.in_pieces(name)


@pytest.mark.parametrize("name", case.cases)
def test_one_program_tells_it_or_is_refused(name):
    case.in_one(name, name in REFUSED)
