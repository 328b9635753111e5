"""Python's instructions: each one the compiler can write is interpreted as Python does it, or refused by its name."""

import contextlib
import dis
import inspect
import sys
import types

import pytest
from compile_kit import numbers, same

import torchlike as torch
from torchlike._transforms.interpreter import bytecode, loop

# -- which there are -----------------------------------------------------------------------------------------
WRITTEN = {name for name, number in dis.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED")}


def spelled(name):
    """Whether the decoder puts an instruction as others."""
    return name in bytecode.MEANINGS or name in bytecode.PAIRS or name in bytecode.SAME


def codes(code):
    """A code object and those of the functions in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from codes(const)


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_an_instruction_of_this_python_is_known_or_refused(name):
    assert bytecode.KNOWN
    assert (name in loop.OPS or spelled(name)) is not (name in bytecode.REFUSED)


def test_what_instructions_are_put_as_is_known_or_refused():
    modules = [m for name, m in sorted(sys.modules.items()) if name in sys.stdlib_module_names]
    functions = [f for m in modules for f in vars(m).values() if isinstance(f, types.FunctionType | type)]
    members = [m for f in functions for m in (f, *(vars(f).values() if isinstance(f, type) else ()))]
    found = {n for f in members if isinstance(f, types.FunctionType) for c in codes(f.__code__)
             for n in bytecode.decoded(c).names}  # fmt: skip
    assert len(found) > 50
    assert found <= loop.OPS.keys() | bytecode.REFUSED.keys()


def test_variables_are_numbered_as_dis_numbers_them():
    def outer(x, y):
        return lambda a: ([x for x in a], lambda: [y for _ in a], x, [lambda: y for y in a])  # noqa: B023

    for code in codes(outer.__code__):
        names = [name.lstrip(".") if name != ".0" else name for name in bytecode.variables(code)]
        for i in dis.get_instructions(code):
            if i.opcode in (*dis.haslocal, *dis.hasfree) and isinstance(i.argval, str):
                assert names[i.arg].lstrip(".") == i.argval.lstrip(".")


# -- what they do --------------------------------------------------------------------------------------------
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Box:
    """A context and sequence, which notes what is done with it."""

    def __init__(self, *values, swallow=False):
        self.values, self.swallow = list(values), swallow

    def __enter__(self):
        self.values.append("in")
        return self

    def __exit__(self, kind, error, trace):
        self.values.append(kind and kind.__name__)
        return self.swallow

    def total(self, start=0):
        return sum(self.values, start)


class Doubled(Box):
    def total(self, start=0):
        return super().total(start) + super(Doubled, self).total(start=start) + len(super().values_of())  # noqa: UP008

    def values_of(self):
        return self.values


Box.values_of = lambda self: self.values


class Pair:
    __match_args__ = ("left", "right")

    def __init__(self, left, right):
        self.left, self.right = left, right


NAMED = 7


@case
def calls(x):
    def f(a, b=2, *rest, c=3, **named):
        return a, b, rest, c, sorted(named.items())

    given, named = [1, 2, 3], {"c": 9, "d": 10}
    bound = Box(1, 2).total
    given_all = f(*given), f(*given, **named), f(0, *given, e=1, **named)
    return f(1), f(1, c=5), given_all, bound(1), bound(start=2), max(1, 2)


@case
def supers(x):
    alias = super
    box = Doubled(1, 2, 3)
    return box.total(), box.total(1), alias(Doubled, box).total()


@case
def comprehensions_keep_variables(x):
    n, values = 5, [3, 4]
    squares = [n * n for n in values]
    functions = [lambda: n for n in values]  # noqa: B023
    table = {n: k for k, n in enumerate(values)}
    nested = [[a * b for a in values] for b in values if b > 3]
    return n, squares, [f() for f in functions], table, sorted({n for n in values}), nested, sum(n for n in values)


@case
def comprehension_variables_beside_cells(x):
    n, held = 1, 2

    def inner(k):
        listed = [n for n in range(3)]
        kept = [lambda: k for k in listed]  # noqa: B023
        return n, listed, [f() for f in kept], k, lambda: (held, k)

    *out, last = inner(8)
    return out, last()


@case
def comprehension_that_fails(x):
    n = 4
    try:
        [1 // n for n in (1, 0)]
    except ZeroDivisionError:
        return n
    try:
        return [missing for _ in ()] + [missing]  # noqa: F821
    except NameError:
        return None


@case
def unset_variables(x):
    seen = []
    for name in ("local", "cell", "global"):
        try:
            if name == "local":
                if x is None:
                    value = 1
                seen.append(value)
            elif name == "cell":
                (lambda: cell)()  # noqa: F821
            else:
                no_such_name  # noqa: B018, F821
        except NameError as error:
            seen.append((type(error).__name__, name))
        else:
            seen.append("nothing raised")
    cell = 1
    del cell, name
    return seen


@case
def slices(x):
    v = list(range(6))
    i, j = 1, 4
    taken = v[1:3], v[i:j], v[i:], v[:j], v[::2], v[i:j:2], v[-1]
    v[i:j] = [9]
    v[0:1] = [8, 7]
    del v[i], v[-1:]
    v[0], v[-i] = 5, 6
    return taken, v


@case
def operators(x):
    a, b = 7, 2
    seen = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a << b, a >> b, a & b, a | b, a ^ b, -a, +a, ~a, not a]
    for value in (a, float(a)):
        value += b
        value -= 1
        value *= 3
        value /= 2
        value //= 1
        value **= 2
        value %= 5
        seen.append(value)
    for value in (a,):
        value <<= 2
        value |= 1
        value &= 13
        value ^= 3
        value >>= 1
        seen.append(value)
    m = torch.ones(2, 2)
    m @= m
    return seen, m @ m, x @ x


@case
def comparisons_and_jumps(x):
    a, none, seen = 3, None, []
    seen += [a < 4, 1 < a < 3, a == 3, a != 3, a is None, none is not None, a in (1, 3), a not in [3], not a > 2]
    seen.append("yes" if a and not none else "no")
    seen.append(a or none)
    seen.append(none and a)
    while True:
        a -= 1
        if a is None or a < -2:
            break
        if not a:
            continue
        while none is not None:
            pass
        if none is None and a > 0:
            seen.append(a)
    else:
        seen.append("never")
    n = 4
    while n:
        n -= 1
        if n == 2:
            none = 5
        if none is not None:
            none = None
    k, later = 0, None
    while later is None:
        k += 1
        if k > 2:
            later = k
    return seen, all(v for v in (1, 2)), any(v > 3 for v in (1, 2)), tuple(v for v in "ab"), list(v for v in "ab"), n


@case
def text(x):
    a, b, width = "s", 2.5, 7
    return f"{a}{b}", f"{a!r}|{b!s:>5}|{b:{width}.2f}|{'é'!a}", f"{a=}", "plain"


@case
def literals(x):
    a, b = [1, 2], {"k": 1}
    spread = [*a, 3], (*a, 4), sorted({*a, 5}), {**b, "l": 2}
    return spread, {"a": a, "b": 1}, sorted({1, a[0]}), [1, 2, 3, 4], sorted({"x", "y", "z"}), 300, -5


@case
def unpacking(x):
    a, b = b, a = 1, 2
    c, *d, e = range(5)
    (f, g), [h, *_] = (1, 2), "xyz"
    try:
        i, j = (1, 2, 3)
    except ValueError:
        i = j = None
    return a, b, c, d, e, f, g, h, i, j


@case
def functions_made_inside(x):
    k = 3

    def f(a: int, b: str = "b", *, c: "float" = k, d=[1]) -> float:  # noqa: B006
        nonlocal k
        k += 1
        return a, b, c, k

    def swap(a, b):
        a, b = b, a
        return b, a

    return f(1), f(2, c=0), k, f.__defaults__, f.__kwdefaults__, f.__name__, (lambda *, q=5: q)(), swap(1, 2)


@case
def deleted_cells(x):
    k = 1

    def f():
        return k

    del k
    try:
        return f()
    except NameError:
        k = 2
    return f()


@case
def generators(x):
    def inner(n):
        got = yield n
        try:
            got = yield got
        except KeyError as error:
            got = yield error.args[0]
        finally:
            seen.append("left")
        return got

    def outer():
        seen.append((yield from inner(1)))
        seen.append((yield from [10, 20]))
        for v in (yield 5), 6:
            yield v, 1

    seen = []
    g = outer()
    return [next(g), g.send("a"), g.throw(KeyError("b")), g.send("c"), *g], seen


@case
def generators_that_throw(x):
    def inner():
        try:
            yield 1
        except KeyError:
            return "caught"

    def outer():
        seen.append((yield from inner()))
        yield 2

    def stops():
        yield 1
        raise StopIteration(3)

    def passes():
        try:
            yield from inner()
        except ValueError as error:
            yield repr(error)

    seen, g, h = [], outer(), passes()
    next(g), next(h)
    seen += [g.throw(KeyError), h.throw(ValueError(4)), *h]
    try:
        list(stops())
    except RuntimeError as error:
        seen.append((str(error), type(error.__cause__).__name__))
    return seen, [v for v in (a * b for a in (1, 2) for b in (3, 4))]


@case
def exceptions(x):
    seen = []
    for error in (ValueError("v"), KeyError("k"), None):
        try:
            try:
                if error:
                    raise error
                seen.append("none")
            except ValueError as caught:
                seen.append(caught.args)
                raise TypeError("from") from caught
            except KeyError:
                raise
            else:
                seen.append("else")
            finally:
                seen.append("finally")
        except (TypeError, KeyError) as outer:
            seen.append((type(outer).__name__, type(outer.__cause__).__name__))
    try:
        with_assert(seen)  # noqa: F821
    except AssertionError as error:
        seen.append(str(error))
    return seen


exec("def with_assert(seen): assert not seen, 'message'")  # pytest writes others anew


@case
def chained_exceptions(x):
    first, seen = ValueError("first"), []

    def fails():
        raise KeyError("called")

    for raised in (lambda: fails(), lambda: 1 // 0):
        try:
            try:
                raise first
            except ValueError:
                raised()
        except (KeyError, ZeroDivisionError) as error:
            seen.append((repr(error), repr(error.__context__), error.__suppress_context__))
    try:
        try:
            raise first
        except ValueError:
            try:
                raise KeyError("second") from None
            except KeyError:
                raise first  # noqa: B904
    except ValueError as error:
        seen.append((error is first, repr(error.__context__), repr(error.__context__.__context__)))
    return seen


@case
def generators_that_are_closed(x):
    def inner():
        try:
            yield 1
            yield 2
        except GeneratorExit:
            seen.append("exit")
            raise
        finally:
            seen.append("closed")

    def outer():
        with contextlib.suppress(GeneratorExit):
            yield from inner()
        seen.append("outer")

    def plain():
        yield 1
        yield 2

    seen = []
    for g in (inner(), outer()):
        seen.append(next(g))
        g.close()
    for v in plain():
        seen.append(v)
        break
    return seen


def returns_through_finally():
    seen = []
    for i in range(3):
        with contextlib.suppress(ValueError):
            try:
                if i == 1:
                    raise ValueError
                if i == 2:
                    return seen
            finally:
                seen.append(i)
    return None


@case
def contexts(x):
    seen = []
    with Box(1) as a, Box(2) as b:
        seen.append(b.values[0])
    with Box(swallow=True) as c:
        raise ValueError
    try:
        with Box() as d, Box():
            raise KeyError
    except KeyError:
        seen.append("left")
    with torch.no_grad():
        y = x * 2
    try:
        with 3:
            pass
    except TypeError:
        seen.append("no context")
    return seen, a.values, b.values, c.values, d.values, y, returns_through_finally()


@case
def matches(x):
    seen = []
    for subject in (1, [1, 2, 3], {"a": 1, "b": 2}, Pair(1, 2), Pair(3, [4]), "text", (5,), {"z": 0}, None):
        match subject:
            case 1:
                seen.append("one")
            case [first, *rest]:
                seen.append((first, rest))
            case {"a": a, **others}:
                seen.append((a, others))
            case Pair(1, right):
                seen.append(right)
            case Pair(left=left, right=[inner]) if left > 2:
                seen.append((left, inner))
            case str() as found:
                seen.append(found)
            case None:
                seen.append("none")
            case _:
                seen.append("other")
    return seen


@case
def imports(x):
    import math
    import os.path as path
    from collections import OrderedDict

    return math.floor(2.5), path.sep, OrderedDict(a=1)["a"]


@case
def attributes(x):
    box = Box(1)
    box.extra = 2
    box.extra += NAMED
    before = box.extra
    del box.extra
    return before, hasattr(box, "extra"), box.values.__len__()


@case
def many_names(x):  # arguments above 255 have a prefix, in front of which jumps go
    total = 0
    for value in range(2):
        if value:
            total += with_many_names()  # noqa: F821
    return total


exec(
    "def with_many_names():\n total = 0\n"
    + "".join(f" v{i} = {i}\n if v{i} % 2 and total >= 0: total += v{i}\n" for i in range(300))
    + " return total\n"
)


@case
def annotations(x):
    y: int = 3
    box = Box()
    box.a: int = 4
    return y, box.a


@pytest.mark.parametrize("name", CASES)
def test_what_is_interpreted_does_what_python_does(name):
    x = torch.arange(3.0)

    def function(x):
        return CASES[name](x), x + 1

    run = torch.compile(function, fullgraph=True)
    for _ in range(2):
        same(numbers(function(x)), numbers(run(x)))


# Those of classes and coroutines are in test_stories_objects.py and test_stories_generators.py.
SELDOM = frozenset((
    "NOP", "STORE_GLOBAL", "DELETE_GLOBAL", "COPY_FREE_VARS", "CALL_INTRINSIC_2", "LOAD_BUILD_CLASS", "LOAD_LOCALS",
    "LOAD_NAME", "STORE_NAME", "DELETE_NAME", "SETUP_ANNOTATIONS", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF",
    "LOAD_FROM_DICT_OR_GLOBALS", "GET_AWAITABLE",
))  # fmt: skip


def test_the_cases_hold_every_instruction():
    given = [*CASES.values(), *[f for c in (Box, Doubled) for f in vars(c).values() if inspect.isfunction(f)]]
    given += [globals()[name] for name in ("with_assert", "with_many_names", "returns_through_finally")]
    used = {i.opname for f in given for code in codes(f.__code__) for i in dis.get_instructions(code)}
    assert WRITTEN - bytecode.REFUSED.keys() - used <= SELDOM
