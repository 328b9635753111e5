"""A mode that lets everything pass changes nothing: values, gradients, history, strides, versions, random numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from dispatch_cases import BACKWARD, DERIVATIVES, FORWARD, NAMED, NETWORKS, RARER, REORDERED
from dispatch_kit import dispatch, world

import torchlike
from torchlike.utils._python_dispatch import BaseTorchDispatchMode

# Not in PyTorch's words or numbers, so not in the lists of equal calls: their values must be right all the same.
OTHERS = [
    "r = F.cross_entropy(xg,y.softmax(1)); r.backward()",
    "r = torch.einsum('ij,jk->ik',xg,mg); r.sum().backward()",
    "r = torch.isclose(x,y)",
    "r = F.cosine_similarity(xg,yg); r.sum().backward()",
    "r = F.one_hot(idx)",
    "r = xg.prod(); r.backward()",
    "r = torch.dist(xg,yg); r.backward()",
    "r = F.kl_div(xg.log_softmax(1),y.softmax(1),reduction='batchmean'); r.backward()",
    "r = xg.masked_select(x>0); r.sum().backward()",
    "r = xg[x>0]; r.sum().backward()",
    "r = net(B)[0]; r.sum().backward() # net=nn.LSTM(4,5,batch_first=True)",
    "r = net(B)[0]; r.sum().backward() # net=nn.GRU(4,5,batch_first=True)",
    "r = net(x); r.sum().backward() # net=nn.RMSNorm(4)",
    "r = net(B); r.sum().backward() # net=nn.TransformerEncoderLayer(4,2,8,dropout=.5)",
    "r = F.multi_head_attention_forward(B,B,B,4,2,W,None,None,None,False,0.,V,None,attn_mask=M)[0]; r.sum().backward() "
    "# W=torch.ones(12,4,requires_grad=True)/3;V=torch.eye(4);M=torch.tensor([[False,True],[True,False]])",
    "r = F.scaled_dot_product_attention(B,B,B,attn_mask=torch.ones(3,3).tril().bool())",
    "r = torch.stack([torch.rand(2),torch.rand(2)])",
    "r = x.normal_(), torch.randperm(5), torch.randint(2,9,(3,)), torch.bernoulli(x.sigmoid())",
    "r = torch.empty(3).exponential_(2.), torch.empty(3).uniform_(1,2), torch.multinomial(x.sigmoid(),2)",
    "x.squeeze_(); x.unsqueeze_(0); r = x.t_() if x.ndim==2 else x",
    "r = x.resize_(2,2)",
    "r = torch.autograd.grad((xg**3).sum(),xg,create_graph=True)[0]; r.sum().backward()",
    "r = torch.autograd.functional.hessian(lambda v: (v**3).sum(), x[0])",
    "z = xg*1; v = z[0]; v.mul_(yg[1]); r = z; z.sum().backward()",
    "z = xg*1; z[:,1] = yg[:,0]; r = z.exp(); r.sum().backward()",
    "z = xg*1; z.t()[2:].zero_(); r = z; z.pow(2).sum().backward()",
    "with torch.no_grad(): xg.add_(1); xg[0] = 7.",
    "r = F.conv1d(B,k1,padding=1,groups=3); r.sum().backward() # k1=torch.ones(3,1,3,requires_grad=True)",
    "r = nn.functional.conv_transpose2d(imgg,k.transpose(0,1),stride=2); r.sum().backward()",
    "r = F.interpolate(imgg,scale_factor=2,mode='bilinear'); r.pow(2).sum().backward()",
    "r = F.embedding_bag(torch.tensor([[0,1],[2,2]]),wg); r.sum().backward()",
    "opt.step() # l=nn.Linear(2,3);l(torch.ones(1,2)).sum().backward();opt=torch.optim.Adam(l.parameters(),lr=.1)",
]


def everything(script: str, mode: bool) -> dict:
    """All tensors that the script leaves, in terms that can be compared."""
    source, _, prelude = script.partition(" # ")
    torchlike.manual_seed(5)
    names = world(torchlike, prelude)
    if mode:
        with BaseTorchDispatchMode():
            exec(source, names)
    else:
        exec(source, names)
    found: dict = {}
    for name, value in names.items():
        if not name.startswith("__"):
            collect(found, name, value)
    return found


def collect(found: dict, name: str, value: object) -> None:
    if isinstance(value, torchlike.Tensor):
        fn = value.grad_fn
        found[name] = (
            value.detach(),
            (tuple(value.shape), value.dtype, value.requires_grad, fn and fn.name().removeprefix("Unsafe")),
        )
        if value.is_leaf and value.grad is not None:
            collect(found, name + ".grad", value.grad)
    elif isinstance(value, tuple | list):
        for i, v in enumerate(value):
            collect(found, f"{name}[{i}]", v)
    elif isinstance(value, torchlike.nn.Module):
        for n, v in (*value.named_parameters(), *value.named_buffers()):
            collect(found, f"{name}.{n}", v)


SCRIPTS = [*FORWARD[::4], *NAMED, *BACKWARD[::2], *RARER, *DERIVATIVES, *NETWORKS, *REORDERED, *OTHERS]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_mode_changes_nothing(script):
    if script.startswith("torch.empty") or "meta" in script:
        return
    bare, watched = everything(script, False), everything(script, True)
    assert bare.keys() == watched.keys()
    for name, (value, facts) in bare.items():
        other, other_facts = watched[name]
        if name != "o":  # a reshape is a view or a copy by the memory order of an attention's result
            assert facts == other_facts, name
        a, b = (np.asarray(t.resolve_conj().jax()) for t in (value, other))
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("t", [torch, torchlike])
@pytest.mark.parametrize(("keeps", "script"), [(False, "o.backward(g)"), (True, "o.sum().backward()")])
def test_a_gradient_that_somebody_holds_is_copied(t, keeps, script):
    """So what they do to it later does not change ``.grad``."""

    class Log(dispatch(t).TorchDispatchMode):
        results: list = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            self.results.append((str(func), out if keeps else None))
            return out

    a, b, g = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True), t.ones(2)
    with Log() as log:
        exec(script, {"o": a + b * 2, "g": g})
    g.fill_(7.0)
    assert (a.grad.tolist(), b.grad.tolist()) == ([1.0, 1.0], [2.0, 2.0])
    assert [name for name, _ in log.results].count("aten.copy_.default") == 1 + keeps
    log.results.clear()


@pytest.mark.parametrize("f", [torchlike.kron, torchlike.nn.functional.cosine_similarity, torchlike.tensordot])
def test_gradients_of_some_inputs_of_what_is_composed(f):
    a, b = (torchlike.rand(3, 3).requires_grad_() for _ in range(2))
    wanted = torchlike.autograd.grad(f(a, b).sum(), (b, a))
    with BaseTorchDispatchMode():
        got = torchlike.autograd.grad(f(a, b).sum(), (b, a))
        (alone,) = torchlike.autograd.grad(f(a, b.detach()).sum(), (a,))
    for x, y in zip(wanted, got, strict=True):
        assert torchlike.allclose(x, y)
    assert torchlike.allclose(alone, wanted[1])


def test_the_kit_has_modes_of_both_libraries():
    assert dispatch(torchlike).BaseTorchDispatchMode is BaseTorchDispatchMode
