"""What operators ask of the tensors that they write into: ``out=`` and the first input of in-place forms."""

import os

import pytest
import torch
from both import agree, agree_error, attempt
from sample_kit import sample

import torchlike
from torchlike._aten import packets
from torchlike._decl.op import INPLACE, REGISTRY, ViewOp

OTHER = {
    torch.float64: torch.float32, torch.float32: torch.float64, torch.int64: torch.int32, torch.int32: torch.int64,
    torch.bool: torch.int32, torch.complex128: torch.complex64, torch.uint8: torch.int32,
}  # fmt: skip
FEW = """abs addmv add.Tensor amax bmm ceil clamp cross cumsum diff floor gather index_add kron linalg_cholesky
linalg_eig linalg_inv log_softmax.int logsumexp max max.dim mean.dim mode neg outer prod.dim_int renorm round sign sort
stack std.dim sum.dim_IntList tril where.self""".split()


def _declared():
    packets.complete()
    ops = {n: o for n, o in REGISTRY.items() if not isinstance(o, ViewOp) and "out" in o.variants and o.aten.out}
    return ops if os.environ.get("TORCHLIKE_EVERY") else {n: ops[n] for n in FEW if n in ops}


def _called(op):
    """(PyTorch's overload with out=, that without, arguments) for a sample of the operator; None without one."""
    found = sample(op)
    packet = getattr(torch.ops.aten, op.name, None)
    if found is None or op.aten.out not in getattr(packet, "overloads", list)():
        return None
    values, static = found
    places = op.spans(static)
    given = {}
    for a in op.dynamic:
        read = [values[i] if values[i] is None else torch.as_tensor(values[i]) for i in places[a.name]]
        given[a.name] = read if a.is_list else read[0] if a.is_tensor or read[0] is None else read[0].item()
    given |= {a.name: x for a, x in zip(op.static, static, strict=False) if not isinstance(x, torchlike.dtype)}
    plain = op.aten.inplace or op.schema.overload or "default"
    return (getattr(packet, op.aten.out), getattr(packet, plain), given) if plain in packet.overloads() else None


@pytest.mark.filterwarnings("ignore")
def test_what_is_declared_of_outputs_is_what_pytorch_does():
    checked = []
    for name, op in _declared().items():
        called = _called(op)
        if called is None:
            continue
        into, plain, given = called
        takes = {a.name for a in plain._schema.arguments}
        got = attempt(lambda f=plain, names=takes, g=given: f(**{k: v for k, v in g.items() if k in names}))
        if isinstance(got, Exception):
            continue
        results = got if isinstance(got, tuple | list) else (got,)
        outs = [torch.empty(r.shape, dtype=OTHER[r.dtype]) for r in results]
        written = [a.name for a in into._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        named = {k: v for k, v in given.items() if k in {a.name for a in into._schema.arguments}}
        named |= dict(zip(written, outs, strict=True))
        refused = isinstance(attempt(lambda f=into, k=named: f(**k)), Exception)
        assert refused == ("exact" in op.out), (name, sorted(op.out))
        checked.append(name)
    assert len(checked) > 20, checked


EXACT = {
    "view copies": lambda t: t.expand_copy(t.ones(2), (3, 2), out=t.empty(3, 2, dtype=t.float64)),
    "several view copies": lambda t: t.unbind_copy(t.ones(1, 2), out=(t.empty(2, dtype=t.float64),)),
    "svd": lambda t: t.svd(t.eye(2), out=(t.empty(2, 2), t.empty(2, dtype=t.float64), t.empty(2, 2))),
    "slice_scatter": lambda t: t.slice_scatter(t.ones(3), t.ones(3), out=t.empty(3, dtype=t.float64)),
    "nuclear_norm": lambda t: t.nuclear_norm(t.eye(2), out=t.empty((), dtype=t.float64)),
    "masked_select": lambda t: t.masked_select(t.ones(2), t.ones(2) > 0, out=t.empty(2, dtype=t.float64)),
    "cummax": lambda t: t.cummax(t.ones(2), 0, out=(t.empty(2), t.empty(2, dtype=t.int32))),
    "logcumsumexp": lambda t: t.logcumsumexp(t.ones(2), 0, out=t.empty(2, dtype=t.float64)),
    "softplus": lambda t: t._C._nn.softplus(t.ones(2), out=t.empty(2, dtype=t.float64)),
    "gelu": lambda t: t._C._nn.gelu(t.ones(2), out=t.empty(2, dtype=t.float64)),
}


@pytest.mark.parametrize("f", EXACT.values(), ids=EXACT)
def test_composites_do_not_cast_either(f):
    agree_error(f, "(?i)dtype|scalar.type")


SEVERAL = {
    "sort": lambda t, out: t.sort(t.ones(2), out=out),
    "svd": lambda t, out: t.svd(t.eye(2), out=out),
    "linalg.lstsq": lambda t, out: t.linalg.lstsq(t.eye(2), t.eye(2), out=out),
    "histogram": lambda t, out: t.histogram(t.ones(2), 3, out=out),
    "native_batch_norm": lambda t, out: t.native_batch_norm(
        t.ones(1, 2), None, None, None, None, True, 0.1, 1e-5, out=out
    ),
}


@pytest.mark.parametrize("f", SEVERAL.values(), ids=SEVERAL)
def test_outputs_are_as_many_as_the_results(f):
    agree_error(lambda t: f(t, (t.empty(0),)), "expected tuple of . elements but got 1")


def test_outputs_are_as_many_as_the_copies():
    agree_error(
        lambda t: t.unbind_copy(t.ones(2, 2), out=[t.empty(2)]), "expected an out= argument of size 2, got size 1"
    )


COMPOSITES = {
    "linalg.cond": lambda t, new: t.linalg.cond(t.eye(2), out=new()),
    "linalg.tensorinv": lambda t, new: t.linalg.tensorinv(t.eye(2), 1, out=new()),
    "linalg.tensorsolve": lambda t, new: t.linalg.tensorsolve(t.eye(2), t.ones(2), out=new()),
    "norm nuc": lambda t, new: t.norm(t.eye(2), "nuc", out=new()),
    "svd": lambda t, new: t.svd(t.eye(2), out=(new(), new(), new())),
    "nonzero": lambda t, new: t.nonzero(t.eye(2), out=new().long()),
    "histogram": lambda t, new: t.histogram(t.ones(2), 3, out=(new(), new())),
    "fft.ihfft": lambda t, new: t.fft.ihfft(t.ones(2), out=new().to(t.complex64)),
    "t_copy": lambda t, new: t.t_copy(t.eye(2), out=new()),
    "unbind_copy": lambda t, new: t.unbind_copy(t.ones(2, 2), out=[new(), new()]),
    "slice_scatter": lambda t, new: t.slice_scatter(t.ones(3), t.ones(3), out=new()),
}


@pytest.mark.parametrize("f", COMPOSITES.values(), ids=COMPOSITES)
def test_outputs_of_composites_tell_that_they_are_resized(f):
    for lib in (torch, torchlike):
        with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
            f(lib, lambda t=lib: t.ones(7))
        f(lib, lambda t=lib: t.empty(0))


@pytest.mark.parametrize("f", COMPOSITES.values(), ids=COMPOSITES)
def test_outputs_of_composites_are_on_their_device(f):
    for lib in (torch, torchlike):
        with pytest.raises((RuntimeError, NotImplementedError), match="device|Meta"):
            f(lib, lambda t=lib: t.empty(0, device="meta"))


def test_a_cast_of_the_pseudo_inverse():
    agree(lambda t: t.linalg.pinv(t.eye(2), out=t.empty(2, 2, dtype=t.float64)))
    agree_error(
        lambda t: t.linalg.matrix_rank(t.eye(2), out=t.empty(0, dtype=t.bool)), "but got result with dtype Bool"
    )


def test_outputs_that_are_cast():
    agree(lambda t: t.stack([t.ones(2), t.zeros(2)], out=t.empty(2, 2, dtype=t.float64)))
    agree(lambda t: t.addr(t.ones(2, 2), t.ones(2), t.ones(2), out=t.empty(2, 2, dtype=t.float64)))


SHARED = {
    "index_add_": lambda t, x: x.index_add_(0, x, x.clone()),
    "index_add_, the source": lambda t, x: x.index_add_(0, x.clone(), x),
    "index_add_, a part": lambda t, x: x.index_add_(0, t.tensor([0, 1]), x[:2]),
    "index_copy_": lambda t, x: x.index_copy_(0, x, x.clone()),
    "index_fill_": lambda t, x: x.index_fill_(0, x, 0),
    "scatter_": lambda t, x: x.scatter_(0, x, 1),
    "scatter_, the source": lambda t, x: x.scatter_(0, x.clone(), x),
    "scatter_add_": lambda t, x: x.scatter_add_(0, x, x.clone()),
    "scatter_reduce_": lambda t, x: x.scatter_reduce_(0, x.clone(), x, "amax"),
    "index_reduce_": lambda t, x: x.index_reduce_(0, x.clone(), x, "prod"),
    "put_": lambda t, x: x.put_(x, x.clone()),
    "index_put_": lambda t, x: x.index_put_((x,), x.clone()),
    "index_put_, the values": lambda t, x: x.index_put_((x.clone(),), x),
    "masked_fill_, a part": lambda t, x: (lambda m: m[1:].masked_fill_(m[:-1], False))(x > 0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("f", SHARED.values(), ids=SHARED)
def test_what_is_written_is_no_other_input(f):
    agree_error(lambda t: f(t, t.tensor([2, 1, 0])), "unsupported operation: .*single memory location")


def test_names_of_forms_that_stand_alone():
    assert {name.removesuffix("_") for name in INPLACE} <= {op.name for op in REGISTRY.values()}


EXPANDED = [
    lambda t, z: (z.expand(2, 3).masked_fill_(t.tensor([[True, False, False], [False, True, False]]), 3.0), z),
    lambda t, z: (z[:1].expand(6).index_put_((t.tensor([2, 1, 0]),), t.full((3,), 5.0)), z),
    lambda t, z: (z.masked_fill_(z > 1, z[0]), z),
]


@pytest.mark.filterwarnings("ignore:Use of")
@pytest.mark.parametrize("f", EXPANDED)
def test_expanded_tensors_that_are_written_all_the_same(f):
    agree(lambda t: f(t, t.tensor([0.0, 1.0, 2.0])))


def test_a_warning_of_expanded_tensors():
    for lib in (torch, torchlike):
        with pytest.warns(UserWarning, match="Use of index_put_ on expanded tensors is deprecated"):
            lib.zeros(1).expand(3).index_put_((lib.tensor([0]),), lib.tensor(1.0))
