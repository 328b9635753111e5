"""``python -m torchlike conventions report|derive|kinks|diff``: the laboratory from a shell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import reduce
from typing import Any

from torchlike import linalg, special
from torchlike.conventions._derivation import derivation
from torchlike.conventions._export import FORMS, Table
from torchlike.conventions._kink_table import DATA, read, shipped
from torchlike.conventions._kinks import kinks
from torchlike.conventions._report import report
from torchlike.nn import functional

_NAMESPACES: tuple[Any, ...] = (functional, special, linalg)


def main(arguments: Sequence[str], torch: Any) -> None:
    """Run the command; ``torch`` is where functions are looked up first. Leaves by SystemExit on any misuse."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options, torch)
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        print(f"conventions {options.command}: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m torchlike conventions", description="PyTorch's and JAX's derivatives.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help_, run in (
        ("report", "differentiate a function at a point by both libraries", _report),
        ("derive", "the way to both gradients, step by step", _derive),
    ):
        command = commands.add_parser(name, help=help_)
        command.add_argument("function", help="such as relu, nn.functional.gelu, linalg.norm, special.entr")
        command.add_argument("point", nargs="+", help="numbers (0.0, 1+2j); ints for dimensions")
        command.add_argument("--argnum", type=int, default=0, help="the argument to differentiate by (default: 0)")
        command.add_argument("--figure", help="also draw to this file (derive)") if name == "derive" else None
        command.set_defaults(run=run)
    table = commands.add_parser("kinks", help="the operators whose derivatives differ at singular points")
    table.add_argument("operators", nargs="*", help="computed now; without any, the table that comes with torchlike")
    table.add_argument("--recompute", action="store_true", help="compute all of it now, which takes minutes")
    table.add_argument("--save", metavar="FILE", help=f"write the table as JSON, as {DATA.name}, not print it")
    table.set_defaults(run=_kinks)
    diff = commands.add_parser("diff", help="a saved table of kinks and those of now; status 1 where they differ")
    diff.add_argument("operators", nargs="*", help="only these")
    diff.add_argument("--before", metavar="FILE", help="a saved table; by default that which comes with torchlike")
    diff.set_defaults(run=_diff)
    for command in commands.choices.values():
        command.add_argument("--format", choices=FORMS, default="text")
    return parser


def _report(options: argparse.Namespace, torch: Any) -> None:
    f = _function(options.function, torch)
    _print(report(f, *_point(options), argnum=options.argnum), options)


def _derive(options: argparse.Namespace, torch: Any) -> None:
    steps = derivation(_function(options.function, torch), *_point(options), argnum=options.argnum)
    _print(steps, options)
    if options.figure:
        steps.plot().savefig(options.figure)


def _kinks(options: argparse.Namespace, torch: Any) -> None:
    found = kinks(*options.operators, recompute=options.recompute)
    if options.save:
        found.save(options.save)
    else:
        _print(found, options)


def _diff(options: argparse.Namespace, torch: Any) -> None:
    before = read(options.before) if options.before else shipped()
    after = kinks(*options.operators, recompute=not options.operators)
    if options.operators:
        wanted = set(options.operators)
        before = before.among(lambda k: bool({k.operator, k.operator.partition(".")[0]} & wanted))
    found = before.differences(after)
    _print(found, options)
    if found:
        raise SystemExit(1)


def _print(table: Table, options: argparse.Namespace) -> None:
    print(table.render(options.format), end="")


def _function(name: str, torch: Any) -> Any:
    """A function by its name, with or without its module's."""
    for place in (torch, *_NAMESPACES):
        try:
            found = reduce(getattr, name.removeprefix("torch.").split("."), place)
        except AttributeError:
            continue
        if callable(found):
            return found
    raise ValueError(f"there is no function called {name!r}")


def _point(options: argparse.Namespace) -> list[complex]:
    """The numbers of a command line; what is differentiated by is no integer."""
    numbers = [_number(text) for text in options.point]
    return [float(n) if i == options.argnum and isinstance(n, int) else n for i, n in enumerate(numbers)]


def _number(text: str) -> complex:
    for kind in (int, float, complex):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(f"{text!r} is no number")
