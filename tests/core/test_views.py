"""Views: aliasing in every direction, layout, versions, history, and what is refused."""

import itertools

import numpy as np
import pytest
from both import agree, agree_error, attempt
from oracle import check

import torchlike

VIEWS = {
    "select": lambda x: x.select(0, -1),
    "slice": lambda x: x[1:],
    "steps": lambda x: x[..., ::2],
    "transpose": lambda x: x.transpose(0, -1),
    "permute": lambda x: x.permute(*range(1, x.dim()), 0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "view": lambda x: x.reshape(-1, 2) if x.is_contiguous() else x.mT,
    "unfold": lambda x: x.unfold(-1, 2, 2),
    "diagonal": lambda x: x.diagonal(0, 0, -1),
    "chunk": lambda x: x.chunk(2, -1)[-1],
    "narrow": lambda x: x.narrow(-1, 0, 1),
    "squeeze": lambda x: x[:1].squeeze(0),
}
# Each view at each depth, among ever other neighbours; not all 12 ** 3.
CHAINS = [c for n, c in enumerate(itertools.product(VIEWS, VIEWS, VIEWS)) if n % 67 == 0 and c[0] != "select" != c[1]]


def number_tensor(t, *shape):
    return t.arange(float(np.prod(shape)), dtype=t.float64).reshape(shape).clone()


def geometry(x):
    return list(x.shape), x.stride(), x.storage_offset(), x.is_contiguous(), x._is_view()


@pytest.mark.parametrize("names", CHAINS, ids="-".join)
def test_chains_alias_in_every_direction(names):
    def f(t):
        chain = [number_tensor(t, 4, 4, 4)]
        for name in names:
            view = attempt(lambda: VIEWS[name](chain[-1]))  # noqa: B023
            if isinstance(view, Exception):
                return view
            chain.append(view)
        for n, alias in enumerate(chain):
            alias.mul_(n + 2)
            chain[-1 - n].add_(1)
        start = chain[0].data_ptr()
        return chain, [geometry(x) for x in chain], [x._version for x in chain], [x.data_ptr() - start for x in chain]

    agree(f)


@pytest.mark.parametrize("names", CHAINS[::4], ids="-".join)
def test_gradients_flow_through_chains_and_writes(names):
    def f(t):
        leaf = number_tensor(t, 4, 4, 4).requires_grad_()
        x = y = leaf * 1
        for name in names[:2]:
            y = attempt(lambda: VIEWS[name](y))  # noqa: B023
            if isinstance(y, Exception):
                return y
        z = attempt(lambda: y.mul_(3))
        if isinstance(z, Exception):
            return z
        (x * x).sum().backward()
        return leaf.grad, x.grad_fn, y.grad_fn, x._version

    agree(f)


SCRIPTS = {
    "siblings see each other's writes": lambda t, x: (x[0].add_(1), x[:, 0].mul_(2), x.t()[1].zero_(), x),
    "chunks": lambda t, x: ([c.add_(i) for i, c in enumerate(x.chunk(3, 1))], x),
    "an iterated tensor": lambda t, x: ([row.mul_(i) for i, row in enumerate(x)], x),
    "unbind of a view": lambda t, x: ([c.add_(1) for c in x.t()[1:].unbind(1)], x),
    "a view of nothing": lambda t, x: (x[1:1].add_(1), x[1:1].data_ptr(), x[3:].shape, x),
    "nothing, expanded": lambda t, x: (x[:, :0, None].expand(2, 0, 4).neg_(), x),
    "flatten shares, of a transpose copies": lambda t, x: (x.flatten().zero_(), x.t().flatten().add_(1), x),
    "view_as, expand_as": lambda t, x: (x[0].expand_as(x), x.view(2, 3).view_as(x).add_(1), x),
    "movedim, swapaxes": lambda t, x: (x.movedim(0, 1).add_(1), x.swapaxes(0, 1).mul_(2), x),
    "unflatten": lambda t, x: (x.unflatten(1, (3, 1)).add_(1), x),
    "tensor_split": lambda t, x: ([c.add_(i) for i, c in enumerate(x.tensor_split([1, 2], 1))], x),
    "overlapping windows are written last wins": lambda t, x: (x.view(-1).unfold(0, 2, 2).add_(1), x),
    "as_strided of a slice counts from the storage": lambda t, x: (x[1].as_strided((2, 2), (3, 1), 1).add_(9), x),
    "as_strided keeps the offset": lambda t, x: (x[1].as_strided((2,), (1,)), x[1, 1:].as_strided((2,), (1,))),
    "as_strided of as_strided": lambda t, x: (x.as_strided((2, 2), (3, 1)).as_strided((3,), (1,), 2).add_(1), x),
    "a view of as_strided": lambda t, x: (x.as_strided((2, 2), (1, 3)).t()[1].mul_(5), x),
    "detach of a view": lambda t, x: (x[1].detach().add_(1), x[1].detach()._is_view(), x._version, x),
    "views of a detached view": lambda t, x: (d := x[1].detach(), d[1:].add_(1), d[1:]._base is d, x),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_aliasing(name):
    agree(lambda t: SCRIPTS[name](t, number_tensor(t, 2, 3)))


def complex_tensor(t):
    return t.tensor([[1 + 2j, 3j], [2 - 1j, 4]], dtype=t.complex128)


COMPLEX_SCRIPTS = {
    "real and imag": lambda t, z: (z.real.add_(1), z.imag[0].zero_(), z),
    "view_as_real": lambda t, z: (t.view_as_real(z)[..., 0].mul_(2), t.view_as_real(z).stride(), z),
    "round trip": lambda t, z: (t.view_as_complex(t.view_as_real(z)).mul_(1j), z),
    "conj with other strides in place": lambda t, z: (z.conj().as_strided_((2,), (1,)), z.mH.as_strided_((2,), (1,))),
    "imag of a conjugate with other strides": lambda t, z: (z.conj().imag.as_strided_((2,), (1,)), z),
    "write to a strided conjugate": lambda t, z: (z.conj().as_strided((2,), (1,)).mul_(1j), z),
    "a strided conjugate's gradient": lambda t, z: (
        t.autograd.grad(((w := z.clone().requires_grad_()) * 1j).conj().as_strided((2,), (1,)).real.sum(), w)[0],
        t.autograd.grad((w.conj().detach().requires_grad_().as_strided((2,), (1,)) * w.flatten()[:2]).real.sum(), w)[0],
    ),
    "conj is a view": lambda t, z: (z.conj().add_(1j), z.conj()._is_view(), z),
    "real of a conjugate": lambda t, z: (z.conj().real.add_(1), z.mH, z),
    "layout": lambda t, z: [geometry(v) for v in (z.real, z.imag, z.t().imag, t.view_as_real(z.t()))],
    "as_strided of the real part": lambda t, z: (z.real.as_strided((2, 2), (1, 2), 1).mul_(2), z),
    "as_strided of a 0-dim part": lambda t, z: z[0, 0].detach().imag.as_strided((2,), (0,)),
    "bases": lambda t, z: (z.real._base is z, z.imag[0]._base is z, t.view_as_real(z)._base is z),
    "assignment to the parts": lambda t, z: (setattr(z, "real", z.imag.clone()), setattr(z, "imag", t.ones(2)), z),
}


@pytest.mark.parametrize("name", COMPLEX_SCRIPTS)
def test_complex_views(name):
    agree(lambda t: COMPLEX_SCRIPTS[name](t, complex_tensor(t)))


def test_other_dtypes_of_the_same_bits():
    def f(t):
        x = t.tensor([1.0, -2.0, 0.0, 3.5])
        bits, wide, small = x.view(t.int32), x.view(t.float64), x.view(t.uint8)
        bits[0] = 0x40490FDB
        small[4:8] = 0
        return x, bits, wide.shape, small.shape, bits._is_view(), bits._version, bits.data_ptr() == x.data_ptr()

    agree(f)


@pytest.mark.parametrize("name", ["view", "reshape", "t", "flatten", "slice", "expand", "diagonal", "as_strided"])
def test_gradients_of_views(name):
    forms = {
        "view": lambda x: x.view(6, 2),
        "reshape": lambda x: x.t().reshape(-1, 2),
        "t": lambda x: x.t(),
        "flatten": lambda x: x.flatten(),
        "slice": lambda x: x[1:, ::3],
        "expand": lambda x: x[:, None].expand(3, 2, 4),
        "diagonal": lambda x: x.diagonal(1),
        "as_strided": lambda x: x[1:].as_strided((3, 2), (2, 2), 1),
    }
    check(lambda t, x: forms[name](x) * forms[name](x), np.arange(12.0).reshape(3, 4))


def test_gradients_of_overlapping_and_aliased_as_strided():
    """Places read twice collect both gradients; an alias of a part receives what falls on it."""

    def f(t):
        whole = number_tensor(t, 3, 4)
        part = whole[1:].t().detach().requires_grad_()
        part.as_strided((2, 2), (4, 1), 2).sum().backward()
        leaf = t.ones(3, dtype=t.float64, requires_grad=True)
        leaf.expand(4, 3).as_strided((3,), (1,)).sum().backward()
        z = complex_tensor(t).requires_grad_()
        z.real.as_strided((2, 2), (1, 2), 1).sum().backward()
        return part.grad, part.grad.stride(), leaf.grad, z.grad

    agree(f)


def test_write_through_as_strided_of_an_alias():
    def f(t):
        whole = number_tensor(t, 3, 4)
        part = whole[1:].t().detach()
        factor = t.full((2, 2), 2.0, dtype=t.float64, requires_grad=True)
        view = part.as_strided((2, 2), (4, 1))
        view.mul_(factor)
        (part * part).sum().backward()
        return whole, part, view, factor.grad, view.grad_fn, part.grad_fn

    agree(f)


# -- versions ------------------------------------------------------------------------------------------


def test_versions_are_shared_by_views_and_detach_but_not_by_data():
    def f(t):
        x = number_tensor(t, 2, 2)
        view, detached, data = x[0], x.detach(), x.data
        data.add_(1)
        first = [a._version for a in (x, view, detached, data)]
        view.add_(1)
        detached.add_(1)
        with t.no_grad():
            x.add_(1)
        return first, [a._version for a in (x, view, detached, data, data[0], view.data)], x

    agree(f)


def test_setting_data():
    def f(t):
        x = number_tensor(t, 2, 2).requires_grad_()
        other = t.zeros(3, dtype=t.float64)
        x.data = other
        other.add_(1)
        return x, x._version, x.is_leaf, x.data_ptr() == other.data_ptr(), x.stride()

    agree(f)


def test_resize_and_set():
    def f(t):
        x = t.arange(6.0)
        view = x[1:3]
        seen = [(x.resize_(2, 2), x._version, view), (x.resize_(2, 2), x._version), (view.resize_(2, 1), view.stride())]
        other, taken = number_tensor(t, 2, 2), t.zeros(3, dtype=t.float64)
        part = taken[1:]
        taken.set_(other)
        other.add_(1)
        refused = attempt(lambda: t.ones(2, requires_grad=True).set_(t.ones(1))), attempt(lambda: t.ones(1).set_(other))
        return seen, taken, part, taken._version, taken.data_ptr() == other.data_ptr(), refused

    agree(f)


LAZY = {
    "conj": lambda c: c.conj(),
    "imag": lambda c: c.imag,
    "imag of conj": lambda c: c.conj().imag,
    "real of conj": lambda c: c.conj().real,
    "part of conj": lambda c: c.conj()[1:],
}


@pytest.mark.parametrize("size", [(3, 2), (2,), (12,), (20,)], ids=str)
@pytest.mark.parametrize("kind", LAZY)
def test_a_lazy_view_that_grows_leaves_its_base_as_it_was(kind, size):
    def f(t):
        c = t.tensor([[1 + 2j, 2 - 1j, 0.5j], [3, -1j, 1 + 1j]], dtype=t.complex128)
        v = LAZY[kind](c)
        v.resize_(size)
        seen = [v.view(-1)[:2].clone(), c.clone(), v.is_conj(), v.is_neg(), tuple(v.shape), v.stride()]
        c.add_(1)
        seen.append(v.view(-1)[:2].clone())
        v.view(-1)[:1].mul_(2)
        return [*seen, c]

    agree(f)


# -- made in no_grad, or several at once -----------------------------------------------------------------


def test_views_made_in_no_grad_require_grad_while_their_base_does():
    def f(t):
        leaf = t.ones(2, 2, requires_grad=True)
        y = leaf * 2
        with t.no_grad():
            views = [leaf.view(-1), leaf[0], y.t(), y.expand(2, 2, 2), y.unbind(0)[0]]
            inside = [v.requires_grad for v in views] + [(views[0] * 2).requires_grad, leaf.detach().requires_grad]
        product = views[0] * 3
        product.sum().backward()
        leaf.requires_grad_(False)
        return [[v.requires_grad, v.is_leaf, v.grad_fn] for v in views], inside, product.grad_fn, leaf.grad

    agree(f)


NO_GRAD = "in no_grad mode .*both the view and the inplace either both inside the no_grad block"
MULTIPLE = "output of a function that returns multiple views.*replace the inplace operation by an out-of-place one"


def no_grad(t, f):
    with t.no_grad():
        return f()


REFUSED = {
    "made in no_grad": (lambda t, y: no_grad(t, lambda: y[0]).add_(1), f"^A view was created {NO_GRAD}"),
    "a view of such": (lambda t, y: no_grad(t, lambda: y.view(-1)).view(4).add_(1), f"^Output 0 of View .*{NO_GRAD}"),
    "unbind": (lambda t, y: y.unbind(0)[1].add_(1), f"^Output 1 of Unbind is a view and is being.*{MULTIPLE}"),
    "iteration": (lambda t, y: next(iter(y)).mul_(2), f"^Output 0 of Unbind is a view.*{MULTIPLE}"),
    "split": (lambda t, y: y.split(1)[1].zero_(), f"^Output 1 of Split is a view.*{MULTIPLE}"),
    "split sizes": (lambda t, y: y.split([1, 1])[0].zero_(), f"^Output 0 of SplitWithSizes is a view.*{MULTIPLE}"),
    "chunk": (lambda t, y: y.chunk(2)[0].copy_(y[1]), f"^Output 0 of Split is a view.*{MULTIPLE}"),
    "a view of one of several": (lambda t, y: y.unbind(0)[1].view(2).add_(1), f"^Output 0 of View.*{MULTIPLE}"),
    "assignment": (lambda t, y: y.unbind(0)[0].__setitem__(0, 1.0), f"^Output 0 of .*{MULTIPLE}"),
    "stale: made in no_grad": (
        lambda t, y: (v := no_grad(t, lambda: y[0]), y.add_(1), v.grad_fn),
        f"^A view was created in no_grad mode and its base or another view of its base has been .*{NO_GRAD[15:]}",
    ),
    "stale: one of several": (
        lambda t, y: (v := y.unbind(0)[1], y.add_(1), v * 2),
        f"^Output 1 of Unbind is a view and its base or another view of its base has been .*{MULTIPLE}",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_place_changes(name):
    script, match = REFUSED[name]
    agree_error(lambda t: script(t, t.ones(2, 2, requires_grad=True) * 2), match)


def test_what_is_allowed_in_no_grad():
    def f(t):
        leaf = t.ones(2, 2, requires_grad=True)
        y = leaf * 2
        with t.no_grad():
            y.unbind(0)[0].mul_(3)
            leaf[0].add_(1)
            pieces = leaf.chunk(2)
            pieces[1].zero_()
            stale = [p * 2 for p in pieces]
        plain_pieces = t.zeros(2, 2).unbind(0)
        plain_pieces[0].add_(1)
        (y * y).sum().backward()
        return leaf, leaf.grad, y, stale, plain_pieces, y._version

    agree(f)


# -- history -------------------------------------------------------------------------------------------


def test_history_is_rewritten():
    def f(t):
        leaf = number_tensor(t, 2, 3).requires_grad_()
        y = leaf * 2
        row, column, whole = y[0], y[:, 1], y.view(-1)
        names = [v.grad_fn for v in (y, row, column, whole)]
        row.mul_(3)
        names += [v.grad_fn for v in (y, row, column, whole)]
        below = [row.grad_fn.next_functions[0][0], y.grad_fn.next_functions[0][0]]
        column.add_(t.ones(2, dtype=t.float64, requires_grad=True))
        names += [v.grad_fn for v in (y, row, column, whole, y.detach())]
        (whole * whole).sum().backward()
        return names, below, leaf.grad, y

    agree(f)


def test_history_of_the_parts_of_a_complex_tensor():
    def f(t):
        leaf = complex_tensor(t).requires_grad_()
        z = leaf * 1j
        real, pairs = z.real, t.view_as_real(z)
        real.mul_(2)
        names = [z.grad_fn, real.grad_fn, pairs.grad_fn]
        (pairs * pairs).sum().backward()
        return names, leaf.grad, z

    agree(f)


def test_a_base_that_begins_to_require_grad():
    def f(t):
        base = number_tensor(t, 4)
        first, second = base[:2], base[1:]
        first.mul_(t.full((2,), 3.0, dtype=t.float64, requires_grad=True))
        later = number_tensor(t, 3)
        view = later.view(3)
        later.requires_grad_()
        return base.grad_fn, first.grad_fn, second.grad_fn, second, view.requires_grad, view.is_leaf

    agree(f)


# -- errors --------------------------------------------------------------------------------------------

ERRORS = {
    "view of incompatible strides": (lambda t, x: x.t().view(-1), "view size is not compatible.*[rR]eshape"),
    "view of another size": (lambda t, x: x.view(4), r"shape '\[4\]' is invalid for input of size 6"),
    "select out of range": (lambda t, x: x.select(1, 3), "index 3 out of range|out of bounds"),
    "dimension out of range": (lambda t, x: x.unsqueeze(4), r"Dimension out of range.*\[-3, 2\].*4"),
    "narrow beyond the end": (lambda t, x: x.narrow(1, 2, 2), r"start \(2\) \+ length \(2\) exceeds"),
    "expand a dimension": (lambda t, x: x.expand(2, 4), r"expanded size of the tensor \(4\) must match.*\(3\)"),
    "as_strided out of bounds": (lambda t, x: x.as_strided((4, 4), (3, 1)), "out of bounds for storage"),
    "permute repeated": (lambda t, x: x.permute(0, 0), "duplicate|repeated"),
    "imag of a real tensor": (lambda t, x: x.imag, "imag is not implemented for tensors with non-complex"),
    "view_as_complex": (lambda t, x: t.view_as_complex(x), "last dimension of size 2"),
    "split by zero": (lambda t, x: x.split(0), "split_size"),
    "squeeze out of range": (lambda t, x: x.squeeze(2), "Dimension out of range"),
    "unfold too long": (lambda t, x: x.unfold(1, 4, 1), "maximum size for tensor at dimension 1 is 3 but size is 4"),
    "resize of what requires grad": (lambda t, x: x.requires_grad_().resize_(2), "resize"),
    "expanded in place": (lambda t, x: x[0].expand(2, 3).add_(1), "more than one element of the written-to tensor"),
    "partial overlap": (lambda t, x: x.view(-1)[1:].copy_(x.view(-1)[:-1]), "some elements of the input tensor"),
    "its own transpose": (lambda t, x: (y := x[:, :2].clone()).add_(y.t()), "some elements of the input"),
    "detach_ of a view": (lambda t, x: x[0].detach_(), "Can't detach views in-place"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    script, match = ERRORS[name]
    agree_error(lambda t: script(t, number_tensor(t, 2, 3)), match)


def test_a_refused_write_changes_nothing():
    x = number_tensor(torchlike, 2, 3)
    wide = x[0].expand(2, 3)
    for write in (lambda: wide.add_(1), lambda: x[0].add_(torchlike.ones(4)), lambda: x.copy_(torchlike.ones(7))):
        with pytest.raises(RuntimeError):
            write()
    assert x._version == 0 and x.tolist() == [[0, 1, 2], [3, 4, 5]]


KINDS = ("bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex64", "complex128")


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (2, 0, 4)], ids=str)
def test_empty_tensors_as_other_dtypes(shape):
    def f(t):
        x = [t.empty(shape, dtype=getattr(t, kind)) for kind in KINDS]
        pairs = itertools.product(x, [getattr(t, kind) for kind in KINDS])
        return [attempt(lambda x=x, d=d: (x.view(d).shape, x.view(d).stride(), x.view(d).dtype)) for x, d in pairs]

    agree(f)


def test_storages_that_are_longer_than_a_view_of_another_dtype():
    """What is left over at their end is no part of it, and stays."""

    def f(t):
        floats, octets = t.arange(9.0), t.arange(11, dtype=t.uint8)
        pair = t.view_as_complex(floats[:8].view(4, 2)).as_strided((2,), (1,), 1)
        pair.mul_(2)
        word = octets[:8].view(t.int32).as_strided((1,), (1,), 1)
        word.add_(1)
        return pair, floats, word, octets, floats[:6].view(t.float64).as_strided((2,), (1,), 1)

    agree(f)
