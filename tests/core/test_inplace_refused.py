"""In-place changes that are refused, with PyTorch's messages, and views that cannot follow their base."""

import pytest
from both import agree, attempt
from history_kit import double, leaf, message, no_grad

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
    "view of a constant in no_grad takes history": lambda t, x: no_grad(t, lambda: double(t, 2, 3)[0]).add_(x[0]),
    "view of a constant in no_grad": lambda t, x: no_grad(t, lambda: double(t, 2, 3)[0]).add_(1),
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
    "expanded, set slice": lambda t, x: double(t, 1, 3).expand(2, 3).__setitem__(slice(None), 2),
    "expanded, set all to a scalar": lambda t, x: double(t, 1, 3).expand(2, 3).__setitem__(..., t.tensor(2.0)),
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
