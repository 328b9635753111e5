"""Numbers of a compiled function whose computation fails in a later call, as the function may expect."""

import contextlib

import pytest
from stale_kit import never_stale

import torchlike as torch


class Count:
    n = 0


def _counting(f):
    def story(wrap):
        count, found = Count(), []
        run = wrap(lambda x: f(x, count))
        for _ in range(9):
            count.n += 1
            try:
                found.append(run(torch.ones(2)))
            except ArithmeticError as error:
                found.append(torch.tensor(len(type(error).__name__)))
            found.append(torch.rand(1))
        return found

    return story


def suppressed(x, count):
    with contextlib.suppress(ZeroDivisionError):
        x = x + 1 / (count.n % 3)
    return x * 2


def caught(x, count):
    try:
        return x * (2.0 ** (count.n % 5 * 300))
    except OverflowError:
        return x - 1


def raised(x, count):
    return x + 1 / (count.n % 4)


def after_a_draw(x, count):
    x = x + torch.rand(2)
    try:
        return x + 1 / (count.n % 3)
    except ZeroDivisionError:
        return x * torch.rand(2)


def counted_within(x, count):
    count.n += 1
    with contextlib.suppress(ZeroDivisionError):
        x = x + 1 // (count.n % 3)
    return x


@pytest.mark.parametrize("f", [suppressed, caught, raised, after_a_draw, counted_within])
def test_they_are_computed_as_in_eager_code(f):
    never_stale(_counting(f))
