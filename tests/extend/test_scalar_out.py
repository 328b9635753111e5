"""The overloads with a number and ``out=``, from the operators' declarations: schema and result as PyTorch's."""

import importlib

import pytest
import torch
from both import agree

import torchlike

NAMES = sorted(
    (name, overload)
    for name in "add sub mul div remainder fmod copysign bitwise_and bitwise_or bitwise_xor".split()
    for overload in ["Scalar_out"]
) + [("bitwise_left_shift", "Tensor_Scalar_out"), ("bitwise_right_shift", "Tensor_Scalar_out")]


@pytest.mark.parametrize("name, overload", NAMES)
def test_schema(name, overload):
    mine, its = (str(getattr(getattr(t.ops.aten, name), overload)._schema) for t in (torchlike, torch))
    assert mine == its


@pytest.mark.parametrize("dtype", ["int32", "float32", "int64"])
@pytest.mark.parametrize("name, overload", NAMES)
def test_result(name, overload, dtype):
    """Into memory that fits, that must grow, of which several results share a place, and of other dtypes.

    PyTorch's four of arithmetic take the result's dtype only; here they cast as ``add.out`` does.
    """

    def script(t):
        f, x = getattr(getattr(t.ops.aten, name), overload), t.tensor([5, 3, 2, 7], dtype=getattr(t, dtype))

        def into(out, *rest):
            try:
                return f(x, 2, *rest, out=out) is out, out
            except RuntimeError:
                return "refused"

        own = t.float32 if name == "div" else x.dtype
        casts = [] if name in ("add", "sub", "mul", "div") else [t.float64, t.int16]
        found = [into(t.empty(4, dtype=d)) for d in (own, *casts, t.bool)]
        found += [into(t.empty(0, dtype=own)), into(t.empty(1, dtype=own).expand(4))]
        return found + ([into(t.empty(4, dtype=own), 3)] if name in ("add", "sub") else [])

    agree(script)


def test_a_result_of_another_size_is_warned_about():
    out = torchlike.empty(3)
    with pytest.warns(UserWarning, match="resized"):
        assert torchlike.ops.aten.add.Scalar_out(torchlike.ones(2), 1, out=out) is out
    assert out.shape == (2,)


@pytest.mark.parametrize("name, overload", NAMES)
def test_the_overload_that_a_mode_sees(name, overload):
    """Arithmetic sees the number as a tensor: ``add.out``; the others their own overload."""

    def script(t):
        seen = []
        mode = importlib.import_module(f"{t.__name__}.utils._python_dispatch").TorchDispatchMode

        class Seen(mode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(str(func))
                return func(*args, **(kwargs or {}))

        x = t.tensor([5, 3, 2], dtype=t.float32 if name in ("div", "copysign") else t.int32)
        with Seen():
            getattr(t, name)(x, 2, out=t.empty_like(x))
        return [f for f in seen if "empty" not in f]

    agree(script)
