"""How in-place changes rewrite history: bases, views, views of views, and what is refused."""

import re

import pytest
from both import agree, attempt


def double(t, *shape):
    """1, 2, ... in double precision."""
    n = 1
    for s in shape:
        n *= s
    return t.arange(1.0, n + 1, dtype=t.float64).reshape(shape).clone()


def leaf(t, *shape):
    return double(t, *shape).requires_grad_()


def message(f):
    """What an error says (without the operator's name, which only one library tells), or the result."""
    got = attempt(f)
    if not isinstance(got, Exception):
        return got
    text = re.sub(r" \((in )?\w+\)(?=\.?$)", "", f"{type(got).__name__}: {got}")
    return re.sub(r", which is output 0 of (Select|AsStrided),", "", text)


def graph(node, depth=6):
    """The names below a node, nested."""
    if node is None or not depth:
        return None
    name = node.name().rpartition(":")[2]
    return name, [(graph(n, depth - 1), i) for n, i in node.next_functions if n is not None]


def tell(*tensors):
    """What autograd says of tensors."""
    return [
        (graph(x.grad_fn), x.requires_grad, x.is_leaf, x.output_nr, x._version, x._is_view(), x.detach().clone())
        for x in tensors
    ]


def no_grad(t, f):
    with t.no_grad():
        return f()


def square(*tensors):
    """A scalar of all the tensors, in which every element counts differently."""
    total = 0
    for i, x in enumerate(tensors):
        total = total + (x * x).abs().sum() * (i + 1)
    return total


# -- (t, leaf) -> tensors: their history is compared, then the leaf's gradient of their squares -------

HISTORIES = {
    "base, then its view": lambda t, x: (y := x * 2, v := y[0], y.mul_(3)) and (y, v),
    "view, then its base": lambda t, x: (y := x * 2, v := y[0], v.mul_(3)) and (y, v),
    "base before the view": lambda t, x: (y := x * 2, y.mul_(3), v := y[0]) and (y, v),
    "two views, the first": lambda t, x: (y := x * 2, v := y[0], w := y[:, 0], v.mul_(3)) and (y, v, w),
    "two views, both": lambda t, x: (y := x * 2, v := y[0], w := y[:, 0], v.mul_(3), w.exp_()) and (y, v, w),
    "view of a view": lambda t, x: (y := x * 2, v := y.t(), w := v[0], w.mul_(3)) and (y, v, w),
    "view of a view, the middle": lambda t, x: (y := x * 2, v := y.t(), w := v[0], v.mul_(3)) and (y, v, w),
    "view of a view, the base": lambda t, x: (y := x * 2, v := y.t(), w := v[0], y.mul_(3)) and (y, v, w),
    "all three": lambda t, x: (y := x * 2, v := y.t(), w := v[0], y.mul_(3), w.mul_(2), v.sin_()) and (y, v, w),
    "base, view, base": lambda t, x: (y := x * 2, v := y[1], y.mul_(2), v.mul_(3), y.mul_(4)) and (y, v),
    "view twice": lambda t, x: (y := x * 2, v := y[1], v.mul_(3), v.add_(x[0])) and (y, v),
    "a view by its sibling": lambda t, x: (y := x * 2, v := y[0], w := y[1], v.mul_(w)) and (y, v, w),
    "a view by its base's sum": lambda t, x: (y := x * 2, v := y[0], v.mul_(y.sum())) and (y, v),
    "a view takes a constant": lambda t, x: (y := x * 2, v := y[0], v.copy_(double(t, 3))) and (y, v),
    "a view becomes zero": lambda t, x: (y := x * 2, v := y[0], v.zero_()) and (y, v),
    "a base becomes zero": lambda t, x: (y := x * 2, v := y[0], y.zero_()) and (y, v),
    "a base becomes zero, its view changes": lambda t, x: (y := x * 2, v := y[0], y.zero_(), v.add_(1)) and (y, v),
    "a constant takes history": lambda t, x: (y := double(t, 2, 3), v := y[0], y.mul_(x)) and (y, v),
    "a view of a constant takes history": lambda t, x: (y := double(t, 2, 3), v := y[0], v.mul_(x[0])) and (y, v),
    "a deep view of a constant": lambda t, x: (y := double(t, 2, 3), v := y.t(), v[1].add_(x[:, 0])) and (y, v),
    "a constant's sibling view": lambda t, x: (
        y := double(t, 2, 3), v := y[0], w := y[1], v.copy_(x[0])) and (y, v, w),
    "copy with broadcast": lambda t, x: (y := double(t, 2, 3), y.copy_(x[0])) and (y,),
    "copy from single": lambda t, x: (y := double(t, 2, 3), y.copy_(x.float())) and (y,),
    "copy into a view": lambda t, x: (y := double(t, 2, 3), y[:, 1:].copy_(x[:, :2])) and (y,),
    "copy itself": lambda t, x: (y := x * 2, y.copy_(y)) and (y,),
    "set item number": lambda t, x: (y := x * 2, y.__setitem__(0, 5.0)) and (y,),
    "set item tensor": lambda t, x: (y := x * 2, y.__setitem__(0, x[1])) and (y,),
    "set item scalar tensor": lambda t, x: (y := x * 2, y.__setitem__(0, x.sum())) and (y,),
    "set item of a constant": lambda t, x: (y := double(t, 2, 3), y.__setitem__((slice(None), 0), x[:, 1])) and (y,),
    "set item everywhere": lambda t, x: (y := double(t, 2, 3), y.__setitem__(..., x)) and (y,),
    "set item by mask": lambda t, x: (y := x * 2, y.__setitem__(y > 4, 1.0)) and (y,),
    "set item by mask, tensor": lambda t, x: (y := x * 2, y.__setitem__(y > 4, x.sum())) and (y,),
    "set item by list": lambda t, x: (y := x * 2, y.__setitem__([0], x[1])) and (y,),
    "set item by list of a view": lambda t, x: (y := x * 2, y.t().__setitem__([0], x[:, 1])) and (y,),
    "set item mixed": lambda t, x: (y := x * 2, y.__setitem__((slice(1, None), [0, 2]), x[1, :2])) and (y,),
    "augmented item": lambda t, x: (y := x * 2, y.__setitem__(0, y[0].__iadd__(1))) and (y,),
    "rows in a loop": lambda t, x: (y := x * 2, [y.__setitem__(i, y[i] * x[1 - i]) for i in range(2)]) and (y,),
    "relu in place": lambda t, x: (y := x - 3, t.nn.functional.relu(y, inplace=True)) and (y,),
    "relu_ of a view": lambda t, x: (y := x - 3, y[1].relu_()) and (y,),
    "index_add_": lambda t, x: (y := x * 2, y.index_add_(0, t.tensor([1, 1]), x)) and (y,),
    "index_copy_": lambda t, x: (y := x * 2, y.index_copy_(0, t.tensor([1]), x[:1])) and (y,),
    "index_fill_": lambda t, x: (y := x * 2, y.index_fill_(0, t.tensor([1]), 3.0)) and (y,),
    "index_put_ accumulating": lambda t, x: (
        y := x * 2, y.index_put_((t.tensor([1, 1]),), x, accumulate=True)) and (y,),
    "scatter_": lambda t, x: (y := x * 2, y.scatter_(0, t.tensor([[1, 0, 1], [0, 1, 0]]), x)) and (y,),
    "scatter_add_": lambda t, x: (y := x * 2, y.scatter_add_(0, t.tensor([[1, 0, 1], [0, 0, 0]]), x)) and (y,),
    "masked_fill_ tensor": lambda t, x: (y := x * 2, y.masked_fill_(y > 4, x.sum())) and (y,),
    "masked_scatter_": lambda t, x: (y := x * 2, y.masked_scatter_(y > 4, x * 3)) and (y,),
    "fill_ of a view with history": lambda t, x: (y := x * 2, y[0].fill_(x.sum())) and (y,),
    "expanded view of a constant": lambda t, x: (y := double(t, 3), y.mul_(x[0]), v := y.expand(2, 3)) and (y, v),
    "base of an expanded view": lambda t, x: (y := x[0] * 2, v := y.expand(2, 3), y.mul_(3)) and (y, v),
    "unsqueezed": lambda t, x: (y := x * 2, v := y.unsqueeze(0), v.mul_(3)) and (y, v),
    "flat view": lambda t, x: (y := x * 2, v := y.view(-1), v[1:4].mul_(3)) and (y, v),
    "reshape that aliases": lambda t, x: (y := x * 2, v := y.reshape(3, 2), v.mul_(3)) and (y, v),
    "reshape that copies": lambda t, x: (y := x * 2, v := y.t().reshape(6), v.mul_(3)) and (y, v),
    "flatten": lambda t, x: (y := x * 2, v := y.flatten(), v.mul_(3)) and (y, v),
    "diagonal": lambda t, x: (y := x * 2, y.diagonal().mul_(3)) and (y,),
    "as_strided": lambda t, x: (y := x * 2, y.as_strided((2, 2), (2, 1)).mul_(3)) and (y,),
    "as_strided of a view": lambda t, x: (y := x * 2, y[1].as_strided((2,), (1,), 1).mul_(3)) and (y,),
    "unfold without overlap": lambda t, x: (y := x * 2, y.view(6).unfold(0, 2, 2).mul_(3)) and (y,),
    "movedim": lambda t, x: (y := x * 2, y.movedim(0, 1)[1].mul_(3)) and (y,),
    "narrow": lambda t, x: (y := x * 2, y.narrow(1, 1, 2).mul_(3)) and (y,),
    "a step of a slice": lambda t, x: (y := x * 2, y[:, ::2].mul_(3)) and (y,),
    "through detach": lambda t, x: (y := x + 2, y.detach().mul_(3)) and (y,),
    "through data": lambda t, x: (y := x + 2, y.data.mul_(3)) and (y,),
    "in no_grad": lambda t, x: (y := x + 2, v := y[0], no_grad(t, lambda: y.mul_(3))) and (y, v),
    "a view in no_grad": lambda t, x: (y := x + 2, v := y[0], no_grad(t, lambda: v.mul_(3))) and (y, v),
    "a constant in no_grad takes history": lambda t, x: (
        y := double(t, 2, 3), no_grad(t, lambda: y.copy_(x))) and (y, x),
    "alias by dots": lambda t, x: (y := x * 2, v := y[...], v.mul_(3)) and (y, v),
    "alias by view_as": lambda t, x: (y := x * 2, v := y.view_as(y), v.mul_(3)) and (y, v),
    "complex parts": lambda t, x: (y := t.complex(x, x * 2), y.real.mul_(3)) and (t.view_as_real(y),),
    "view_as_real": lambda t, x: (y := t.complex(x, x * 2), t.view_as_real(y)[0].mul_(3)) and (t.view_as_real(y),),
    "view_as_complex": lambda t, x: (y := x[:, :2] * 2, t.view_as_complex(y.view(2, 1, 2)).mul_(1 + 2j)) and (y,),
    "conj": lambda t, x: (y := t.complex(x, x * 2), y.conj().mul_(1j)) and (t.view_as_real(y),),
    "matrix product in place": lambda t, x: (y := x * 2, y.addmm_(x @ x.t(), x)) and (y,),
    "lerp_": lambda t, x: (y := x * 2, y.lerp_(x, 0.25)) and (y,),
    "addcdiv_": lambda t, x: (y := x * 2, y.addcdiv_(x, x + 1)) and (y,),
    "pow_": lambda t, x: (y := x * 2, y.pow_(2)) and (y,),
    "pow_ tensor": lambda t, x: (y := x * 2, y.pow_(x / 4)) and (y,),
    "tril_": lambda t, x: (y := x * 2, y.tril_()) and (y,),
    "cumsum_": lambda t, x: (y := x * 2, y.cumsum_(1)) and (y,),
    "clamp_ by tensors": lambda t, x: (y := x * 2, y.clamp_(max=x[0])) and (y,),
    "sort of a view then in place": lambda t, x: (y := x * 2, v := y[0].sort()[0], v.mul_(3)) and (y, v),
    "renamed by requires_grad_": lambda t, x: (y := (x * 2).detach().requires_grad_(), z := y * 2, z.mul_(y)) and (z,),
    "dropout with p 0": lambda t, x: (y := x * 2, t.nn.functional.dropout(y, 0.0, inplace=True)) and (y,),
    "hardtanh": lambda t, x: (y := x - 3, t.nn.functional.hardtanh(y, -1, 1, inplace=True)) and (y,),
    "unsafe_chunk": lambda t, x: (y := x * 2, parts := y.unsafe_chunk(3, 1), parts[1].mul_(3)) and (parts[1], parts[0]),
    "unsafe_split": lambda t, x: (y := x * 2, parts := y.unsafe_split(1), parts[1].mul_(3)) and (parts[1], parts[0]),
    "unsafe_split_with_sizes": lambda t, x: (
        y := x * 2, parts := y.unsafe_split_with_sizes([1, 2], 1), parts[1].mul_(3)) and (parts[1], parts[0]),
    "split, then a copy": lambda t, x: (y := x * 2, c := y.split(1)[1].clone(), c.mul_(3)) and (y, c),
    "unbind, none changed": lambda t, x: (y := x * 2, a := y.unbind(0)) and (y, *a),
    "squeeze_": lambda t, x: (y := (x * 2)[None], z := y.clone(), z.squeeze_(0), z.mul_(3)) and (z,),
    "unsqueeze_": lambda t, x: (y := x * 2, y.unsqueeze_(0), y.mul_(3)) and (y,),
    "t_": lambda t, x: (y := x * 2, y.t_(), y.mul_(3)) and (y,),
    "t_ twice": lambda t, x: (y := x * 2, y.t_(), y[0].mul_(3), y.t_(), y[0].mul_(5)) and (y,),
    "transpose_ with a view alive": lambda t, x: (y := x * 2, v := y[0], y.transpose_(0, 1), y.mul_(3)) and (y, v),
    "transpose_, then a view": lambda t, x: (y := x * 2, y.transpose_(0, 1), v := y[0], v.mul_(3)) and (y, v),
    "transpose_, then view before": lambda t, x: (y := x * 2, v := y[0], y.transpose_(0, 1), v.mul_(3)) and (y, v),
    "transpose_ of a view": lambda t, x: (y := x * 2, v := y[:, :2], v.transpose_(0, 1), v.mul_(3)) and (y, v),
    "transpose_ of a view, base changes": lambda t, x: (
        y := x * 2, v := y[:, :2], v.transpose_(0, 1), y.mul_(3)) and (y, v),
    "swapaxes_": lambda t, x: (y := x * 2, y.swapaxes_(0, 1), y[0].mul_(3)) and (y,),
    "as_strided_": lambda t, x: (y := x * 2, y.as_strided_((2, 2), (1, 2)), y.mul_(3)) and (y,),
    "unsqueeze_ of a constant, then history": lambda t, x: (
        y := double(t, 2, 3), y.unsqueeze_(0), y.mul_(x)) and (y,),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_history(name):
    def f(t):
        x = leaf(t, 2, 3)
        tensors = HISTORIES[name](t, x)
        told = tell(*tensors)
        return told, message(lambda: (square(*tensors).backward(), x.grad)[1])

    agree(f)


@pytest.mark.parametrize("name", [name for name in HISTORIES if not name.startswith("a base becomes zero")])
def test_second_derivatives(name):
    def f(t):
        x = leaf(t, 2, 3)

        def run():
            tensors = HISTORIES[name](t, x)
            (first,) = t.autograd.grad((square(*tensors) ** 2) / 1000, x, create_graph=True)
            return first.detach(), t.autograd.grad((first * first).sum() / 1000, x)

        return message(run)

    agree(f)


# -- refused -------------------------------------------------------------------------------------------

REFUSED = {
    "leaf": lambda t, x: x.add_(1),
    "leaf by operator": lambda t, x: x.__imul__(2),
    "leaf set item": lambda t, x: x.__setitem__(0, 1),
    "leaf set item tensor": lambda t, x: x.__setitem__(0, double(t, 3)),
    "leaf set item list": lambda t, x: x.__setitem__([0], 1.0),
    "leaf set item mask": lambda t, x: x.__setitem__(x.detach() > 2, 1.0),
    "leaf set item with history": lambda t, x: x.__setitem__(0, x.sum()),
    "leaf zero_": lambda t, x: x.zero_(),
    "leaf fill_": lambda t, x: x.fill_(1),
    "leaf copy_": lambda t, x: x.copy_(double(t, 2, 3)),
    "leaf normal_": lambda t, x: x.normal_(),
    "leaf uniform_": lambda t, x: x.uniform_(),
    "leaf masked_fill_": lambda t, x: x.masked_fill_(x.detach() > 2, 0.0),
    "leaf clamp_": lambda t, x: x.clamp_(0, 1),
    "leaf relu_": lambda t, x: x.relu_(),
    "leaf relu inplace": lambda t, x: t.nn.functional.relu(x, inplace=True),
    "leaf logical_not_": lambda t, x: x.logical_not_(),
    "leaf logical_and_": lambda t, x: x[0].logical_and_(x[1]),
    "leaf t_": lambda t, x: x.t_(),
    "leaf transpose_": lambda t, x: x.transpose_(0, 1),
    "leaf squeeze_": lambda t, x: x.squeeze_(),
    "leaf unsqueeze_": lambda t, x: x.unsqueeze_(0),
    "leaf as_strided_": lambda t, x: x.as_strided_((2,), (1,)),
    "leaf resize_": lambda t, x: x.resize_(3),
    "leaf resize_ to the same": lambda t, x: x.resize_(2, 3),
    "leaf resize_as_": lambda t, x: x.resize_as_(double(t, 4)),
    "leaf set_": lambda t, x: x.set_(double(t, 4)),
    "computed resize_": lambda t, x: (x * 2).resize_(3),
    "computed resize_as_": lambda t, x: (x * 2).resize_as_(double(t, 4)),
    "computed set_": lambda t, x: (x * 2).set_(double(t, 4)),
    "view of leaf": lambda t, x: x[0].add_(1),
    "view of leaf zero_": lambda t, x: x[0].zero_(),
    "view of leaf set item": lambda t, x: x[0].__setitem__(0, 1),
    "view of view of leaf": lambda t, x: x.t()[0].add_(1),
    "flat view of leaf": lambda t, x: x.view(-1).add_(1),
    "detached_ view": lambda t, x: x[0].detach_(),
    "detached_ view of a constant": lambda t, x: double(t, 2)[0].detach_(),
    "view of a leaf in no_grad": lambda t, x: no_grad(t, lambda: x[0]).add_(1),
    "view of a computed in no_grad": lambda t, x: no_grad(t, lambda y=x * 2: y[0]).add_(1),
    "view in no_grad of a view": lambda t, x: no_grad(t, lambda y=(x * 2)[0]: y[0]).add_(1),
    "view of a view in no_grad": lambda t, x: no_grad(t, lambda y=x * 2: y[0])[0].add_(1),
    "view of a constant in no_grad takes history": lambda t, x: no_grad(t, lambda y=double(t, 2, 3): y[0]).add_(x[0]),
    "view of a constant in no_grad": lambda t, x: no_grad(t, lambda y=double(t, 2, 3): y[0]).add_(1),
    "split": lambda t, x: (x * 2).split(1)[0].add_(1),
    "split with sizes": lambda t, x: (x * 2).split([1, 1])[1].add_(1),
    "split_with_sizes": lambda t, x: (x * 2).split_with_sizes([1, 1])[1].add_(1),
    "chunk": lambda t, x: (x * 2).chunk(3, 1)[2].mul_(2),
    "tensor_split": lambda t, x: (x * 2).tensor_split(3, 1)[2].mul_(2),
    "hsplit": lambda t, x: (x * 2).hsplit(3)[2].mul_(2),
    "vsplit": lambda t, x: (x * 2).vsplit(2)[1].mul_(2),
    "unbind": lambda t, x: (x * 2).unbind(0)[1].mul_(2),
    "iteration": lambda t, x: [row.mul_(2) for row in x * 2],
    "unbind of a leaf": lambda t, x: x.unbind(0)[0].mul_(2),
    "split of a leaf": lambda t, x: x.split(1)[0].mul_(2),
    "view of unbind": lambda t, x: (x * 2).unbind(0)[1][1:].mul_(2),
    "unbind of a view": lambda t, x: (x * 2).t().unbind(0)[1].mul_(2),
    "unbind of unbind": lambda t, x: (x * 2).unbind(0)[1].unbind(0)[0].mul_(2),
    "unbind of a constant takes history": lambda t, x: double(t, 2, 3).unbind(0)[0].mul_(x[0]),
    "unbind of a constant": lambda t, x: double(t, 2, 3).unbind(0)[0].mul_(2),
    "set item of an unbind": lambda t, x: (x * 2).unbind(0)[0].__setitem__(0, 1),
    "split in no_grad": lambda t, x: no_grad(t, lambda y=x * 2: y.split(1)[0]).add_(1),
    "split of no_grad view": lambda t, x: no_grad(t, lambda y=x * 2: y[0]).split(1)[0].add_(1),
    "t_ of an unbind": lambda t, x: (x * 2)[None].unbind(0)[0].t_(),
    "t_ of a no_grad view": lambda t, x: no_grad(t, lambda y=x * 2: y[:1]).t_(),
    "t_ of a view of a leaf": lambda t, x: x[:1].t_(),
    "expanded": lambda t, x: (x * 2)[:1].expand(2, 3).add_(1),
    "expanded constant": lambda t, x: double(t, 1, 3).expand(2, 3).add_(1),
    "expanded, copy_": lambda t, x: double(t, 1, 3).expand(2, 3).copy_(double(t, 2, 3)),
    "expanded, zero_": lambda t, x: double(t, 1, 3).expand(2, 3).zero_(),
    "expanded, fill_": lambda t, x: double(t, 1, 3).expand(2, 3).fill_(2),
    "expanded, set item": lambda t, x: double(t, 1, 3).expand(2, 3).__setitem__(0, 2),
    "expanded, set item tensor": lambda t, x: double(t, 1, 3).expand(2, 3).__setitem__(slice(None), double(t, 2, 3)),
    "expanded, index_add_": lambda t, x: double(t, 1, 3).expand(2, 3).index_add_(0, t.tensor([0]), double(t, 1, 3)),
    "expanded, index_copy_": lambda t, x: double(t, 1, 3).expand(2, 3).index_copy_(0, t.tensor([0]), double(t, 1, 3)),
    "expanded, scatter_": lambda t, x: double(t, 1, 3).expand(2, 3).scatter_(0, t.tensor([[0, 0, 0]]), 1.0),
    "expanded, clamp_": lambda t, x: double(t, 1, 3).expand(2, 3).clamp_(0, 1),
    "expanded, addmm_": lambda t, x: double(t, 1, 3).expand(2, 3).addmm_(double(t, 2, 2), double(t, 2, 3)),
    "expanded, one copy only": lambda t, x: double(t, 1, 3).expand(1, 3).add_(1),
    "expanded, a row of it": lambda t, x: double(t, 1, 3).expand(2, 3)[0].add_(1),
    "expanded out": lambda t, x: t.add(double(t, 2, 3), 1, out=double(t, 1, 3).expand(2, 3)),
    "overlapping out": lambda t, x: (y := double(t, 6), t.add(y[:4], 1, out=y[1:5])),
    "out is the input": lambda t, x: (y := double(t, 6), t.add(y[:4], 1, out=y[:4])) and y,
    "overlapping copy_": lambda t, x: (y := double(t, 6), y[:4].copy_(y[1:5])) and y,
    "overlapping add_": lambda t, x: (y := double(t, 6), y[:4].add_(y[1:5])) and y,
    "overlapping transposed mul_": lambda t, x: (y := double(t, 3, 3), y.mul_(y.t())) and y,
    "overlapping transposed copy_": lambda t, x: (y := double(t, 3, 3), y.copy_(y.t())) and y,
    "integers with grad": lambda t, x: double(t, 2).long().add_(x[0, :2]),
    "requires_grad_ of a computed": lambda t, x: (x * 2).requires_grad_(False),
    "requires_grad of a computed": lambda t, x: setattr(x * 2, "requires_grad", False),
    "requires_grad True of a computed": lambda t, x: (x * 2).requires_grad_(),
    "requires_grad of integers": lambda t, x: t.tensor([1]).requires_grad_(),
    "copy_ with more dimensions": lambda t, x: double(t, 2, 3).copy_(double(t, 1, 2, 3)),
    "copy_ with other sizes": lambda t, x: double(t, 2, 3).copy_(double(t, 2, 2)),
    "set item with more dimensions": lambda t, x: double(t, 2, 3).__setitem__(0, double(t, 1, 1, 3)),
    "set item with too many": lambda t, x: double(t, 2, 3).__setitem__(0, double(t, 2, 3)),
    "set item list with more dimensions": lambda t, x: double(t, 2, 3).__setitem__([0], double(t, 1, 1, 3)),
    "index_put_ of other dtype": lambda t, x: double(t, 2, 3).index_put_((t.tensor([0]),), t.tensor(1)),
    "out that requires grad": lambda t, x: t.add(double(t, 2, 3), 1, out=x),
    "out from one that requires grad": lambda t, x: t.add(x, 1, out=double(t, 2, 3)),
    "out computed": lambda t, x: t.mul(double(t, 2, 3), 1, out=x * 2),
    "out in no_grad": lambda t, x: no_grad(t, lambda: t.mul(x, 2, out=x)).requires_grad,
    "out of other dtype": lambda t, x: t.mul(double(t, 2), 1, out=t.tensor([1, 2])),
    "out that is resized": lambda t, x: t.mul(double(t, 2), 1, out=double(t, 5)),
    "multi-view resize_": lambda t, x: double(t, 2, 3).unbind(0)[0].resize_(1),
    "numpy of one that requires grad": lambda t, x: x.numpy(),
    "leaf index_add_": lambda t, x: x.index_add_(0, t.tensor([0]), double(t, 1, 3)),
    "leaf scatter_": lambda t, x: x.scatter_(0, t.tensor([[0, 0, 0]]), 1.0),
    "leaf index_fill_": lambda t, x: x.index_fill_(0, t.tensor([0]), 1.0),
    "leaf exponential_": lambda t, x: x.exponential_(),
    "leaf bernoulli_": lambda t, x: x.bernoulli_(),
    "leaf constant_ by init": lambda t, x: t.nn.init.constant_(x, 1.0).requires_grad,
    "leaf dropout": lambda t, x: t.nn.functional.dropout(x, 0.5, inplace=True),
    "leaf requires_grad_ off, changed": lambda t, x: x.requires_grad_(False).add_(1),
}


OTHER_WORDS = "requires_grad of integers", "set item with too many"


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    """The same message, and nothing has changed where it was refused."""

    def f(t):
        x = leaf(t, 2, 3)
        how = attempt if name in OTHER_WORDS else message
        return how(lambda: REFUSED[name](t, x)), x, x._version, x.grad_fn

    agree(f)


STALE = {
    "no_grad view of a base changed since": lambda t, y: no_grad(t, lambda: y[0]),
    "no_grad view of a view": lambda t, y: no_grad(t, lambda: y.t()[0]),
    "split": lambda t, y: y.split(1)[0],
    "unbind": lambda t, y: y.unbind(0)[1],
    "view of unbind": lambda t, y: y.unbind(0)[1][1:],
    "chunk": lambda t, y: y.chunk(2, 1)[1],
}


@pytest.mark.parametrize("name", STALE)
def test_views_that_cannot_follow_their_base(name):
    def f(t):
        x = leaf(t, 2, 3)
        y = x * 2
        v = STALE[name](t, y)
        before = message(lambda: v.grad_fn)
        y.mul_(3)
        uses = [lambda: v.grad_fn, lambda: v.add_(1), lambda: v * 2, lambda: v.detach(), lambda: v.requires_grad,
                lambda: v.is_leaf, lambda: v.sum().backward(), lambda: v.tolist(),
                lambda: no_grad(t, lambda: v + 1), lambda: v[0]]  # fmt: skip
        return before, [message(u) for u in uses], y

    agree(f)


# -- larger stories ------------------------------------------------------------------------------------


def story(f):
    """A test that ``f(t)`` returns the same on both libraries."""

    def test():
        agree(f)

    test.__name__ = "test_" + f.__name__
    globals()[test.__name__] = test
    return f


@story
def requires_grad_in_place(t):
    a, b = double(t, 2), leaf(t, 2)
    a += b
    c, d = double(t, 2) + 0, leaf(t, 2)
    c += d
    return a.requires_grad, a.is_leaf, c.requires_grad, tell(a, c)


@story
def a_constant_changed_before_it_requires_grad(t):
    a = double(t, 2)
    a.add_(5)
    a.requires_grad = True
    a.sum().backward()
    b = double(t, 2)
    view = b[:]
    view.add_(5)
    b.requires_grad = True
    b.sum().backward()
    return a.grad, b.grad, view.requires_grad, view.is_leaf, message(lambda: b.add_(5)), message(lambda: view.add_(5))


@story
def a_base_detached_keeps_its_views(t):
    x = leaf(t, 4, 4)
    view = x.narrow(0, 1, 2)
    x.detach_()
    facts = x.requires_grad, view.requires_grad, view.grad_fn is None, view._base is x, view.is_leaf
    return facts, message(lambda: view.detach_())


@story
def a_computed_base_detached(t):
    x = leaf(t, 4)
    y = x * 2
    view = y[:2]
    y.detach_()
    return [message(g) for g in (
        lambda: (y.requires_grad, view.requires_grad, graph(view.grad_fn)),
        lambda: view.mul_(2),
        lambda: (y, view, graph(view.grad_fn), y.requires_grad),
        lambda: view.sum().backward(),
        lambda: x.grad,
    )]  # fmt: skip


@story
def no_grad_assignment(t):
    x, y = leaf(t, 3, 3), double(t, 3)
    with t.no_grad():
        x[0] = y
    return x.requires_grad, x.grad_fn, x, x._version


@story
def a_view_made_and_changed_in_no_grad(t):
    x = leaf(t, 3, 3)
    with t.no_grad():
        v = x[0]
        v.add_(1)
        w = x.view(-1)
        w.mul_(2)
    return v.requires_grad, message(lambda: v.is_leaf), w.requires_grad, x, message(lambda: w.grad_fn), v._version


@story
def a_base_changed_with_history_then_views_made_before_in_no_grad(t):
    base = double(t, 2, 3)
    with t.no_grad():
        v = base[0]
    base.mul_(leaf(t, 2, 3))
    return base.requires_grad, [message(g) for g in (lambda: v.requires_grad, lambda: v.grad_fn, lambda: v * 2)]


@story
def the_old_grad_fn_stays_where_it_was(t):
    x = leaf(t, 3)
    y = x * 2
    before = y.grad_fn
    y.add_(1)
    return before is y.grad_fn, y.grad_fn.next_functions[0][0] is before, graph(y.grad_fn)


@story
def a_node_of_a_view_is_made_again(t):
    x = leaf(t, 2, 3)
    y = x * 2
    v = y[0]
    first = v.grad_fn
    y.mul_(2)
    second = v.grad_fn
    return first is second, second is v.grad_fn, graph(first), graph(second), v.output_nr


@story
def a_view_keeps_no_history_beyond_its_life(t):
    x = leaf(t, 2, 3)
    y = x * 2
    y[0].mul_(2)
    y[0].mul_(3)
    return graph(y.grad_fn), (y.sum().backward(), x.grad)[1]


@story
def retained_gradients_follow_in_place(t):
    x = leaf(t, 3)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    first = y.retains_grad
    y.retain_grad()
    (y * y).sum().backward()
    return first, y.retains_grad, y.grad, x.grad


@story
def retained_gradient_of_a_view_when_its_base_changes(t):
    x = leaf(t, 2, 3)
    y = x * 2
    v = y[0]
    v.retain_grad()
    y.retain_grad()
    y.mul_(3)
    facts = v.retains_grad, y.retains_grad
    (y.sum() + (v * v).sum()).backward()
    return facts, y.grad, v.grad, x.grad, v.retains_grad


@story
def retained_gradient_of_a_base_when_its_view_changes(t):
    x = leaf(t, 2, 3)
    y = x * 2
    y.retain_grad()
    v = y[0]
    v.mul_(3)
    v.retain_grad()
    (y * y).sum().backward()
    return y.retains_grad, v.retains_grad, y.grad, v.grad, x.grad


@story
def retained_gradient_then_hooks(t):
    x, seen = leaf(t, 2), []
    y = x * 2
    y.register_hook(lambda g: seen.append(("a", g.tolist())))
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("b", g.tolist())))
    y.sum().backward()
    return seen, y.grad, x.grad


@story
def hooks_of_a_tensor_before_in_place(t):
    x, seen = leaf(t, 2), []
    y = x * 2
    y.register_hook(lambda g: seen.append(("before", g.tolist())))
    y.add_(1).mul_(5)
    y.register_hook(lambda g: seen.append(("after", g.tolist())))
    y.sum().backward()
    return seen, x.grad


@story
def hooks_of_a_view_before_its_base_changes(t):
    x, seen = leaf(t, 2, 2), []
    y = x * 2
    v = y[0]
    v.register_hook(lambda g: seen.append(("view", g.tolist())))
    y.register_hook(lambda g: seen.append(("base", g.tolist())))
    y.mul_(3)
    (v.sum() + y.sum()).backward()
    return seen, x.grad


@story
def hooks_of_a_base_before_its_view_changes(t):
    x, seen = leaf(t, 2, 2), []
    y = x * 2
    y.register_hook(lambda g: seen.append(("base", g.tolist())))
    v = y[0]
    v.mul_(3)
    y.register_hook(lambda g: seen.append(("base after", g.tolist())))
    v.register_hook(lambda g: seen.append(("view after", g.tolist())))
    (y * y).sum().backward()
    return seen, x.grad


@story
def hooks_on_a_leaf_that_becomes_computed(t):
    x, seen = leaf(t, 2), []
    buffer = double(t, 2).requires_grad_()
    buffer.register_hook(lambda g: seen.append(g.tolist()))
    got = message(lambda: buffer.mul_(x))
    buffer.sum().backward()
    return got, seen


@story
def post_hooks_of_a_node_after_in_place(t):
    x, seen = leaf(t, 2), []
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: seen.append(("mul", go[0].tolist())))
    y.exp_()
    y.grad_fn.register_prehook(lambda go: seen.append(("exp", go[0].tolist())))
    y.sum().backward()
    return len(seen), [s[0] for s in seen]


@story
def gradient_of_a_part_that_was_overwritten(t):
    x = leaf(t, 3)
    y = x * 2
    y[0] = 0
    y[1] = y[2].clone() * 3
    return t.autograd.grad(y.sum(), x)


@story
def gradient_with_respect_to_an_old_version(t):
    x = leaf(t, 3)
    y = x * 2
    z = y.sum()
    y.mul_(3)
    return message(lambda: t.autograd.grad(z, y, allow_unused=True)), t.autograd.grad(y.sum(), x)


@story
def unused_part_of_a_base(t):
    x, buffer = leaf(t, 2), double(t, 4)
    buffer[1:3] = x
    part = buffer[3:]
    facts = part.requires_grad, graph(part.grad_fn)
    part.sum().backward()
    return facts, x.grad


@story
def copy_slices_edges(t):
    x, w = leaf(t, 3), leaf(t, 3)
    base = x * 1
    view = base[1:]
    view.mul_(w[1:])
    (view * 2).sum().backward()
    return tell(base, view), x.grad, w.grad


@story
def as_strided_of_gradient_needs_no_contiguity(t):
    x = leaf(t, 2, 3)
    y = (x * 1).t()
    base = y.clone()
    base[0].mul_(2)
    (base.t() * double(t, 2, 3)).sum().backward()
    return x.grad, base.stride()


@story
def views_of_a_constant_made_to_require_grad_by_a_view(t):
    base = double(t, 3, 3)
    row, column = base[0], base[:, 0]
    other = leaf(t, 3)
    row.mul_(other)
    facts = tell(base, row, column)
    (column * column).sum().backward()
    return facts, other.grad


@story
def view_of_a_view_writes_to_the_base_s_history(t):
    root = leaf(t, 2, 2)
    x = root.clone()
    v1 = x.narrow(0, 0, 1)
    v2 = v1.narrow(1, 1, 1)
    v2.mul_(2)
    x.sum().backward()
    return root.grad, graph(x.grad_fn)


@story
def backward_through_a_view_of_a_view(t):
    a, b = double(t, 2, 2), leaf(t, 2)
    v1 = a.narrow(0, 0, 1)
    v2 = v1.narrow(1, 0, 1)
    v2.mul_(b[:1].view(1, 1))
    v1.sum().backward()
    return a.requires_grad, b.grad


@story
def backward_of_a_view_without_gradient_to_itself(t):
    a, b = double(t, 2, 2), leaf(t, 2, 2)
    x = a.clone()
    x[0].copy_(b[1])
    x[1].sum().backward()
    return b.grad


@story
def in_place_on_a_view_with_no_gradient_for_the_view(t):
    a = leaf(t, 1)
    c = a.clone()
    v = c[:]
    b = t.tensor(1.0, requires_grad=True, dtype=t.float64)
    v.mul_(b)
    c.sum().backward()
    return b.grad, a.grad


@story
def in_place_then_no_grad(t):
    a = leaf(t, 3, 3)
    b = a.clone()
    v = b[0]
    with t.no_grad():
        v.zero_()
    return message(lambda: graph(v.grad_fn)), graph(b.grad_fn), (b.sum().backward(), a.grad)[1]


@story
def in_place_cross_dtype(t):
    a = double(t, 3).to(t.complex128).requires_grad_()
    base = a.clone()
    b = t.view_as_real(base).transpose(0, 1)
    b += 1
    b.backward(t.arange(0, 6, dtype=t.float64).view(2, 3))
    again = a.detach().clone().requires_grad_()
    c = again.clone()
    c.add_(0.5 + 1j)
    return b.grad_fn, base.grad_fn, a.grad, again.grad_fn


@story
def undefined_gradient_of_an_output(t):
    a = leaf(t, 2)
    c = a.clone()
    v = c[:]
    v.add_(1)
    d = t.autograd.grad(v.sum(), a, retain_graph=True)
    return d, graph(v.grad_fn), graph(c.grad_fn)


@story
def other_dtype_views(t):
    x = leaf(t, 2)
    y = x * 2
    v = y.view(t.int64)
    facts = v.requires_grad, v._is_view(), v._base is y, v.is_leaf, v._version
    v.bitwise_and_(-1)
    return facts, y._version, attempt(lambda: v.requires_grad_()), graph(y.grad_fn), y


@story
def other_dtype_view_of_a_constant(t):
    x = double(t, 2)
    v = x.view(t.int64)
    v.zero_()
    w = x.view(t.float32)
    w.add_(1)
    return x, v, w, x._version, v._is_view(), w._is_view(), w.shape, v._base is x, w.requires_grad


@story
def detached_aliases_and_history(t):
    x = leaf(t, 3)
    y = x + 1
    d = y.detach()
    d.mul_(10)
    d.requires_grad_()
    e = y.data
    e.add_(1)
    (y * 2).sum().backward()
    return x.grad, y, d._version, e._version, y._version, d.is_leaf, d._is_view(), d._base


@story
def detach_is_a_view_of_nothing(t):
    x = leaf(t, 2, 3)
    d = x.detach()
    v = x[0].detach()
    w = x[0].data
    return [(z._is_view(), z._base is None, z.requires_grad, z.is_leaf) for z in (d, v, w, d[0], x[0])]


@story
def base_of_views(t):
    x = double(t, 2, 3)
    a, b = x[0], x.t()[0]
    return [v._base is x for v in (a, b, a[1:], x.detach()[0], x.data[0])], x._base, x.clone()._base


@story
def is_set_to(t):
    x = double(t, 2, 3)
    others = x, x.detach(), x.data, x[:], x.view(2, 3), x.view(3, 2), x.t(), x.clone(), x[0]
    return [x.is_set_to(o) for o in others], message(lambda: x.is_set_to(3))


@story
def set_and_resize(t):
    x, y = double(t, 2, 3), double(t, 4)
    view = x[0]
    x.set_(y)
    y.mul_(2)
    facts = x, view, x.data_ptr() == y.data_ptr(), x._version, y._version, x.is_set_to(y)
    z = double(t, 6)
    z.resize_(2, 2)
    z.mul_(10)
    z.resize_(6)
    return facts, z, z._version


@story
def set_data_keeps_history(t):
    x = leaf(t, 3)
    y = x * 2
    y.data = double(t, 2)
    return y.shape, graph(y.grad_fn), y.requires_grad, y.is_leaf


@story
def storage_facts(t):
    x = double(t, 2, 3)
    y = x.clone()
    s, v = x.untyped_storage(), x[1].untyped_storage()
    facts = s.data_ptr() == v.data_ptr(), s.data_ptr() == y.untyped_storage().data_ptr(), s.nbytes(), s.size(), len(s)
    offsets = x[1].data_ptr() - s.data_ptr(), x[1].storage_offset(), x.t()[1].storage_offset()
    typed = x.storage()
    return facts, offsets, typed.size(), typed.data_ptr() == s.data_ptr(), str(typed.dtype), s.device.type, type(s).__name__


@story
def storage_of_nothing(t):
    x = double(t, 2, 3)
    x.untyped_storage().resize_(0)
    return x.untyped_storage().size(), x.shape, x.data_ptr(), x.untyped_storage().nbytes()


@story
def names_of_in_place_nodes(t):
    x = leaf(t, 2, 3)
    made = []
    for change in (
        lambda y: y.add_(1), lambda y: y.mul_(2), lambda y: y.zero_(), lambda y: y.fill_(3), lambda y: y.copy_(x),
        lambda y: y.neg_(), lambda y: y.exp_(), lambda y: y.masked_fill_(y > 3, 0), lambda y: y.clamp_(0, 1),
        lambda y: y.index_put_((t.tensor([0]),), t.tensor(1.0, dtype=t.float64)), lambda y: y.t_(),
        lambda y: y.unsqueeze_(0), lambda y: y.squeeze_(), lambda y: y.transpose_(0, 1), lambda y: y.normal_(),
        lambda y: y.uniform_(), lambda y: y.bernoulli_(0.5), lambda y: y.pow_(2), lambda y: y.sub_(x),
        lambda y: y.div_(x), lambda y: y.relu_(), lambda y: y.sigmoid_(), lambda y: y.tanh_(), lambda y: y.sqrt_(),
        lambda y: y.round_(), lambda y: y.sign_(), lambda y: y.floor_(), lambda y: y.remainder_(2),
        lambda y: y.scatter_(0, t.tensor([[0]]), 1.0), lambda y: y.index_fill_(0, t.tensor([0]), 1.0),
        lambda y: y.as_strided_((2,), (1,)), lambda y: y.swapaxes_(0, 1), lambda y: y.__setitem__(0, 1),
        lambda y: y[0].zero_(), lambda y: y.random_(), lambda y: y.exponential_(), lambda y: y.gt_(2),
        lambda y: y.eq_(2), lambda y: y.logical_not_(), lambda y: y.squeeze_(0), lambda y: y.squeeze_((0,)),
    ):  # fmt: skip
        y = x * 2
        made.append(message(lambda: (change(y), graph(y.grad_fn), y.requires_grad)[1:]))  # noqa: B023
    return made


@story
def sequence_numbers_grow(t):
    x = leaf(t, 2)
    y = x * 2
    a = y.grad_fn._sequence_nr()
    y.add_(1)
    b = y.grad_fn._sequence_nr()
    y[0].mul_(2)
    return a < b < y.grad_fn._sequence_nr()


@story
def in_place_between_backwards(t):
    x = leaf(t, 3)
    y = x * 2
    (y + 1).sum().backward(retain_graph=True)
    y.mul_(5)
    (y + 1).sum().backward()
    return x.grad


@story
def parameters_updated_by_hand(t):
    w = leaf(t, 3)
    for _ in range(3):
        loss = ((w * 2 - 1) ** 2).sum()
        loss.backward()
        with t.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
    return w, w._version, w.grad, w.is_leaf, w.grad._version


@story
def parameters_updated_through_data(t):
    w = leaf(t, 3)
    for _ in range(3):
        loss = ((w * 2 - 1) ** 2).sum()
        loss.backward()
        w.data.sub_(w.grad * 0.1)
        w.grad.data.zero_()
    return w, w._version, w.grad, w.is_leaf, w.grad._version
