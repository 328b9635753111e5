"""What a dispatch mode sees of a backward is what it sees in PyTorch, and gradients are those without a mode."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from dispatch_kit import log_mode

import torchlike

pytestmark = pytest.mark.once

# What comes before the bar makes leaves (``r(*shape)``), what comes after it is differentiated.
MATRICES = """
x = r(4,3) | LA.qr(x)
x = r(3,4) | LA.qr(x)
x = r(3,4) | LA.qr(x)[1]
x = r(3,3) | torch.qr(x)
x = r(3,3,dtype=c) | LA.qr(x)
x = r(3,3) | LA.lu_factor(x)[0]
x = r(2,3,5) | LA.lu_factor(x)[0]
x = r(3,3) | LA.lu(x)
x = r(3,5) | LA.lu(x)[1]
x = r(3,5) | LA.lu(x)[2]
x = r(5,3) | LA.lu(x)[1]
x = r(5,3) | LA.lu(x)[2]
x = r(3,3,dtype=c) | LA.lu(x)
x = r(3,3) | LA.det(x)
x = r(3,3,dtype=c) | LA.det(x)
x = r(0,0) | LA.det(x)
x = r(3,3) | LA.slogdet(x)
x = r(3,3,dtype=c) | LA.slogdet(x)[1]
x = r(3,3) | torch.logdet(x@x.t()+torch.eye(3,dtype=d))
A = r(2,3,3); B = r(2,3,2) | LA.solve(A,B)
A = r(3,3); B = r(2,3,2) | LA.solve(A,B)
A = r(3,3); B = r(2,3) | LA.solve(A,B,left=False)
A = r(3,3); B = r(3,2) | LA.solve_ex(A,B)[0]
A = r(3,3); B = r(3,2) | LA.solve_triangular(A,B,upper=True)
A = r(3,3); B = r(2,3) | LA.solve_triangular(A,B,upper=False,left=False)
A = r(2,3,3); B = r(2,3,2) | LA.solve_triangular(A,B,upper=True,unitriangular=True)
A = r(3,3); B = r(2,3,2) | LA.solve_triangular(A,B,upper=True)
A = r(3,3).detach(); B = r(2,3,2) | LA.solve_triangular(A,B,upper=True)
A = r(3,3); B = r(2,3,2).detach() | LA.solve_triangular(A,B,upper=True)
A = r(3,3); B = r(3,2) | torch.triangular_solve(B,A)[0]
A = r(3,3); B = r(3,2) | torch.triangular_solve(B,A,upper=False,transpose=True)[0]
A = r(3,3,dtype=c); B = r(3,2,dtype=c) | torch.triangular_solve(B,A,upper=False,transpose=True)[0]
A = r(3,3); B = r(3,2) | torch.triangular_solve(B,A)
A = r(3,3).tril(); B = r(3,2) | torch.cholesky_solve(B,A)
A = r(3,3).triu(); B = r(3,2) | torch.cholesky_solve(B,A,True)
A = r(2,3,3).tril(); B = r(2,3,2) | torch.cholesky_solve(B,A)
A = r(3,3).tril() | torch.cholesky_inverse(A)
A = r(3,3).triu() | torch.cholesky_inverse(A,True)
A = r(3,3) | torch.cholesky_inverse(A)
A = r(2,3,3) | torch.cholesky_inverse(A,True)
x=torch.tensor([[1.,2.],[2.,4.]],requires_grad=True) | LA.det(x)
A = r(3,3) | torch.matrix_exp(A)
A = r(3,4) | LA.pinv(A)
A = r(4,3) | LA.pinv(A)
A = r(2,4,3) | LA.pinv(A)
A = r(3,3) | LA.pinv(A@A.t(),hermitian=True)
A = r(3,3); P=torch.tensor([2,3,3],dtype=torch.int32); B = r(3,2) | LA.lu_solve(A,P,B)
A = r(3,3); P=torch.tensor([2,3,3],dtype=torch.int32); B = r(3,2) | LA.lu_solve(A,P,B,adjoint=True)
A = r(3,3); P=torch.tensor([2,3,3],dtype=torch.int32); B = r(2,3) | LA.lu_solve(A,P,B,left=False)
A = r(3,3); P=torch.tensor([2,3,3],dtype=torch.int32); B = r(3,2) | torch.lu_solve(B,A,P)
A = r(3,5); P=torch.tensor([2,3,3],dtype=torch.int32) | torch.lu_unpack(A,P)
A = r(5,3); P=torch.tensor([2,3,3],dtype=torch.int32) | torch.lu_unpack(A,P)
A = r(3,3); P=torch.tensor([2,3,3],dtype=torch.int32) | torch.lu_unpack(A,P)
A = r(3,5); P=torch.tensor([2,3,3],dtype=torch.int32) | torch.lu_unpack(A,P)[2]
A = r(3,5); P=torch.tensor([2,3,3],dtype=torch.int32) | torch.lu_unpack(A,P)[1]
A = r(5,3); P=torch.tensor([2,3,3],dtype=torch.int32) | torch.lu_unpack(A,P)[1]
A = r(5,3); P=torch.tensor([2,3,3],dtype=torch.int32) | torch.lu_unpack(A,P)[2]
x = r(3,3) | LA.eigvalsh(x)
x = r(2,3,3) | LA.eigh(x)[1].abs()
x = r(3,3) | (lambda q: (q[0], q[1].abs()))(LA.eigh(x))
x = r(4,3) | LA.svdvals(x)
x = r(4,3) | LA.svd(x,full_matrices=False)[2].abs()
x = r(3,4) | LA.svd(x,full_matrices=True)[1]
x = r(4,3) | (lambda q:(q[0].abs(),q[1]))(LA.svd(x,full_matrices=False))
x = r(3,4) | (lambda q:(q[0].abs(),q[1]))(LA.svd(x,full_matrices=False))
x = r(3,4) | (lambda q:(q[0].abs(),q[1],q[2].abs()))(LA.svd(x,full_matrices=False))
x = r(4,3) | (lambda q:(q[0].abs(),q[1],q[2].abs()))(LA.svd(x,full_matrices=False))
x = r(2,3,3) | (lambda q:(q[0].abs(),q[1],q[2].abs()))(LA.svd(x))
x = r(3,3) | LA.cond(x)
x = r(3,3) | torch.norm(x,'nuc')
"""
PRODUCTS = """
A = r(3,2); B = r(3,2) | A@B.t()
A = r(3,2); B = r(3,2) | A@B.T
A = r(3,2); B = r(3,2) | A@B.mT
A = r(3,2); B = r(3,2) | torch.mm(A,B.transpose(0,1))
A = r(3,2) | A@A.t()
A = r(2,3); B = r(2,3) | A.t()@B
A = r(2,3); B = r(3,2) | A.t()@B.t()
A = r(2,3).detach(); B = r(4,3) | A@B.t()
A = r(2,3).detach(); B = r(4,3) | torch.addmm(torch.zeros(4,dtype=d),A,B.t())
A = r(2,3); B = r(4,3) | torch.addmm(torch.zeros(4,dtype=d),A,B.t(),alpha=2)
A = r(2,3); B = r(4,3); c = r(4) | torch.addmm(c,A,B.t(),beta=2)
A = r(5,2,3); B = r(4,3) | A@B.t()
A = r(5,2,3); B = r(5,4,3) | A@B.transpose(1,2)
A = r(2,3); v = r(3) | A@v
A = r(2,3); v = r(2) | A.t()@v
A = r(2,3); v = r(2) | v@A
A = r(1,3); B = r(4,3) | A@B.t()
A = r(2,3); B = r(1,3) | A@B.t()
A = r(3,2); B = r(3,2) | A@B.clone().t()
A = r(4,6); B = r(5,3) | A[:,:3]@B.t()
A = r(4,3); B = r(5,6) | A@B[:,:3].t()
A = r(4,3); B = r(5,3) | (A*2)@(B*3).t()
A = r(3,2,dtype=c); B = r(3,2,dtype=c) | A@B.mH
A = r(3,2,dtype=c); B = r(3,2,dtype=c) | A@B.t()
"""
PLACES = """
x = r(4,5); i=torch.tensor([0,2,0]); y = r(3,5) | x.index_reduce(0,i,y,'mean')
x = r(4,5); i=torch.tensor([0,2,0]); y = r(3,5) | x.index_reduce(0,i,y,'mean',include_self=False)
x = r(4,5); i=torch.tensor([0,2,0]); y = r(3,5) | x.index_reduce(0,i,y,'amax')
x = r(4,5); i=torch.tensor([0,2,0]); y = r(3,5) | x.index_reduce(0,i,y,'amax',include_self=False)
x = r(4,5); i=torch.tensor([0,2,0]); y = r(3,5) | x.index_reduce(0,i,y,'prod')
x = r(4,5); i=torch.tensor([0,2,0]); y = r(3,5) | x.index_reduce(0,i,y,'prod',include_self=False)
x = r(); i=torch.tensor([0]); y = r() | x.index_reduce(0,i,y,'prod')
x = r(4,5); i=torch.tensor([[0,2,0,1,1],[0,0,0,0,0]]); y = r(2,5) | x.scatter_reduce(0,i,y,'sum')
x = r(4,5); i=torch.tensor([[0,2,0,1,1],[0,0,0,0,0]]); y = r(2,5) | x.scatter_reduce(0,i,y,'sum',include_self=False)
x = r(4,5); i=torch.tensor([[0,2,0,1,1],[0,0,0,0,0]]); y = r(2,5) | x.scatter_reduce(0,i,y,'mean')
x = r(4,5); i=torch.tensor([[0,2,0,1,1],[0,0,0,0,0]]); y = r(2,5) | x.scatter_reduce(0,i,y,'mean',include_self=False)
x = r(4,5); i=torch.tensor([[0,2,0,1,1],[0,0,0,0,0]]); y = r(2,5) | x.scatter_reduce(0,i,y,'amin')
x = r(4,5).round(); i=torch.tensor([[0,2,0,1,1],[0,0,0,0,0]]); y = r(2,5).round() | x.scatter_reduce(0,i,y,'amax')
x = r(4,5); i=torch.tensor([[0,2,0,1,1],[0,0,0,0,0]]); y = r(2,5) | x.scatter_reduce(0,i,y,'amin',include_self=False)
x = r(4,5); i=torch.tensor([[0,2,0,1,1],[0,0,0,0,0]]); y = r(2,5) | x.scatter_reduce(0,i,y,'prod')
x = r(4,5); i=torch.tensor([[0,2,0,1,1],[0,0,0,0,0]]); y = r(2,5) | x.scatter_reduce(0,i,y,'prod',include_self=False)
x = r(4,5); i=torch.tensor([[0,2,0,1,1],[0,0,0,0,0]]); y = r(2,5).detach() | x.scatter_reduce(0,i,y,'prod')
x = r(4,5).round(); i=torch.tensor([[0,2,0,1,1],[0,0,0,0,0]]); y = r(2,5).round() | x.scatter_reduce(0,i,y,'prod')
x = r(4); i=torch.tensor([0,2,0]); y = r(3) | x.clone().scatter_reduce_(0,i,y,'amax')
"""
ELEMENTS = """
x = r(3,4); y = r(3,4); z = r(3,4) | x.clamp(y,z)
x = r(3,4) | x.clamp(torch.zeros(4,dtype=d),torch.ones(4,dtype=d)*.5)
x = r(3); y = r(3) | torch.xlogy(x,y)
x=torch.zeros(3,dtype=d,requires_grad=True); y = r(3) | torch.xlogy(x,y-.5)
x = r(3); y = r(3).detach() | torch.xlogy(y,x)
x = r(3); y = r(3) | torch.special.xlog1py(x,y)
x = r(3) | torch.xlogy(2.,x)
x = r(3); y = r(3) | torch.copysign(x,y-.5)
x = r(3) | torch.copysign(x,-1.)
x = r(3); y = r(3) | torch.nextafter(x,y)
x = r(3); y = r(3) | torch.polar(x,y)
x = r(3) | (x/0).nan_to_num()
x = r(3,4) | x.nan_to_num()
x = r(4,3) | torch.trace(x)
x = r(3,4) | torch.trace(x)
x = r(3,4) | torch.var_mean(x)
x = r(2,3,4) | torch.var_mean(x,dim=(0,2))
x = r(3,4) | torch.std_mean(x,1,keepdim=True)
x = r(3,4) | x.cumprod(1)
x = r(3,4) | (x-x[0,1]).cumprod(1)
x = r(3,4) | (x*torch.tensor([[1.,0,1,0],[0,0,1,1],[1,1,1,0]])).cumprod(1)
x = r(3,4) | (x*torch.tensor([[1.,0,1,0],[0,0,1,1],[1,1,1,0]])).cumprod(0)
x = r(3,dtype=c) | x.cumprod(0)
x = r() | x.cumprod(0)
x = r(0,2) | x.prod()
x = r(2,0) | x.prod(1)
x = r() | x.transpose(0,0)
x = r(3) | x.cfloat()
x = r(3,4) | LA.vector_norm(x,1.5,dim=1)
x = r(3,4) | LA.vector_norm(x*0,1.5,dim=1)
x = r(3,4) | LA.vector_norm(x,0.5,dim=1)
x = r(3,4) | LA.vector_norm(x*torch.tensor([0,0,1.,1]),0.5,dim=1)
x = r(3,4) | LA.vector_norm(x,6)
x = r(3,4) | LA.vector_norm(x*0,6)
x = r(3,4) | LA.vector_norm(x,float('inf'),dim=1)
x = r(3,4) | LA.vector_norm(x/0,float('inf'),dim=1)
x = r(3,4) | LA.vector_norm((x*0).clone().fill_(float('nan'))*x,float('inf'),dim=1)
x = r(3,4) | x.norm(p=float('-inf'))
x = r(3,4) | x.norm(p=3)
x = r(3,4) | F.normalize(x)
x = r(3,4) | F.normalize(x,p=1)
x = r(3,4) | F.normalize(x,p=.5)
x = r(3,4,dtype=c) | LA.vector_norm(x,3,dim=1)
x = r(3,4,dtype=c) | LA.vector_norm(x,float('inf'),dim=1)
x = r(3,4); y = r(3,4) | F.cosine_similarity(x,y)
x = r(3,4); y = r(3,4) | F.cosine_similarity(x*0,y)
x = r(3,4); y = r(3,4) | F.cosine_similarity(x*1e-12,y)
x = r(3,4); y = r(1,4) | F.cosine_similarity(x,y)
x = r(3,4); y = r(3,4); v = r(3,4) | F.gaussian_nll_loss(x,y,v)
x = r(3,4); y = r(3,4); v = r(3,4) | F.gaussian_nll_loss(x,y,v*1e-9)
x = r(3,4); y = r(3,4); v = r(3,4) | F.gaussian_nll_loss(x,y,v,full=True,reduction='sum')
x = r(2,4,3); w = r(4); b = r(4) | F.instance_norm(x,weight=w,bias=b)
x = r(2,4,3) | F.instance_norm(x)
x = r(2,4,3,3); m=torch.zeros(4,dtype=d); v=torch.ones(4,dtype=d) | F.instance_norm(x,m,v)
x = r(2,4,3).detach(); w = r(4) | F.instance_norm(x,weight=w)
x = r(2,4,3); w = r(4) | F.group_norm(x,2,w)
x = r(2,4,3) | F.group_norm(x,2)
x = r(5,4) | F.multi_margin_loss(x,torch.tensor([0,1,2,3,0]))
x = r(5,4); w = r(4).detach() | F.multi_margin_loss(x,torch.tensor([0,1,2,3,0]),weight=w,p=2)
"""
LAYERS = """
x = r(2,4); w = r(1) | F.prelu(x-.5,w)
x = r(2,4,3); w = r(4) | F.prelu(x-.5,w)
x = r(2,4,3); w = r() | F.prelu(x-.5,w)
x = r(4); w = r(1) | F.prelu(x-.5,w)
x = r(2,4,3).detach(); w = r(4) | F.prelu(x-.5,w)
x = r(2,4,3); w = r(4).detach() | F.prelu(x-.5,w)
x = r(10) | x.put(torch.tensor([1,2]),torch.zeros(2,dtype=d))
x = r(0,1,4,5,4) | F.fractional_max_pool3d(x,(2,2,1),output_size=2)
x = r(10); y = r(2) | x.put(torch.tensor([1,-2]),y,accumulate=True)
x = r(5,2); y = r(1,2) | x.put(torch.tensor([[1,2]]),y)
x = r(1,1,6,6) | F.max_unpool2d(*F.max_pool2d(x,2,return_indices=True),2)
x = r(1,2,4,4,4) | F.max_unpool3d(*F.max_pool3d(x,2,return_indices=True),2)
x = r(5,4) | F.multilabel_margin_loss(x,torch.tensor([[0,1,-1,3]]*5))
x = r(4) | F.multilabel_margin_loss(x,torch.tensor([0,1,-1,3]),reduction='sum')
q = r(2,3,4); k = r(2,5,4); v = r(2,5,4) | sdpa(q,k,v)
q = r(2,3,4); k = r(2,5,4); v = r(2,5,4) | sdpa(q,k,v,is_causal=True)
q = r(2,3,4); k = r(2,5,4); v = r(2,5,4); m=torch.ones(3,5).tril().bool() | sdpa(q,k,v,attn_mask=m)
q = r(2,3,4); k = r(2,5,4); v = r(2,5,4); m = r(3,5) | sdpa(q,k,v,attn_mask=m)
q = r(2,2,3,4); k = r(2,2,5,4); v = r(2,2,5,4) | sdpa(q,k,v)
q = r(2,2,3,4); k = r(2,2,5,4); v = r(2,2,5,6) | sdpa(q,k,v)
x = r(2,4,3); w = r(4); b = r(4) | F.instance_norm(x,weight=w,bias=b)
x = r(2,4,3).detach(); w = r(4) | F.instance_norm(x,weight=w)
q = r(2,4,3,4); k = r(2,2,5,4); v = r(2,2,5,4) | sdpa(q,k,v,enable_gqa=True)
q = r(4,3,4); k = r(2,5,4); v = r(2,5,4) | sdpa(q,k,v,enable_gqa=True)
q = r(2,3,4); k = r(2,2,5,4); v = r(2,2,5,4) | sdpa(q,k,v)
q = r(2,2,3,4); k = r(2,2,5,4); v = r(2,2,5,4); m = r(3,5) | sdpa(q,k,v,attn_mask=m)
q = r(2,2,3,4); k = r(2,2,5,4); v = r(2,2,5,4); m=torch.ones(3,5).tril().bool() | sdpa(q,k,v,attn_mask=m)
q = r(2,3,4); k = r(2,5,4); v = r(2,5,4); m=torch.zeros(3,5).bool() | sdpa(q,k,v,attn_mask=m)
"""
# As the last ones, in other words than PyTorch's: their values alone are compared.
VALUES = """
x = r(3,3,dtype=c) | LA.slogdet(x)
x = r(1,6) | F.max_unpool1d(*F.max_pool1d(x,2,return_indices=True),2)
x = r(); y = r() | F.cosine_similarity(x,y,dim=0)
x = r(3,4,dtype=c) | LA.qr(x)
x = r(3,4,dtype=c) | torch.qr(x)
x = r(2,3,dtype=c); u = r(2,dtype=c); v = r(3,dtype=c) | torch.addr(x,u,v,beta=2-1j,alpha=1+2j)
x = r(2,3,dtype=c); a = r(2,4,dtype=c); b = r(4,3,dtype=c) | torch.addmm(x,a,b,beta=2-1j,alpha=1+2j)
x = r(2,3,dtype=c); y = r(2,3,dtype=c) | torch.cross(x,y,dim=1)
x = r(2,3,dtype=c); y = r(2,3,dtype=c) | LA.cross(x,y)
x = r(2,3,dtype=c) | x.prod()
x = r(2,3,dtype=c) | x.prod(1)
x = r(3) | 0.0**x
"""


# With the shapes of what they take: in which order operands of several shapes come, and what is broadcast when.
SHAPES = """
x = r(5,1); y = r(5) | torch.hypot(x,y)
x = r(5,1); y = r(5) | torch.logaddexp(x,y)
x = r(5,1); y = r(5) | torch.atan2(x,y)
x = r(5); y = r(5,10); z = r(10) | torch.addmv(x,y,z,beta=.5,alpha=.3)
x = r(5,10); y = r(5); z = r(10) | torch.addr(x,y,z,beta=.5,alpha=.3)
x = r(2,3); y = r(3); w = r(2,3) | torch.lerp(x,y,w)
x = r(2,3,dtype=c); y = r(3,dtype=c); w = r(3,dtype=c) | torch.lerp(x,y,w)
x = r(2,3); y = r(3) | torch.sub(x,y,alpha=2)
x = r(2,3); y = r(3) | torch.rsub(x,y,alpha=2)
x = r(2,3) | torch.rsub(x,3,alpha=2)
x = r(2,3,dtype=c); y = r(3,dtype=c) | torch.sub(x,y,alpha=2j)
x = r(2,3) | x.flip(())
x = r(); v = r() | x.masked_fill(torch.tensor(True),v)
x = r(2,3); y = r(3) | torch.div(x,y,rounding_mode="floor")
x = r(2,3); y = r(3) | torch.clamp(x,min=y)
x = r(2,3); y = r(3) | torch.clamp(x,max=y)
x = r(2,3); y = r(3); z = r(3).detach() | torch.clamp(x,y,z)
x = r(2,3); y = r(3).detach(); z = r(3) | torch.clamp(x,y,z)
x = r(2,1,3) | x.masked_select(torch.tensor([[True],[False],[True]]))
x = r(3,4) | F.normalize(x,p=1)
x = r(1,5); y = r(1,3) | torch.column_stack([x,y])
x = r(2,2,1,4) | torch.stack([x[0],x[1]],3)
x = r(5,5); y = r(1,5) | x.index_put((torch.tensor([2]),),y)
x = r(3,4,5); y = r(3,4,5).detach() | F.soft_margin_loss(x,y)
x = r(3); y = r(4,3) | F.linear(x,y)
x = r(5); w = r(1) | F.prelu(x-.5,w)
x = r(2,1) | x.cumsum(1)
x = r(1,2) | x.cumprod(0)
m = r(3); s = r(3) | torch.normal(m,s)*0
x = r() | x.topk(1)[0]
x = r() | x.max(0)[0]
x = r() | x.kthvalue(1)[0]
x = r(5,0,2) | torch.where(torch.ones(5,0,2)>0,x,2.)
x = r(0,2); y = r(0,1) | torch.maximum(x,y)
x = r(2,5,4) | torch.svd(x)[1]
x = r(5,4) | LA.norm(x,"nuc")
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


def backward(t, script: str, mode: bool, shapes: bool = False) -> tuple[list[str], list]:
    """(calls, gradients of the leaves) of one script."""
    numbers, leaves = np.random.RandomState(0), []

    def r(*shape, dtype=None):
        values = numbers.rand(*shape)
        values = values + 1j * numbers.rand(*shape) if dtype is not None and dtype.is_complex else values
        made = t.tensor(values, dtype=dtype or t.float64)
        leaves.append((made if made.numel() else t.zeros(shape, dtype=made.dtype)).requires_grad_())  # numpy's strides
        return leaves[-1]

    names = {"torch": t, "F": t.nn.functional, "LA": t.linalg, "r": r, "c": t.complex128, "d": t.float64}
    names["sdpa"] = t.nn.functional.scaled_dot_product_attention
    prelude, expression = script.split("|")
    exec(prelude.strip(), names)
    out = eval(expression, names)
    roots = [x for x in (out if isinstance(out, list | tuple) else [out]) if x.requires_grad]
    seeds = [(t.arange(1.0, x.numel() + 1, dtype=t.float64) % 7).reshape(x.shape).to(x.dtype) for x in roots]
    log = log_mode(t, arguments=shapes)
    if mode:
        with log:
            t.autograd.backward(roots, seeds)
    else:
        t.autograd.backward(roots, seeds)
    calls = [" ".join([line.split()[0], *re.findall(r"T\[[\d, ]*\]", line)]) for line in log.lines]
    return calls, [None if x.grad is None else x.grad.resolve_conj().numpy() for x in leaves]


def same(mine: list, theirs: list) -> None:
    for x, y in zip(mine, theirs, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("script", [s for t in (MATRICES, PRODUCTS, PLACES, ELEMENTS, LAYERS) for s in lines(t)])
def test_calls(script):
    calls, grads = backward(torchlike, script, True)
    theirs, expected = backward(torch, script, True)
    assert calls == theirs
    same(grads, expected)
    same(grads, backward(torchlike, script, False)[1])


@pytest.mark.parametrize("script", lines(SHAPES))
def test_calls_and_their_shapes(script):
    calls, grads = backward(torchlike, script, True, shapes=True)
    theirs, expected = backward(torch, script, True, shapes=True)
    assert calls == theirs
    same(grads, expected)
    same(grads, backward(torchlike, script, False)[1])


@pytest.mark.parametrize("script", lines(VALUES))
def test_values(script):
    grads = backward(torchlike, script, True)[1]
    same(grads, backward(torch, script, True)[1])
    same(grads, backward(torchlike, script, False)[1])
