"""Tensors filled with the number of another: in eager code as PyTorch's, and in programs, which do not know it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import torchlike

CASES = {
    "full": lambda t, s, kind: t.full((2, 3), s, dtype=kind),
    "scalar_tensor": lambda t, s, kind: t.scalar_tensor(s, dtype=kind),
    "full_like": lambda t, s, kind: t.full_like(t.ones(3, 2).t(), s, dtype=kind),
    "new_full": lambda t, s, kind: t.ones(2, dtype=t.int32).new_full((2,), s, dtype=kind),
    "out": lambda t, s, kind: t.full((2,), s, out=t.zeros(2, dtype=kind)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("of", ["bool", "int16", "float64", "bfloat16", "complex64"])
@pytest.mark.parametrize("to", [None, "bool", "int32", "float16", "float32", "complex64"])
def test_the_number_of_a_tensor(name, of, to):
    def answer(t, compile=lambda f: f):
        kind = None if to is None else getattr(t, to)
        function = compile(lambda s: CASES[name](t, s, kind))
        out = [function(t.tensor(n, dtype=getattr(t, of))) for n in (0, 1)]
        return [(str(x.dtype).rpartition(".")[2], x.to(t.complex64).tolist(), x.stride()) for x in out]

    expected = answer(torch)
    assert answer(torchlike) == expected
    whole = of != "complex64" or to in ("bool", "complex64") or (to is None and name == "full")
    assert answer(torchlike, lambda f: torchlike.compile(f, fullgraph=whole)) == expected


def test_one_program_for_all_numbers():
    function = torchlike.compile(lambda s: torchlike.full((2,), s) * 2, fullgraph=True)
    assert [function(torchlike.tensor(n)).tolist() for n in (0.5, 1.5, -2.0)] == [[1, 1], [3, 3], [-4, -4]]
    assert function.count == 1


def test_a_tensor_from_outside_is_read_in_each_call():
    held = torchlike.tensor(2.0)
    function = torchlike.compile(lambda x: torchlike.full_like(x, held), fullgraph=True)
    assert function(torchlike.ones(2)).tolist() == [2, 2]
    held.fill_(4)
    assert function(torchlike.ones(2)).tolist() == [4, 4]


def test_in_jax():
    def function(a):
        return torchlike.full((3,), torchlike.from_jax_array(a)).jax()

    assert jax.jit(function)(1.5).tolist() == [1.5] * 3
    assert jax.grad(lambda a: function(a).sum())(1.5) == 3
    np.testing.assert_array_equal(jax.vmap(function)(jnp.arange(2.0)), [[0] * 3, [1] * 3])


@pytest.mark.parametrize("wrong", [lambda t: t.ones((), requires_grad=True), lambda t: t.ones(1)])
def test_what_is_no_number(wrong):
    for t in (torch, torchlike):
        for function in (lambda s, t=t: t.full((2,), s), lambda s, t=t: t.full_like(t.ones(2), s)):
            with pytest.raises(TypeError, match=r"must be Number, not Tensor"):
                function(wrong(t))
            if t is torchlike:
                with pytest.raises(TypeError, match=r"must be Number, not Tensor"):
                    torchlike.compile(function)(wrong(t))
