"""Instructions that are refused by name in one program, and run in pieces; see test_instructions."""

import sys

import pytest
from compile_kit import numbers, same

import torchlike as torch
from torchlike._transforms.interpreter import loop

REFUSED = {
    "a metaclass": ("class Meta(type): pass\nclass Inner(metaclass=Meta): pass\nreturn x", "whose metaclass is"),
    "except*": ("try: x + 1\nexcept* ValueError: pass\nreturn x", "contains except"),
    "a generator left alone": (
        "def g():\n    try: yield x\n    finally: seen.append(1)\nseen = []\nfor v in g(): break\nreturn x * len(seen)",
        "leaves a generator",
    ),
    "an exception of the caller": (
        "def f(): raise\ntry: raise ValueError\nexcept ValueError:\n    try: f()\n    except ValueError: return x + 1",
        "raises again what a caller handles",
    ),
    "a type parameter": ("def f[T](a: T) -> T: return a\nreturn f(x)", "a type parameter"),
    "a template string": ("return t'{x}', x", "contains a template string"),
}
SINCE = {"a type parameter": (3, 12), "a template string": (3, 14)}


@pytest.mark.parametrize("name", [n for n in REFUSED if sys.version_info >= SINCE.get(n, (3, 11))])
def test_what_is_not_interpreted_is_refused_by_name_and_runs_in_pieces(name):
    body, reason = REFUSED[name]
    scope = {}
    exec("def function(x):\n" + "".join(f"    {line}\n" for line in body.splitlines()), scope)
    x = torch.arange(3.0)
    with pytest.raises(RuntimeError, match=reason):
        torch.compile(scope["function"], fullgraph=True)(x)
    out, expected = torch.compile(scope["function"])(x), scope["function"](x)
    same(*[numbers(v[1] if isinstance(v, tuple) else v) for v in (out, expected)])


def test_an_instruction_that_nobody_knows_ends_the_program(monkeypatch):
    monkeypatch.delitem(loop.OPS, "GET_LEN")

    def function(x):
        match [x]:
            case [y]:
                return y * 2

    with pytest.raises(RuntimeError, match="GET_LEN"):
        torch.compile(function, fullgraph=True)(torch.ones(2))
    same(numbers(torch.compile(function)(torch.ones(2))), numbers(torch.ones(2) * 2))
