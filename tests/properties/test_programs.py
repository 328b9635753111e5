"""Random programs of views, in-place changes and backwards, run on PyTorch and on torchlike side by side.

A program is a list of instructions, each a name and five small numbers that pick its tensors and
arguments. Errors must be of the same type at the same instruction; in the end every live tensor must
agree in all that a user can see: values, layout, aliasing, versions, history and gradients.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from oracle import close, host

import torchlike

LIBRARIES = (torch, torchlike)
PROGRAMS = max(1, round(250 * float(os.environ.get("TORCHLIKE_CASES", "1"))))


class Instruction(NamedTuple):
    """``name`` acts on the tensors number ``a`` and ``b`` with the numbers ``p``, ``q``, ``r``."""

    name: str
    a: int
    b: int = 0
    p: int = 0
    q: int = 0
    r: int = 0


class Machine:
    """One library's run of a program: its live tensors and its grad mode."""

    def __init__(self, lib: Any):
        self.lib, self.live, self.grad_mode = lib, [], True

    def leaf(self, array: np.ndarray, requires_grad: bool) -> None:
        """A new leaf; from a transposed array, one with transposed strides."""
        swapped = array.ndim > 1 and not array.flags.c_contiguous
        t = self.lib.tensor((array.T if swapped else array).tolist(), dtype=getattr(self.lib, array.dtype.name))
        self.live.append((t.t() if swapped else t).detach())
        if requires_grad:
            self.live[-1].requires_grad_()

    def start(self) -> None:
        """The leaves, and for each that requires grad a tensor computed from it."""
        for array, requires_grad in LEAVES:
            self.leaf(array, requires_grad)
        self.live += [t * 1 for t in self.live if t.requires_grad]

    def step(self, i: Instruction) -> type[Exception] | None:
        """Execute one instruction; the type of the exception it raised."""
        t, u = self.live[i.a % len(self.live)], self.live[i.b % len(self.live)]
        try:
            with self.lib.set_grad_enabled(self.grad_mode):
                got = INSTRUCTIONS[i.name](self, t, u, i.p, i.q, i.r)
        except Exception as error:
            return type(error)
        for new in got if isinstance(got, tuple | list) else (got,):
            if isinstance(new, self.lib.Tensor):
                self.live.append(new)
        return None


# -- what an instruction does: (machine, t, u, p, q, r) -> new tensors or None -------------------------


def dim(t: Any, p: int) -> int:
    """A dimension of ``t``, now and then one too many."""
    return p % (t.dim() + 1) - (p % 2) if t.dim() else p % 2


def like(m: Machine, t: Any) -> Any:
    """Some gradient for ``t``."""
    return m.lib.ones(tuple(t.shape), dtype=t.dtype)


def rotated(t: Any, p: int) -> list[int]:
    n = t.dim()
    return [(d + p) % n for d in range(n)]


def switch(m: Machine) -> None:
    m.grad_mode = not m.grad_mode


def forget_grad(t: Any) -> None:
    t.grad = None


def scale_grad(t: Any, p: int) -> None:
    if t.grad is not None:
        t.grad.mul_(p)


def source(u: Any, t: Any, fit: bool | int = True) -> Any:
    """``u`` as what is written into ``t``: made to fit, without history where ``t`` can have none."""
    u = u if t.is_floating_point() or t.is_complex() else u.detach()
    return u.sum() if fit and u.shape != t.shape else u


def gradient(m: Machine, t: Any, u: Any, **options: bool) -> list:
    """New tensors of the gradient, whose own layout and aliasing is the library's affair."""
    return [None if g is None else g * 1 for g in m.lib.autograd.grad(t, u, like(m, t), **options)]


VIEWS = {
    "select": lambda m, t, u, p, q, r: t.select(dim(t, p), q - 2),
    "narrow": lambda m, t, u, p, q, r: t.narrow(dim(t, p), q % 2, r % 3),
    "transpose": lambda m, t, u, p, q, r: t.transpose(dim(t, p), dim(t, q)),
    "permute": lambda m, t, u, p, q, r: t.permute(rotated(t, p)),
    "t": lambda m, t, u, p, q, r: t.t(),
    "expand": lambda m, t, u, p, q, r: t.expand(2, *t.shape),
    "unfold": lambda m, t, u, p, q, r: t.unfold(dim(t, p), q % 3, 1 + r % 2),
    "diagonal": lambda m, t, u, p, q, r: t.diagonal(p % 3 - 1, 0, 1),
    "as_strided": lambda m, t, u, p, q, r: t.as_strided((2, 2), (p % 3, q % 3), (None, 0, 1)[r % 3]),
    "view": lambda m, t, u, p, q, r: t.view(tuple(t.shape)[::-1]),
    "flat view": lambda m, t, u, p, q, r: t.view(-1),
    "reshape": lambda m, t, u, p, q, r: t.reshape(tuple(t.shape)[::-1]),
    "flatten": lambda m, t, u, p, q, r: t.flatten(),
    "squeeze": lambda m, t, u, p, q, r: t.squeeze() if p % 2 else t.squeeze(dim(t, q)),
    "unsqueeze": lambda m, t, u, p, q, r: t.unsqueeze(dim(t, p)),
    "real": lambda m, t, u, p, q, r: t.real,
    "imag": lambda m, t, u, p, q, r: t.imag,
    "view_as_real": lambda m, t, u, p, q, r: m.lib.view_as_real(t),
    "view_as_complex": lambda m, t, u, p, q, r: m.lib.view_as_complex(t),
    "chunk": lambda m, t, u, p, q, r: t.chunk(2, dim(t, p)),
    "split": lambda m, t, u, p, q, r: t.split(1 + q % 2, dim(t, p)),
    "split sizes": lambda m, t, u, p, q, r: t.split([1, q % 2, 1], dim(t, p)),
    "unbind": lambda m, t, u, p, q, r: t.unbind(dim(t, p)),
    "conj": lambda m, t, u, p, q, r: t.conj(),
    "T": lambda m, t, u, p, q, r: t.mT,
    "index": lambda m, t, u, p, q, r: t[q - 3],
    "index slice": lambda m, t, u, p, q, r: t[q - 3 : r - 3],
    "index steps": lambda m, t, u, p, q, r: t[..., :: 1 + p % 3],
    "index mixed": lambda m, t, u, p, q, r: t[None, q - 3, r % 2 :],
    "index dots": lambda m, t, u, p, q, r: t[...],
    "detach": lambda m, t, u, p, q, r: t.detach(),
    "data": lambda m, t, u, p, q, r: t.data,
}
INPLACE = {
    "add_": lambda m, t, u, p, q, r: t.add_(source(u, t, r), alpha=p % 3),
    "add_ number": lambda m, t, u, p, q, r: t.add_(p),
    "mul_": lambda m, t, u, p, q, r: t.mul_(source(u, t, r)),
    "mul_ number": lambda m, t, u, p, q, r: t.mul_(p - 2),
    "copy_": lambda m, t, u, p, q, r: t.copy_(source(u, t, r)),
    "sub_": lambda m, t, u, p, q, r: t.sub_(source(u, t, r)),
    "neg_": lambda m, t, u, p, q, r: t.neg_(),
    "tanh_": lambda m, t, u, p, q, r: t.tanh_(),
    "cos_": lambda m, t, u, p, q, r: t.cos_(),
    "zero_": lambda m, t, u, p, q, r: t.zero_(),
    "fill_": lambda m, t, u, p, q, r: t.fill_(p),
    "fill_ tensor": lambda m, t, u, p, q, r: t.fill_(source(u, t).sum() if r else source(u, t)),
    "addcmul_": lambda m, t, u, p, q, r: t.addcmul_(source(u, t, r), source(u, t)),
    "masked_fill_": lambda m, t, u, p, q, r: t.masked_fill_(t.detach() == t.detach(), p),
    "set item": lambda m, t, u, p, q, r: t.__setitem__(q - 3, r),
    "set item to tensor": lambda m, t, u, p, q, r: t.__setitem__(q - 3, source(u, t, False)),
    "set slice": lambda m, t, u, p, q, r: t.__setitem__((..., slice(q % 3, None)), source(u, t, False)),
    "t_": lambda m, t, u, p, q, r: t.t_(),
    "transpose_": lambda m, t, u, p, q, r: t.transpose_(dim(t, p), dim(t, q)),
    "unsqueeze_": lambda m, t, u, p, q, r: t.unsqueeze_(dim(t, p)),
    "squeeze_": lambda m, t, u, p, q, r: t.squeeze_() if p % 2 else t.squeeze_(dim(t, q)),
    "unsafe_split": lambda m, t, u, p, q, r: t.unsafe_split(1 + q % 2, dim(t, p)),
    "logical_not_": lambda m, t, u, p, q, r: t.logical_not_(),
    "set at list": lambda m, t, u, p, q, r: t.__setitem__([0, q % 2], r),
}
ARITHMETIC = {
    "add": lambda m, t, u, p, q, r: t + u,
    "mul": lambda m, t, u, p, q, r: t * u,
    "mul number": lambda m, t, u, p, q, r: t * (p - 2),
    "sub": lambda m, t, u, p, q, r: t - u,
    "tanh": lambda m, t, u, p, q, r: t.tanh(),
    "sum": lambda m, t, u, p, q, r: t.sum(),
    "sum dim": lambda m, t, u, p, q, r: t.sum(dim(t, p), keepdim=bool(q % 2)),
    "max dim": lambda m, t, u, p, q, r: None if t.is_complex() else tuple(t.max(dim(t, p))),
    "cat": lambda m, t, u, p, q, r: m.lib.cat([t, u], dim(t, p)),
    "stack": lambda m, t, u, p, q, r: m.lib.stack([t, u]),
    # within the dimension: recorded execution tells of others when later calls have been recorded
    "take": lambda m, t, u, p, q, r: t[[0, max(-t.shape[0], min(q - 3, t.shape[0] - 1))]],
    "single": lambda m, t, u, p, q, r: t.to(m.lib.float32),
    "add out": lambda m, t, u, p, q, r: m.lib.add(t, 1, out=u) if t.shape == u.shape else None,
    "clone": lambda m, t, u, p, q, r: t.clone(),
    "contiguous": lambda m, t, u, p, q, r: t.contiguous(),
}
AUTOGRAD = {
    "backward": lambda m, t, u, p, q, r: t.backward(like(m, t), retain_graph=bool(p % 2)),
    "scalar backward": lambda m, t, u, p, q, r: t.backward(),
    "sum backward": lambda m, t, u, p, q, r: t.sum().backward(),
    "grad": lambda m, t, u, p, q, r: gradient(m, t, u, create_graph=bool(p % 2), allow_unused=bool(q % 2)),
    "scale grad": lambda m, t, u, p, q, r: scale_grad(t, p),
    "add grad": lambda m, t, u, p, q, r: u.add_(source(t.grad, u)) if t.grad is not None else None,
    "forget grad": lambda m, t, u, p, q, r: forget_grad(t),
    "requires_grad_": lambda m, t, u, p, q, r: t.requires_grad_(bool(p % 2)),
    "retain_grad": lambda m, t, u, p, q, r: t.retain_grad(),
    "detach_": lambda m, t, u, p, q, r: t.detach_(),
    "hook": lambda m, t, u, p, q, r: t.register_hook(lambda grad: grad * 2),
    "switch grad mode": lambda m, t, u, p, q, r: switch(m),
}
INSTRUCTIONS: dict = VIEWS | INPLACE | ARITHMETIC | AUTOGRAD

# -- comparing ----------------------------------------------------------------------------------------

TRAITS = {
    "dtype": lambda t: str(t.dtype),
    "shape": lambda t: tuple(t.shape),
    "stride": lambda t: [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1 and t.numel()],
    "storage_offset": lambda t: t.storage_offset(),
    "is_contiguous": lambda t: t.is_contiguous(),
    "_version": lambda t: t._version,
    "_is_view": lambda t: t._is_view(),
    "requires_grad": lambda t: t.requires_grad,
    "is_leaf": lambda t: t.is_leaf,
    "output_nr": lambda t: t.output_nr,
    "retains_grad": lambda t: not t.is_leaf and t.retains_grad,
    "grad_fn": lambda t: graph(t.grad_fn),
}


# What a stale view's new history begins with; how it goes on is each library's affair.
REPLAYED = {"AsStridedBackward0", "ConjBackward0", "ViewAsRealBackward0", "ViewAsComplexBackward0"}


def graph(node: Any, depth: int = 4) -> Any:
    """The names of the nodes below ``node``, nested; inputs without gradient are left out."""
    if node is None:
        return None
    name = node.name().rpartition(":")[2]
    if not depth or name in REPLAYED:
        return name
    return name, [(graph(n, depth - 1), i) for n, i in node.next_functions if n is not None]


def observe(trait: Any, t: Any) -> Any:
    """What reading a trait gives: a stale view may refuse."""
    try:
        return trait(t)
    except RuntimeError as error:
        return type(error)


def partition(keys: list) -> list[int]:
    """For each key the place of the first equal one."""
    first: dict = {}
    return [first.setdefault(k, i) for i, k in enumerate(keys)]


def base_of(live: list, t: Any) -> int:
    """The number of the live tensor that is the base of ``t``; -1: none, -2: one that is not live."""
    if t._base is None:
        return -1
    return next((i for i, x in enumerate(live) if x is t._base), -2)


def compare(ours: Machine, theirs: Machine) -> None:
    """Every live tensor agrees in all its traits."""
    mine, real = ours.live, theirs.live
    assert len(mine) == len(real)
    for i, (x, y) in enumerate(zip(mine, real, strict=True)):
        for name, trait in TRAITS.items():
            got, wanted = observe(trait, x), observe(trait, y)
            assert got == wanted, f"tensor {i}: {name} is {got}, PyTorch: {wanted}"
        close(host(x), host(y), f"tensor {i}")
        assert base_of(mine, x) == base_of(real, y), f"tensor {i}: other base"
        compare_grads(i, x, y)
    assert partition([x is None or id(x) for x in mine]) == partition([id(y) for y in real])
    filled = [i for i, y in enumerate(real) if y.numel()]
    assert partition([mine[i].data_ptr() for i in filled]) == partition([real[i].data_ptr() for i in filled])


def compare_grads(i: int, x: Any, y: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got, wanted = x.grad, y.grad
    assert (got is None) == (wanted is None), f"tensor {i}: grad is {got}, PyTorch: {wanted}"
    if wanted is not None:
        close(host(got), host(wanted), f"grad of tensor {i}")
        for name in ("dtype", "shape", "stride", "requires_grad"):
            trait = TRAITS[name]
            assert trait(got) == trait(wanted), f"grad of tensor {i}: {name} is {trait(got)}, PyTorch: {trait(wanted)}"


def run(program: list[Instruction]) -> None:
    """Run on both libraries and compare."""
    ours, theirs = Machine(torchlike), Machine(torch)
    for m in (ours, theirs):
        m.start()
    for n, i in enumerate(program):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got, wanted = ours.step(i), theirs.step(i)
        assert got is wanted, f"instruction {n}, {i}: {got}, PyTorch: {wanted}"
    compare(ours, theirs)


LEAVES = [
    (np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), True),
    (np.array([2.0, -1.0, 3.0]), False),
    (np.array([[1 + 2j, 3j], [2 - 1j, 4]]), True),
    (np.array(3.0), True),
    (np.array([[1.0, -2.0], [0.5, 4.0], [3.0, 0.0]]).T, True),
    (np.array([[1, 2, 3], [4, 5, 6]]), False),
    (np.array([[1.0, 2.0], [3.0, -1.0]]), True),
]


def instructions(*names: str) -> st.SearchStrategy:
    small = st.integers(0, 7)
    return st.builds(Instruction, st.sampled_from(names), small, small, small, small, small)


def programs(length: int = 10) -> st.SearchStrategy:
    one = st.one_of(*(instructions(*group) for group in (VIEWS, VIEWS, INPLACE, ARITHMETIC, AUTOGRAD)))
    return st.lists(one, min_size=2, max_size=length)


@settings(max_examples=PROGRAMS)
@given(programs())
def test_random_programs(program):
    run(program)


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_every_instruction_can_succeed(name):
    """No name is so mistyped that both libraries merely agree on refusing it."""

    def works(i: Instruction) -> bool:
        m = Machine(torch)
        m.start()
        return m.step(i) is None

    tensors = range(2 * len(LEAVES))
    assert any(works(Instruction(name, a, b, p, 1, 1)) for a in tensors for b in tensors for p in range(3))
