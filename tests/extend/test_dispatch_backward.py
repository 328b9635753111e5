"""What a dispatch mode sees is what it sees in PyTorch: the operators of backward, and their arguments."""

from __future__ import annotations

import pytest
from dispatch_kit import same_calls

BACKWARD = [
    "(xg*2).sum().backward()",
    "(xg*yg).sum().backward()",
    "(xg+yg).sum().backward()",
    "(xg/yg).sum().backward()",
    "(xg+bg[:4]).sum().backward()",
    "(xg*bg[:4]).sum().backward()",
    "(-xg).sum().backward()",
    "(xg**2).sum().backward()",
    "xg.exp().sum().backward()",
    "xg.relu().sum().backward()",
    "F.gelu(xg).sum().backward()",
    "F.leaky_relu(xg).sum().backward()",
    "xg.sin().sum().backward()",
    "xg.mean().backward()",
    "xg.mean(1).sum().backward()",
    "xg.sum(1).sum().backward()",
    "xg.max().backward()",
    "xg.max(1)[0].sum().backward()",
    "xg.view(12).sum().backward()",
    "xg.t().sum().backward()",
    "Bg.permute(2,0,1).sum().backward()",
    "xg[:,1:3].sum().backward()",
    "xg[idx].sum().backward()",
    "xg.expand(2,3,4).sum().backward()",
    "xg.clone().sum().backward()",
    "xg.double().sum().backward()",
    "torch.cat([xg,yg]).sum().backward()",
    "torch.stack([xg,yg]).sum().backward()",
    "torch.where(x>0,xg,yg).sum().backward()",
    "xg.masked_fill(x>0,0.).sum().backward()",
    "torch.mm(xg,mg).sum().backward()",
    "torch.addmm(bg,xg,mg).sum().backward()",
    "F.linear(xg,wg,bg).sum().backward()",
    "F.linear(xg,wg).sum().backward()",
    "F.linear(x,wg,bg).sum().backward()",
    "torch.bmm(Bg,Cg).sum().backward()",
    "(xg@mg[:,0]).sum().backward()",
    "(xg[0]@yg[0]).backward()",
    "xg.softmax(-1).sum().backward()",
    "F.log_softmax(xg,-1).sum().backward()",
    "F.nll_loss(xg,tgt).backward()",
    "F.mse_loss(xg,y).backward()",
    "F.layer_norm(xg,(4,),x[0],y[0]).sum().backward()",
    "F.layer_norm(xg,(4,),w_,b_).sum().backward() # w_=nn.Parameter(torch.ones(4));b_=nn.Parameter(torch.zeros(4))",
    "F.conv2d(imgg,kg).sum().backward()",
    "F.conv2d(imgg,kg,b_).sum().backward() # b_=nn.Parameter(torch.ones(4))",
    "F.avg_pool2d(imgg,2).sum().backward()",
    "F.dropout(xg,0.5).sum().backward()",
    "F.embedding(idx,wg).sum().backward()",
    "z=xg*1;z.add_(1);z.sum().backward()",
    "z=xg*1;z.mul_(2);z.sum().backward()",
    "z=xg*1;z[0].mul_(2);z.sum().backward()",
    "F.relu(xg*1,inplace=True).sum().backward()",
    "xg.sum().backward();xg.sum().backward()",
    "(xg+xg).sum().backward()",
    "(xg*xg).sum().backward()",
    "torch.autograd.grad(xg.sum(),xg)",
    "torch.autograd.grad((xg*2).sum(),xg,create_graph=True)",
    "opt.zero_grad() # lin=nn.Linear(2,3);lin(torch.ones(1,2)).sum().backward();opt=torch.optim.SGD(lin.parameters(),lr=.1)",
    "xg.cumsum(0).sum().backward()",
    "xg.clamp(0,1).sum().backward()",
    "xg.gather(1,idx[None]).sum().backward()",
    "xg.var(0).sum().backward()",
    "(1-xg).sum().backward()",
    "xg.logsumexp(0).sum().backward()",
    "xg.amax(0).sum().backward()",
    "F.binary_cross_entropy_with_logits(xg,x.sigmoid()).backward()",
]


@pytest.mark.parametrize("script", BACKWARD)
def test_calls_of_backward_and_their_arguments(script):
    same_calls(script)


RARER = [
    "xg.std().backward()",
    "xg.lerp(yg,0.3).sum().backward()",
    "torch.addcmul(xg,xg,yg,value=2).sum().backward()",
    "torch.maximum(xg,yg).sum().backward()",
    "xg.expm1().sum().backward()",
    "xg.cosh().sum().backward()",
    "xg.erf().sum().backward()",
    "xg.roll(1,0).sum().backward()",
    "xg.scatter(1,idx[None],1.).sum().backward()",
    "xg.index_add(0,idx,y[:2]).sum().backward()",
    "xg.diagonal().sum().backward()",
    "xg.sort(1)[0].sum().backward()",
    "xg.topk(2)[0].sum().backward()",
    "xg.var().backward()",
    "xg.movedim(0,1).sum().backward()",
    "xg.narrow(0,0,2).sum().backward()",
    "xg.unfold(0,2,1).sum().backward()",
]


@pytest.mark.parametrize("script", RARER)
def test_calls_of_rarer_backwards(script):
    same_calls(script, arguments=False)


NETWORKS = [
    "net(x).sum().backward() # net=nn.Sequential(nn.Linear(4,8),nn.ReLU(),nn.Linear(8,2))",
    "net.eval();net(img) # net=nn.Sequential(nn.Conv2d(3,4,3),nn.BatchNorm2d(4),nn.ReLU())",
    "F.gelu(ln(emb(idx))).sum().backward() # emb=nn.Embedding(5,4);ln=nn.LayerNorm(4)",
    "(z*z.sigmoid()).mean().backward() # z=nn.Linear(4,2)(x)",
    "net(img).sum().backward() # net=nn.ConvTranspose2d(3,4,2)",
    "F.binary_cross_entropy_with_logits(net(x).squeeze(1),torch.ones(3)).backward() # net=nn.Linear(4,1)",
    "loss=((net(x)-y)**2).mean();loss.backward() # net=nn.Linear(4,4)",
    "F.smooth_l1_loss(net(x),y).backward() # net=nn.Linear(4,4)",
    "torch.cat([net(x),x],1).pow(2).sum().sqrt().backward() # net=nn.Linear(4,4)",
    "F.log_softmax(net(x),1).exp().mean(0).max().backward() # net=nn.Linear(4,4)",
    "F.hardtanh(xg).sum().backward()",
    "F.elu(xg).sum().backward()",
    "F.cross_entropy(net(x),torch.tensor([0,1,1])).backward() # net=nn.Sequential(nn.Linear(4,8),nn.Tanh(),nn.Dropout(.1),nn.Linear(8,2))",
    "F.cross_entropy(net(img),torch.tensor([0,1])).backward() # net=nn.Sequential(nn.Conv2d(3,4,3),nn.ReLU(),nn.MaxPool2d(2),nn.Flatten(),nn.Linear(36,2))",
    "F.cross_entropy(net(img),torch.tensor([0,1])).backward() # net=nn.Sequential(nn.Conv2d(3,4,3),nn.BatchNorm2d(4),nn.ReLU(),nn.AvgPool2d(2),nn.Flatten(),nn.Linear(36,2))",
    "F.mse_loss(net(img),torch.zeros(2,2)).backward() # net=nn.Sequential(nn.Conv2d(3,4,3,padding=1,stride=2),nn.BatchNorm2d(4),nn.ReLU(),nn.AdaptiveAvgPool2d(1),nn.Flatten(),nn.Linear(4,2))",
    "q,k,v=lin(B).view(2,3,3,2,2).permute(2,0,3,1,4);o=F.scaled_dot_product_attention(q,k,v,is_causal=True).transpose(1,2).reshape(2,3,4);(B+proj(o)).sum().backward() # lin=nn.Linear(4,12);proj=nn.Linear(4,4)",
    "q,k,v=lin(B).split(4,dim=2);q=q.view(2,3,2,2).transpose(1,2);k=k.view(2,3,2,2).transpose(1,2);v=v.view(2,3,2,2).transpose(1,2);att=(q@k.transpose(-2,-1))*(1.0/2**.5);att=att.masked_fill(mask==0,float('-inf'));att=F.softmax(att,dim=-1);y=att@v;y=y.transpose(1,2).contiguous().view(2,3,4);proj(y).sum().backward() # lin=nn.Linear(4,12);proj=nn.Linear(4,4);mask=torch.tril(torch.ones(3,3)).view(1,1,3,3)",
    "logits=head(ln(tok(ids)+pos(torch.arange(3))));F.cross_entropy(logits.view(-1,7),ids.view(-1)).backward() # tok=nn.Embedding(7,4);pos=nn.Embedding(3,4);ln=nn.LayerNorm(4);head=nn.Linear(4,7,bias=False);ids=torch.tensor([[0,1,2],[3,4,5]])",
    "(net(x)/net(x).norm(dim=1,keepdim=True)).sum().backward() # net=nn.Linear(4,4)",
]


@pytest.mark.parametrize("script", NETWORKS)
def test_calls_of_a_training_step(script):
    same_calls(script, arguments=False)


# Nodes that PyTorch has more of than torchlike run at another place among those that do not depend on them.
REORDERED = [
    "net(B).sum().backward() # net=nn.TransformerEncoderLayer(4,2,8,dropout=0.,batch_first=True)",
    "net(B,B,B,need_weights=False)[0].sum().backward() # net=nn.MultiheadAttention(4,2,batch_first=True)",
    "torch.outer(xg[0],yg[0]).sum().backward()",
]


@pytest.mark.parametrize("script", REORDERED)
def test_calls_of_a_training_step_in_another_order(script):
    same_calls(script, arguments=False, order=False)
