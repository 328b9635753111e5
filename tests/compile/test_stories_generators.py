"""Stories of generators and coroutines in compiled functions."""

import asyncio
import contextlib

import pytest
from told_kit import Told, values

case = Told()


@case
def generator_inside(t, c):

    @c
    def f(x):

        def g():
            for i in range(3):
                yield (x * i)

        return sum(g())

    return [values(f(t.ones(1) * i)) for i in range(3)]


@case
def generator_send(t, c):

    @c
    def f(x):

        def g():
            y = yield x
            while True:
                y = yield (y * 2)

        h = g()
        next(h)
        a = h.send(x + 1)
        b = h.send(a)
        h.close()
        return a + b

    return [values(f(t.ones(1) * i)) for i in range(3)]


@case
def yield_from(t, c):

    @c
    def f(x):

        def a():
            yield x
            return x * 5

        def b():
            r = yield from a()
            yield r

        return sum(b())

    return [values(f(t.ones(1) * i)) for i in range(3)]


@case
def generator_throw(t, c):

    @c
    def f(x):

        def g():
            try:
                yield x
            except ValueError:
                yield (x * 9)

        h = g()
        next(h)
        return h.throw(ValueError())

    return [values(f(t.ones(1) * i)) for i in range(3)]


@case
def generator_argument(t, c):

    @c
    def f(g, x):
        return sum(g) + x

    return [values(f((t.ones(1) * j for j in range(i + 1)), t.ones(1))) for i in range(3)]


@case
def generator_function_compiled(t, c):

    @c
    def f(x):
        yield x
        yield (x * 2)

    return [values(list(f(t.ones(1) * i))) for i in range(3)]


@case
def contextmanager_inside(t, c):
    st = []

    @contextlib.contextmanager
    def cm(v):
        st.append(v)
        try:
            yield (v * 2)
        finally:
            st.append(-v)

    @c
    def f(x):
        with cm(3) as v:
            return x * v

    got = [values(f(t.ones(1) * i)) for i in range(3)]
    return got + [list(st)]


@case
def coroutine_inside(t, c):

    @c
    def f(x):

        async def a():
            return x * 2

        co = a()
        try:
            co.send(None)
        except StopIteration as e:
            return e.value + 1

    return [values(f(t.ones(1) * i)) for i in range(3)]


@case
def await_chain(t, c):
    k = [2]

    @c
    def f(x):

        async def a():
            return x * k[0]

        async def b():
            return await a() + 1

        co = b()
        try:
            co.send(None)
        except StopIteration as e:
            return e.value

    got = [values(f(t.ones(1)))]
    k[0] = 7
    got += [values(f(t.ones(1)))] * 2
    return got


@case
def async_function_compiled(t, c):

    @c
    async def f(x):
        return x * 2

    return [values(asyncio.run(f(t.ones(1) * i))) for i in range(3)]


@case
def outer_generator_advanced(t, c):
    g = (i for i in range(10))

    @c
    def f(x):
        return x * next(g)

    return [values(f(t.ones(1))) for i in range(3)]


@case
def generator_expr_effects(t, c):
    li = []

    @c
    def f(x):
        return sum(li.append(i) or x * i for i in range(3))

    return [values(f(t.ones(1) * i)) for i in range(3)] + [list(li)]


@case
def generator_with_an_effect_at_its_end(t, c):
    li = []

    @c
    def f(x):
        def g():
            try:
                yield x
            finally:
                li.append(1)

        return next(g()) * 2

    return [values(f(t.ones(1) * i)) for i in range(3)] + [len(li)]


@case
def coroutine_with_arguments_and_errors(t, c):
    @c
    async def f(x, s):
        async def scaled(y, by=2):
            if by < 0:
                raise ValueError(by)
            return y * by

        try:
            await scaled(x, -1)
        except ValueError as e:
            return await scaled(x, s) + await scaled(x) - e.args[0]

    return [values(asyncio.run(f(t.ones(1) * i, i + 0.5))) for i in range(4)]


@case
def coroutine_that_waits(t, c):
    @c
    async def f(x):
        await asyncio.sleep(0)
        return x * 2

    return [values(asyncio.run(f(t.ones(1) * i))) for i in range(3)]


# In pieces these are right here.
REFUSED = frozenset(
    """
generator_argument generator_function_compiled outer_generator_advanced generator_with_an_effect_at_its_end
coroutine_that_waits
""".split()
)


@pytest.mark.parametrize("name", case.cases)
def test_pieces_tell_the_story_as_eager_code_does(name):
    case.in_pieces(name)


@pytest.mark.parametrize("name", case.cases)
def test_one_program_tells_it_or_is_refused(name):
    case.in_one(name, name in REFUSED)
