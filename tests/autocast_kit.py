"""PyTorch's operators under autocast, by the declarations: how to call them, and the dtypes of what they give."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import torch

from torchlike._decl.op import Op

LOW, HIGH = torch.bfloat16, torch.float32

# What PyTorch names a class for, and what computes by calling that: one call a line. `c` casts a tensor.
CALLS = """
t.quantile(c(x(3, 4)), c(t.tensor(0.5)))
t.nanquantile(c(x(3, 4)), 0.5)
t.polar(c(x(3)), c(x(3)))
t.cdist(c(x(3, 2)), c(x(4, 2)))
t.cdist(x(3, 2), c(x(4, 2)))
F.pdist(c(x(3, 2)))
t.trace(c(x(3, 3)))
t.view_as_complex(c(x(3, 2)))
t.cholesky(c(s))
t.cholesky_inverse(c(s))
t.cholesky_solve(c(x(3, 2)), c(s))
t.inverse(c(s))
c(s).inverse()
t.pinverse(c(s))
t.lu_solve(c(x(3, 2)), c(s), i(1, 2, 3).int())
t.lu(c(s))
t.qr(c(x(3, 2)))
t.svd(c(x(3, 2)))
t.triangular_solve(c(x(3, 2)), c(s))
t.orgqr(c(x(3, 2)), c(x(2)))
t.linalg.lu_factor(c(s))
t.linalg.solve_triangular(c(s), c(x(3, 2)), upper=True)
t.linalg.cond(c(s))
t.linalg.matrix_rank(c(s))
t.linalg.solve(c(s), c(x(3, 2)))
t.linalg.solve(s, c(x(3, 2)))
t.linalg.cholesky(c(s))
t.linalg.cholesky_ex(c(s))
t.linalg.eigvals(c(s))
t.linalg.eigvalsh(c(s))
t.linalg.eigh(c(s))
t.linalg.eig(c(s))
t.linalg.svdvals(c(s))
t.linalg.inv(c(s))
t.linalg.inv_ex(c(s))
t.linalg.householder_product(c(x(3, 2)), c(x(2)))
t.linalg.tensorinv(c(s), ind=1)
t.linalg.tensorsolve(c(s), c(x(3)))
t.linalg.lstsq(c(x(3, 2)), c(x(3, 1)))
t.linalg.det(c(s))
t.linalg.matrix_exp(c(s))
t.linalg.matrix_power(c(s), 3)
t.linalg.matrix_power(c(s), 1)
t.linalg.matrix_power(c(s), -1)
t.linalg.matrix_power(c(s), -2)
c(s).matrix_power(-3)
t.linalg.pinv(c(s))
t.linalg.pinv(c(s), hermitian=True)
t.linalg.pinv(c(x(3, 2)), rtol=0.1)
t.linalg.pinv(c(x(3, 2)), atol=t.tensor(0.1))
t.linalg.norm(c(s))
t.linalg.norm(c(s), 2)
t.linalg.multi_dot([c(s), c(s), c(s)])
t.linalg.vecdot(c(s), c(s))
F.grid_sample(c(x(1, 2, 4, 4)), c(x(1, 3, 3, 2)), align_corners=False)
F.affine_grid(c(x(1, 2, 3)), (1, 2, 4, 4), align_corners=False)
F.max_pool3d(c(x(1, 2, 4, 4, 4)), 2)
F.max_pool3d(c(x(1, 2, 4, 4, 4)), 2, return_indices=True)
F.max_pool2d(c(x(1, 2, 4, 4)), 2)
F.max_unpool1d(c(x(1, 1, 2)), i(0, 3).reshape(1, 1, 2), 2)
F.adaptive_avg_pool3d(c(x(1, 2, 4, 4, 4)), 2)
F.adaptive_avg_pool2d(c(x(1, 2, 4, 4)), 2)
F.adaptive_max_pool3d(c(x(1, 2, 4, 4, 4)), 2)
F.adaptive_max_pool3d(c(x(1, 2, 4, 4, 4)), 2, return_indices=True)
F.avg_pool3d(c(x(1, 2, 4, 4, 4)), 2)
F.lp_pool3d(c(x(1, 2, 4, 4, 4)), 2.0, 2)
F.interpolate(c(x(1, 2, 4, 4, 4)), 2, mode="area")
F.interpolate(c(x(1, 1, 3, 3)), scale_factor=2, mode="bilinear")
F.pad(c(x(1, 1, 4)), (1, 1), "reflect")
F.pad(c(x(1, 1, 4)), (1, 1), "replicate")
F.pad(c(x(1, 1, 4)), (1, 1), "circular")
F.margin_ranking_loss(c(x(3)), c(x(3)), c(x(3)))
F.triplet_margin_loss(c(x(3, 4)), c(x(3, 4)), c(x(3, 4)), swap=True, reduction="none")
F.triplet_margin_with_distance_loss(c(x(3, 4)), c(x(3, 4)), c(x(3, 4)))
F.gaussian_nll_loss(c(x(3)), c(x(3)), c(x(3)))
F.hinge_embedding_loss(c(x(3, 4)), c(x(3, 4)), reduction="sum")
F.multilabel_soft_margin_loss(c(x(3, 4)), c(x(3, 4)))
F.cosine_embedding_loss(c(x(3, 4)), c(x(3, 4)), i(1, -1, 1))
F.nll_loss(c(x(1, 3, 2, 2)), i(0, 1, 2, 0).reshape(1, 2, 2))
F.cross_entropy(c(x(3, 4)), i(0, 1, 2), label_smoothing=0.1)
F.cross_entropy(c(x(3, 4)), c(x(3, 4)))
F.multi_margin_loss(c(x(3, 4)), i(0, 1, 2))
F.ctc_loss(c(x(4, 2, 3) - 3), i(1, 2, 2, 1).reshape(2, 2), (4, 4), (2, 2))
F.mse_loss(x(3), c(x(3)))
t.index_copy(x(3, 4), 0, i(0, 1), c(x(2, 4)))
t.hstack([x(3, 4), c(x(3, 4))])
t.vstack([c(x(3, 4)), c(x(3, 4))])
t.column_stack([x(3, 4), c(x(3, 4))])
t.block_diag(x(3, 4), c(x(3, 4)))
F.conv1d(c(x(1, 2, 4)), x(1, 2, 2), x(1))
F.conv2d(c(x(1, 2, 4, 4)), c(x(1, 2, 2, 2)), padding="same")
F.conv_transpose1d(c(x(1, 2, 4)), c(x(2, 1, 2)))
t.mv(c(x(2, 2)), c(x(2)))
t.dot(c(x(2)), c(x(2)))
t.inner(c(x(2, 2)), c(x(2, 2)))
t.outer(c(x(2)), c(x(2)))
t.matmul(c(x(2)), c(x(2)))
t.kron(c(x(2, 2)), c(x(2, 2)))
t.tensordot(c(x(2, 2)), c(x(2, 2)), 1)
t.einsum("ij,kj->ik", c(x(2, 2)), c(x(2, 2)))
t.einsum("ij->ji", c(x(2, 2)))
t.einsum("ii->", c(x(2, 2)))
t.einsum("ij,ij->ij", c(x(2, 2)), c(x(2, 2)))
t.einsum("...i,...i", c(x(2, 2)), c(x(2, 2)))
t.einsum("ij,jk,kl->il", c(x(2, 2)), c(x(2, 2)), c(x(2, 2)))
F.bilinear(c(x(2, 3)), c(x(2, 4)), c(x(5, 3, 4)))
t.addmv(c(x(2)), c(x(2, 2)), c(x(2)))
t.addbmm(c(x(2, 2)), c(x(1, 2, 2)), c(x(1, 2, 2)))
t.cov(c(x(2, 3)))
t.corrcoef(c(x(2, 3)))
F.prelu(c(x(2, 3)), x(3))
F.scaled_dot_product_attention(c(x(1, 2, 3, 4)), x(1, 2, 3, 4), c(x(1, 2, 3, 4)))
F.scaled_dot_product_attention(c(x(1, 2, 3, 4)), c(x(1, 2, 3, 4)), c(x(1, 2, 3, 4)), attn_mask=x(3, 3))
t.exp(c(x(3)))
t.softmax(c(x(3, 4)), 0)
t.cumsum(c(x(3, 4)), 0)
t.prod(c(x(3, 4)), 0)
t.norm(c(s))
t.norm(c(s), "nuc")
c(x(3)) ** 2.5
t.addcmul(c(x(3)), x(3), c(x(3)))
t.where(x(3) > 0.5, x(3), c(x(3)))
F.layer_norm(c(x(3, 4)), (4,))
F.cosine_similarity(c(x(3, 4)), c(x(3, 4)))
F.embedding(i(0, 1), c(x(3, 4)))
""".strip().splitlines()


def overload(op):
    """PyTorch's overload of this name, if it has one."""
    packet = getattr(torch.ops.aten, op.schema.name, None)
    which = op.schema.overload or "default"
    return getattr(packet, which) if packet is not None and which in packet.overloads() else None


def kinds(op, values, static, dtypes, enabled, low=LOW):
    """The dtypes of floating results of PyTorch's operator or function, or None where it refuses."""
    order = iter(dtypes * len(values))

    def tensor(v):
        if not isinstance(v, np.ndarray):
            return v
        if v.dtype.name.startswith("float8"):
            return torch.from_numpy(v.astype(np.float32)).to(getattr(torch, v.dtype.name))
        t = torch.from_numpy(v.copy())
        return t.to(next(order)) if t.is_floating_point() else t

    if not isinstance(op, Op):
        return results(op, [tensor(v) for v in values], {}, enabled, low)
    return results(overload(op), [], by_name(op, [tensor(v) for v in values], static), enabled, low)


def by_name(op, values, static):
    """The arguments of PyTorch's operator, by their names."""
    rest, lens, named = list(values), iter(static[len(op.static)] if op.lists else ()), {}
    for a in op.dynamic:
        named[a.name] = [rest.pop(0) for _ in range(next(lens))] if a.is_list else rest.pop(0)
    named |= {a.name: list(s) if isinstance(s, tuple) else s for a, s in zip(op.static, static, strict=False)}
    return {a.name: named[a.name] for a in op.schema.args if named[a.name] is not None or not a.has_default}


def results(function, args, kwargs, enabled, low=LOW):
    try:
        with warnings.catch_warnings(), torch.autocast("cpu", dtype=low, enabled=enabled):
            warnings.simplefilter("ignore")
            out = function(*args, **kwargs)
    except (RuntimeError, IndexError):
        return None
    outs = out if isinstance(out, tuple | list) else (out,)
    return [o.dtype for o in outs if isinstance(o, torch.Tensor) and (o.is_floating_point() or o.is_complex())]


@functools.cache
def lacks_lstm():
    """Whether PyTorch has no kernel for an LSTM in bfloat16 on this processor, one without AVX-512."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            torch.nn.LSTM(3, 4)(torch.ones(2, 1, 3))
    except RuntimeError:
        return True
    return False
