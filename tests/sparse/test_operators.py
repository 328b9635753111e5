"""Operators of sparse tensors: results, refusals, changes in place, as PyTorch's."""

import pytest
from both import agree_error
from sparse_kit import C, D, H, M, S, U, cases, same

import torchlike

V = [1.0, -2.0, 3.0]


def other(t):
    """Another pattern than that of S."""
    return t.sparse_coo_tensor([[0, 1], [1, 2]], [10.0, 20.0], (2, 3)).coalesce()


def checked(t, c, size):
    return t._validate_sparse_compressed_tensor_args(c.crow_indices(), c.col_indices(), c.values(), size, c.layout)


@cases(
    lambda t: (S(t) + S(t), S(t) + other(t), S(t) - other(t), t.add(S(t), other(t), alpha=3), U(t) + U(t)),
    lambda t: (D(t) + S(t), D(t) - S(t), t.add(D(t), U(t), alpha=2), D(t) + C(t), C(t) + D(t), C(t) + C(t)),
    lambda t: (S(t, t.float64) + S(t), S(t) + S(t, t.int64), D(t).double() + S(t)),
    lambda t: (H(t) + H(t), t.ones(3, 2) + H(t)),
    lambda t: (S(t) * 2, 2 * S(t), U(t) * 2.5, S(t) / 2, U(t) / 2, S(t) * t.tensor(3.0), S(t) / t.tensor(2)),
    lambda t: (S(t) * D(t), D(t) * S(t), U(t) * D(t), S(t) * t.arange(3.0), H(t) * t.ones(3, 2), H(t) * 2),
    lambda t: (S(t) * S(t), S(t) * other(t), U(t) * S(t), S(t) * U(t), C(t) * 2, C(t) * D(t), D(t) * C(t), C(t) * C(t)),
    lambda t: (S(t, t.int64) * 2, S(t, t.int64) * 2.5, S(t, t.int64) / 2, S(t) // 2, t.floor_divide(U(t), 2)),
    lambda t: (S(t) ** 2, U(t) ** 2, U(t) ** 3.0, S(t).pow(1)),
    *[lambda t, n=n: [getattr(x(t), n)() for x in (S, U, C)] for n in (
        "neg", "abs", "sgn", "sign", "relu", "sqrt", "sin", "sinh", "tan", "tanh", "asin", "asinh", "atan", "atanh",
        "ceil", "floor", "round", "trunc", "frac", "erf", "log1p", "deg2rad", "rad2deg", "isnan", "isinf",
        "signbit")],
    lambda t: [(x * n, n * x, n * n) for n in (t.tensor(2.0).to_sparse(),) for x in (S(t), U(t), H(t))],
    lambda t: (S(t) * 1j, (S(t) * 1j).conj(), (S(t) * 1j) + S(t)),
    lambda t: [(c.angle(), t.angle(c.t()), c.conj_physical()) for c in (C(t), -C(t), C(t) * 1j)],
    lambda t: (t.full_like(C(t), 2.0), t.full_like(C(t), 3), t.full_like(C(t), 2.5, dtype=t.int32)),
    lambda t: (t._sparse_csr_sum(C(t), [0], True), t._sparse_broadcast_to(S(t), [2, 2, 3])),
    lambda t: [(x.any(), (x * 0).any(), x.to(t.uint8).any()) for x in (S(t), U(t), H(t))],
    lambda t: checked(t, C(t), [2, 3]), lambda t: (S(t) * 1j).conj_physical(),
    lambda t: (t.mm(S(t), M(t)), t.spmm(U(t), M(t)), S(t) @ M(t), t.matmul(S(t), M(t)), C(t) @ M(t), C(t).mm(M(t))),
    lambda t: (t.ones(4, 2) @ S(t), t.ones(4, 2) @ C(t), t.mm(t.ones(1, 2), U(t))),
    lambda t: (S(t) @ S(t).t(), t.mm(U(t), S(t).t()), t.sparse.mm(S(t), S(t).t()), t.sparse.mm(S(t), M(t))),
    lambda t: [
        ((a @ b).layout, (a @ b).to_dense())
        for a in (C(t), C(t).t().to_sparse_csr().t()) for b in (C(t).t(), C(t).t().to_sparse_csr())
    ],
    lambda t: (t.mm(t.ones(4, 2), S(t)).stride(), (t.ones(4, 2) @ C(t)).stride(), t.sparse.mm(D(t).t(), S(t)).stride()),
    lambda t: t.nn.functional.linear(t.tensor(V), C(t)),
    lambda t: (t.mv(S(t), t.ones(3)), S(t) @ t.tensor(V), C(t) @ t.tensor(V), S(t).mv(t.tensor(V))),
    lambda t: (t.addmm(t.ones(2, 4), S(t), M(t)), t.addmm(t.ones(2, 4), C(t), M(t), beta=2, alpha=3),
               t.addmm(t.ones(4), U(t), M(t), beta=0.5), t.sparse.addmm(t.ones(2, 4), S(t), M(t), alpha=2)),
    lambda t: (t.bmm(t.stack([S(t), U(t)]), t.ones(2, 3, 2)), t.bmm(t.stack([S(t), S(t)]), M(t).expand(2, 3, 4))),
    lambda t: (t.smm(S(t), M(t)), t.hspmm(S(t), M(t))),
    lambda t: [t.sparse.mm(C(t), M(t), how) for how in ("sum", "mean", "amax", "amin")],
    lambda t: [t.sparse.mm(C(t) * 0, M(t) * float("nan"), how) for how in ("mean", "amax", "amin")],
    lambda t: t.ops.aten.values_copy(C(t)), lambda t: t.values_copy(C(t), out=t.empty(0)),
    lambda t: (t.nn.functional.linear(S(t), t.ones(4, 3)), t.nn.functional.linear(S(t), t.ones(4, 3), t.ones(4))),
    lambda t: t.sparse.sampled_addmm(C(t), t.ones(2, 2), D(t), beta=2.0, alpha=0.5),
    lambda t: (S(t).sum(), U(t).sum(), C(t).sum(), t.sum(S(t, t.int64)), S(t).sum(0), S(t).sum(1), S(t).sum((0, 1))),
    lambda t: (t.sparse.sum(S(t)), t.sparse.sum(S(t), 0), t.sparse.sum(U(t), [0]), t.sparse.sum(S(t), -1),
               t.sparse.sum(S(t), [0, 1]), t.sparse.sum(H(t), 0), t.sparse.sum(H(t), 1), t.sparse.sum(H(t), [0, 1])),
    lambda t: t.sparse.sum(S(t), 0, dtype=t.float64),
    lambda t: (t.sparse.softmax(U(t), 0), t.sparse.softmax(U(t), 1), t.sparse.softmax(S(t), 1, dtype=t.float64)),
    lambda t: (t.sparse.log_softmax(U(t), 0), t.sparse.log_softmax(S(t), 1), t.sparse.softmax(H(t), 0),
               t.sparse.softmax(H(t), 1), t.sparse.log_softmax(H(t), 1)),
    lambda t: (S(t).t(), U(t).t(), S(t).transpose(0, 1), S(t).transpose(1, 1), S(t).permute(1, 0), S(t).T),
    lambda t: (C(t).t(), C(t).t().t(), C(t).transpose(0, 1), C(t).t().to_dense()),
    lambda t: (S(t)[0], S(t)[1], S(t)[-1], U(t)[0], H(t)[1], S(t)[0, 2], S(t)[0][0], list(S(t)), C(t)[1]),
    lambda t: (S(t).select(1, 2), H(t).select(1, 0).to_dense(), S(t).unbind(1)),
    lambda t: (S(t).index_select(1, t.tensor([2, 0, 2])), U(t).index_select(0, t.tensor([1])),
               H(t).index_select(1, t.tensor([1, 1])), S(t).index_select(0, t.zeros(0, dtype=t.int64))),
    lambda t: (t.cat([S(t), U(t)]), t.cat([S(t), S(t)], 1), t.cat([H(t), H(t)], 1), t.cat([H(t), H(t)], -2)),
    lambda t: (t.stack([S(t), U(t)]), t.stack([S(t), S(t)], 1), t.stack([S(t), S(t)], 2), S(t).unsqueeze(0),
               S(t).unsqueeze(2), H(t).unsqueeze(1), H(t).unsqueeze(2)),
    lambda t: (D(t).sparse_mask(U(t)), D(t).sparse_mask(S(t)), S(t).sparse_mask(U(t)), U(t).sparse_mask(S(t)),
               D(t).sparse_mask(C(t)), t.ones(3, 2).sparse_mask(H(t))),
    lambda t: (S(t).double(), S(t).int(), S(t).to(t.float16), S(t).to("cpu"), U(t).to(t.complex64), C(t).double()),
    lambda t: (S(t).detach(), S(t).clone(), S(t).data, t.clone(U(t)), t.isnan(S(t))),
    lambda t: t.norm(S(t)),
)  # fmt: skip
def test_results(f):
    same(f)


@cases(
    lambda t: S(t).angle(), lambda t: C(t).any(), lambda t: S(t).any(0), lambda t: t.cat([S(t), S(t).t()]),
    *[lambda t, f=f, to=to: getattr(t, f + "_like")(C(t), *([2.0] if f == "full" else []), layout=getattr(t, to))
      for f in ("empty", "zeros", "ones", "full") for to in ("strided", "sparse_csc", "sparse_bsr", "sparse_coo")
      if (f, to) not in (("zeros", "sparse_csc"), ("zeros", "sparse_coo"))],
    lambda t: checked(t, C(t), [2, 2]),
    lambda t: S(t) + D(t), lambda t: S(t) + 2, lambda t: D(t)[0] + S(t), lambda t: S(t) + S(t).t(),
    lambda t: S(t) - D(t), lambda t: S(t) / D(t), lambda t: S(t) / S(t), lambda t: S(t) ** S(t), lambda t: S(t) ** 0,
    lambda t: S(t) + C(t), lambda t: C(t) / 2, lambda t: S(t) == S(t), lambda t: S(t) > 0, lambda t: S(t).exp(),
    lambda t: S(t).cos(), lambda t: S(t).mean(), lambda t: S(t).max(), lambda t: S(t).view(3, 2),
    lambda t: S(t).reshape(3, 2), lambda t: S(t).flatten(), lambda t: S(t).expand(2, 2, 3),
    lambda t: S(t).narrow(0, 0, 1),
    lambda t: S(t).split(1), lambda t: t.where(D(t) > 0, S(t), S(t)), lambda t: t.einsum("ij,jk->ik", S(t), M(t)),
    lambda t: S(t).nonzero(), lambda t: t.equal(S(t), S(t)), lambda t: t.allclose(S(t), S(t)), lambda t: S(t).argmax(),
    lambda t: S(t) @ D(t), lambda t: t.mm(S(t), M(t).double()), lambda t: S(t) @ M(t).unsqueeze(0),
    lambda t: H(t) @ t.ones(2, 2), lambda t: t.cat([S(t), D(t)]), lambda t: t.cat([S(t), t.stack([S(t), S(t)])]),
    lambda t: C(t).unsqueeze(0), lambda t: t.sparse.softmax(D(t), 0), lambda t: t.softmax(S(t), 1),
    lambda t: S(t).fill_(1), lambda t: U(t).sqrt_(), lambda t: U(t).abs_(),
    lambda t: S(t).add_(D(t)), lambda t: D(t).copy_(S(t)), lambda t: S(t).uniform_(),
    lambda t: S(t).normal_(), lambda t: t.add(S(t), S(t), out=t.ones(2, 3)), lambda t: S(t).exp_(),
    lambda t: S(t).squeeze(), lambda t: S(t).cumsum(0), lambda t: S(t).sort(), lambda t: t.linalg.inv(S(t)),
    lambda t: t.nn.functional.conv1d(S(t).unsqueeze(0), t.ones(1, 2, 1)), lambda t: S(t).diagonal(),
    lambda t: t.addmm(t.ones(2, 2), S(t), S(t).t()), lambda t: S(t).tril(), lambda t: S(t).clamp(0, 1),
)  # fmt: skip
def test_refused(f):
    same(f, refuses=True)


def hybrid(t):
    return t.sparse_coo_tensor([[0]], t.ones(1, 3), (2, 3))


@pytest.mark.parametrize("other", [lambda t: S(t).t(), H, hybrid, lambda t: t.stack([S(t), S(t)])])
def test_what_cat_says(other):
    said = r"All tensors must have the same (shape: \[2, 3\].+found shape|sparse_dim and dense_dim: 2, 0.+has 1, 1)"
    agree_error(lambda t: t.cat([S(t), other(t)]), said)


def test_refusals_name_the_operator():
    for call, match in (
        (lambda x: x.exp(), r"exp\(\).*sparse_coo.*to_dense"),
        (lambda x: x.view(3, 2), r"view\(\).*sparse_coo"),
        (lambda x: torchlike.cumsum(x, 0), r"cumsum\(\).*sparse_coo"),
        (lambda x: x.to_sparse_csr().sigmoid(), r"sigmoid\(\).*sparse_csr"),
        (lambda x: torchlike.func.vmap(lambda y: x * y)(torchlike.ones(2)), "sparse"),
    ):
        with pytest.raises(NotImplementedError, match=match):
            call(S(torchlike))


def _empty(t, dtype=None, size=(2, 3)):
    return t.zeros(size, dtype=dtype, layout=t.sparse_coo)


def _into(t, call, out):
    """What a call says and leaves in ``out``, whether it is what comes back, and whether its version grows."""
    version = out._version
    return call(out), call(out) is out, out._version > version, out


@cases(
    *[lambda t, n=n: [_into(t, lambda o, x=x: getattr(t, n)(x(t), out=o), y(t)) for x, y in (
        (S, _empty), (U, _empty), (S, other), (C, C), (S, lambda t: _empty(t, size=(4,))),
    )] for n in ("sin", "neg", "sgn", "trunc", "log1p")],
    lambda t: _into(t, lambda o: t.sin(S(t, t.int64), out=o), _empty(t)),
    lambda t: [x := S(t), t.neg(x, out=x), x],
    lambda t: (t.nan_to_num(S(t) / 0), t.nan_to_num(U(t) / 0, posinf=7.0), (S(t) / 0).nan_to_num_(posinf=2.0)),
    lambda t: t.nan_to_num(S(t) * float("nan"), 5.0, out=_empty(t)),
)  # fmt: skip
def test_results_in_given_tensors(f):
    same(f)


@cases(
    lambda t: t.sin(S(t), out=t.ones(2, 3)), lambda t: t.sin(D(t), out=_empty(t)), lambda t: t.neg(D(t), out=S(t)),
    lambda t: t.exp(D(t), out=S(t)), lambda t: t.sin(C(t), out=S(t)), lambda t: t.sin(S(t), out=_empty(t, t.int32)),
    lambda t: t.abs(S(t), out=_empty(t, t.float64)), lambda t: t.sin(S(t).requires_grad_(), out=_empty(t)),
    lambda t: t.nan_to_num(C(t)), lambda t: U(t).nan_to_num_(), lambda t: t.sum(D(t), 0, out=S(t)),
    lambda t: t.sin(D(t), out=t.quantize_per_tensor(D(t), 1.0, 0, t.quint8)),
)  # fmt: skip
def test_results_in_tensors_of_other_layouts_are_refused(f):
    same(f, refuses=True)


def test_a_refused_output_is_as_it_was():
    out = S(torchlike)
    with pytest.raises(RuntimeError, match=r"sin\(\).*strided.*sparse_coo"):
        torchlike.sin(D(torchlike), out=out)
    assert out.layout is torchlike.sparse_coo and out._nnz() == 3 and out._version == 0


@cases(
    lambda t: (H(t) + _empty(t, size=(3, 2)), _empty(t, size=(3, 2)) + H(t), H(t) - _empty(t, t.float64, (3, 2))),
    lambda t: (_empty(t, t.float64, (3, 2)) - H(t), t.add(_empty(t, size=(3, 2)), H(t).coalesce(), alpha=2)),
    lambda t: [x := H(t), x.add_(_empty(t, size=(3, 2))), x], lambda t: [x := _empty(t, size=(3, 2)), x.sub_(H(t)), x],
    lambda t: [x := H(t).requires_grad_(), t.sparse.sum(x + _empty(t, size=(3, 2))).backward(), x.grad],
)  # fmt: skip
def test_sums_with_nothing(f):
    same(f)


def _changed(t, make, change):
    x = make(t)
    version = x._version
    y = change(x)
    return x, y is x, x._version > version


def _factor(t, make, factor):
    x = make(t).coalesce()
    x.mul_(factor)
    return x.is_coalesced(), x.coalesce()


@cases(
    *[lambda t, make=make, change=change: _changed(t, make, lambda x: change(t, x)) for make, change in (
        (S, lambda t, x: x.mul_(2)), (U, lambda t, x: x.mul_(2)), (U, lambda t, x: x.zero_()),
        (S, lambda t, x: x.add_(S(t))), (S, lambda t, x: x.add_(S(t), alpha=2)), (D, lambda t, x: x.add_(S(t))),
        (D, lambda t, x: x.add_(C(t))), (D, lambda t, x: x.sub_(U(t))), (D, lambda t, x: x.mul_(S(t))),
        (S, lambda t, x: x.div_(2)), (S, lambda t, x: x.neg_()), (S, lambda t, x: x.sqrt_()),
        (S, lambda t, x: x.abs_()),
        (S, lambda t, x: x.copy_(U(t))), (C, lambda t, x: x.mul_(2)), (S, lambda t, x: x.sub_(S(t))),
        (lambda t: t.ones(2, 2), lambda t, x: x.addmm_(S(t), t.ones(3, 2))), (S, lambda t, x: x.relu_()),
    )],
    lambda t: [x := t.ones(3, 2, 3), x[0].add_(S(t)), x],
    lambda t: [x := S(t), x.__imul__(3), x.__iadd__(S(t)), x],
    lambda t: [_factor(t, S, f) for f in (2, 2.5, t.tensor(2.0), S(t), t.ones(S(t).shape))],
    lambda t: [_factor(t, lambda t: t.sparse_coo_tensor([[1]], [2.0], (3,)), 2), (S(t) * 2).is_coalesced()],
)  # fmt: skip
def test_changes(f):
    same(f)


def test_failed_change_changes_nothing():
    x = S(torchlike)
    before = repr(x), x._version
    for change in (lambda: x.add_(D(torchlike)), lambda: x.fill_(1), lambda: x.uniform_(), lambda: x.exp_()):
        with pytest.raises(RuntimeError):
            change()
    assert (repr(x), x._version) == before


def _parts(t):
    return t.tensor([0, 2, 3]), t.tensor([0, 2, 1]), t.tensor(V)


def _far(t):
    outer, inner, values = _parts(t)
    return outer, inner + 5, values


def _dims(t, layout, dense=0):
    return t.ops.aten._sparse_coo_tensor_with_dims(2 - dense, dense, [2, 3], dtype=t.float64, layout=layout)


CHECKS = [
    lambda t, a, *parts: a._validate_sparse_csr_tensor_args(*parts, [2, 3]),
    lambda t, a, *parts: a._validate_sparse_csc_tensor_args(*parts, [3, 2]),
    lambda t, a, *parts: a._validate_sparse_compressed_tensor_args(*parts, [2, 3], t.sparse_csr),
    lambda t, a, *parts: a._validate_compressed_sparse_indices(True, *parts[:2], 2, 3, 3),
    lambda t, a, *parts: a._validate_compressed_sparse_indices(False, *parts[:2], 2, 3, 3),
]


@cases(
    lambda t: t.ops.aten._sparse_csr_tensor_unsafe(*_parts(t), [2, 3]),
    lambda t: t.ops.aten._sparse_csc_tensor_unsafe(*_parts(t), [3, 2]),
    lambda t: t.ops.aten._sparse_bsr_tensor_unsafe(*_parts(t)[:2], t.ones(3, 1, 2), [2, 6]),
    lambda t: t.ops.aten._sparse_compressed_tensor_unsafe(*_parts(t), [2, 3], layout=t.sparse_csr),
    *[lambda t, f=f: f(t, t.ops.aten, *_parts(t)) for f in CHECKS],
    lambda t: (_dims(t, t.sparse_coo), _dims(t, t.sparse_coo, 1)),
    lambda t: t.ops.aten._sparse_coo_tensor_with_dims_and_tensors(
        2, 0, [2, 3], t.tensor([[0], [1]]), t.tensor([5.0]), layout=t.sparse_coo, is_coalesced=True),
    lambda t: [t.ops.aten.hspmm(S(t), M(t)), t.ops.aten.hspmm.out(S(t), M(t), out=t.zeros(2, 4).to_sparse(1))],
    lambda t: t.ops.aten._sparse_broadcast_to(S(t), [2, 2, 3]),
    lambda t: [f(S(t), [3, 4], 2, 0) for f in (t.ops.aten.sparse_resize, t.ops.aten.sparse_resize_and_clear)],
    lambda t: t.ops.aten.copy_sparse_to_sparse(S(t), U(t)),
    *[lambda t, n=n, d=d: getattr(t.ops.aten, f"_sparse_csr_{n}").dim_dtype(C(t), d, True)
      for n in ("sum", "prod") for d in ([0], [1], [0, 1])],
    lambda t: [t.ops.aten.to_dense_backward(D(t), x) for x in (S(t), U(t))],
    lambda t: t.ops.aten.to_dense_backward(D(t), S(t), False),
    lambda t: [t.ops.aten._sparse_sum_backward(g.to_sparse() if g.ndim else g, S(t), d) for g, d in (
        (t.tensor(V), [0]), (t.tensor(V[:2]), [-1]), (t.tensor([0.0, 2]), [1]), (t.tensor(2.0), [0, 1]))],
    lambda t: [t.ops.aten._sparse_mask_projection(x, m, a) for a in (False, True) for x in (S(t), U(t))
               for m in (S(t), U(t), other(t))],
    *[lambda t, f=f: f(t, t.ops.aten, D(t).to_sparse() * 0) for f in (
        lambda t, a, out: a.copy_sparse_to_sparse.out(S(t), U(t), out=out),
        lambda t, a, out: a._sparse_sparse_matmul.out(S(t), S(t).t(), out=t.zeros(2, 2).to_sparse()),
        lambda t, a, out: a._sparse_sum.dim_out(S(t), [0], out=t.zeros(3).to_sparse()),
        lambda t, a, out: a._sparse_sum_backward.out(t.tensor(V).to_sparse(), S(t), [0], out=out),
        lambda t, a, out: a._sparse_mask_projection.out(S(t), U(t), out=out),
        lambda t, a, out: a._to_sparse.out(D(t), out=out),
        lambda t, a, out: a._to_sparse.sparse_dim_out(D(t), 1, out=t.zeros(2, 3).to_sparse(1)),
        lambda t, a, out: a._to_dense.out(S(t), out=t.zeros(2, 3)),
        lambda t, a, out: a._sparse_softmax.out(S(t), 1, False, out=out),
        lambda t, a, out: a._sparse_log_softmax.out(S(t), 1, False, out=out),
        lambda t, a, out: a._sparse_softmax_backward_data.out(S(t), S(t), 1, S(t), out=out),
        lambda t, a, out: a._sparse_log_softmax_backward_data.out(S(t), S(t) * 0, 1, S(t), out=out),
        lambda t, a, out: a.sparse_sampled_addmm.out(C(t), t.ones(2, 2), t.ones(2, 3), beta=2, out=C(t)),
    )],
)  # fmt: skip
def test_overloads_of_aten(f):
    same(f)


@cases(
    *[lambda t, f=f: f(t, t.ops.aten, *_far(t)) for f in CHECKS],
    lambda t: _dims(t, None), lambda t: t.ops.aten._sparse_csr_sum.dim_dtype(C(t), [0]),
    lambda t: t.ops.aten._sparse_sum_backward(t.tensor(V), S(t), [0]),
    lambda t: t.ops.aten._sparse_broadcast_to(S(t), [4, 3]),
)  # fmt: skip
def test_overloads_of_aten_that_refuse(f):
    same(f, refuses=True)
