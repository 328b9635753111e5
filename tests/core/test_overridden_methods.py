"""Functions do not call the methods that a subclass has overridden, but where PyTorch's are in Python and do."""

import pytest
import torch

import torchlike

CALLS = """
x.T; x.mT; x.H; x.mH; x.t(); x.adjoint(); x.swapaxes(0, 1); x.movedim(0, 1); x.moveaxis(0, -1); x.flatten(); x.ravel()
x.view_as(x); x.reshape_as(x); x.expand_as(x); x.broadcast_to((2, 3, 3)); x.tensor_split(2); x.hsplit(3); x.vsplit(3)
x.unsafe_chunk(3); x.unsafe_split(1); x.narrow_copy(0, 0, 1); x.diagonal_scatter(x[0] * 2)
x.select_scatter(x[0] * 2, 0, 0); x.slice_scatter(x[:1], 0, 0, 1); x.as_strided_scatter(x[0] * 2, (3,), (1,), 0)
x.take_along_dim(x.argsort(1), 1); x.index_put((x > 0,), x[0, 0]); x.float_power(2); x.reshape(9); x.where(x > 0, x)
x.trace(); x.cov(); x.unique(); x.argwhere(); x.nonzero(as_tuple=True); x.to_dense(); x.resize_as_(x); x.diagflat()
t.vstack([x, x]); t.hstack([x, x]); t.dstack([x, x]); t.column_stack([x, x]); t.meshgrid(x[0], x[1], indexing="ij")
t.cartesian_prod(x[0], x[1]); t.broadcast_tensors(x, x[0]); t.atleast_1d(x); t.atleast_2d(x[0]); t.atleast_3d(x)
t.block_diag(x, x); t.fft.fft(x); t.fft.rfft2(x); t.fft.hfft(x); t.fft.fftn(x); t.linalg.diagonal(x)
t.linalg.tensorsolve(x, x[0]); t.linalg.cond(x); t.tensordot(x, x, 1); t.kron(x, x); t.rot90(x); t.roll(x, 1)
t.nn.functional.conv1d(x, x.reshape(3, 3, 1)); t.nn.functional.one_hot(x.long().abs())
t.stft(x.flatten(), 4, 2, window=x.flatten()[:4], return_complex=True)
""".replace("\n", ";").strip(";")
METHODS = """as_strided chunk clone contiguous conj detach diagonal expand flatten movedim narrow permute resize_
reshape split sum tensor_split to transpose unbind unsqueeze view""".split()


def called(t, call):
    """The overridden methods that a call went through, and the shapes of its results."""
    seen = []

    def override(name):
        def method(self, *args, **kwargs):
            seen.append(name)
            return getattr(t.Tensor, name)(self, *args, **kwargs)

        return method

    class Watched(t.Tensor):
        pass

    x = t.arange(1.0, 10).reshape(3, 3).add(t.eye(3)).as_subclass(Watched)
    given = {"x": x, "t": t}
    first = call.split("(")[0] if call.startswith("x.") else ""
    for name in METHODS:
        if f"x.{name}" != first:  # which the test itself calls
            setattr(Watched, name, override(name))
    out = eval(call, given)
    return set(seen), [tuple(o.shape) for o in (out if isinstance(out, list | tuple) else [out])]


@pytest.mark.parametrize("call", [c.strip() for c in CALLS.split(";")])
def test_methods_of_a_subclass(call):
    ours, expected = called(torchlike, call), called(torch, call)
    assert ours[0] <= expected[0], "PyTorch calls no such method"
    assert ours[1] == expected[1]


def test_a_method_of_another_meaning():
    def answer(t):
        class Rolled(t.Tensor):
            def permute(self, shifts=1):
                return t.roll(self, shifts=shifts, dims=-1)

            def clone(self):
                raise AssertionError("not asked for")

        x = t.arange(6.0).reshape(2, 3).as_subclass(Rolled)
        return [y.tolist() for y in (x.T, x.movedim(0, 1), x.norm(dim=(0, 1)), x.permute(), x @ x.T, x.ravel())]

    assert answer(torchlike) == answer(torch)
