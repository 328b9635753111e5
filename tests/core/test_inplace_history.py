"""How in-place changes rewrite history: bases, views, views of views."""

import pytest
from both import agree
from history_kit import double, leaf, message, no_grad, square, tell

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
