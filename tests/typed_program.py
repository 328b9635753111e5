"""A program as users write it. `mypy` is its test: what it should see is asserted, and what is wrong must be found."""

from typing import assert_type

import torchlike as torch
import torchlike.nn.functional as F
from torchlike import Tensor, nn

x = torch.ones(2, 3)
assert_type(x, Tensor)
assert_type(x.sum(), Tensor)
assert_type(x.sum(1, keepdim=True), Tensor)
assert_type(x + 1, Tensor)
assert_type(2 * x @ x.T, Tensor)
assert_type(x[0, 1:], Tensor)
assert_type(x == x, Tensor)
assert_type(torch.add(x, x, alpha=2), Tensor)
assert_type(torch.cat([x, x], dim=1), Tensor)
assert_type(torch.max(x, 1).indices, Tensor)
assert_type(x.max(1)[0], Tensor)
assert_type(x.view(3, -1), Tensor)
assert_type(x.view([3, 2]).permute(1, 0).expand(2, 2, 3), Tensor)
assert_type(x.reshape(6).to("cpu", torch.float64), Tensor)
assert_type(x.split(1), tuple[Tensor, ...])
assert_type(x.shape[0], int)
assert_type(x.dim(), int)
assert_type(len(x), int)
assert_type(torch.linalg.inv(x), Tensor)
assert_type(torch.fft.fft(x), Tensor)
assert_type(torch.special.erf(x), Tensor)
assert_type(F.relu(x), Tensor)
assert_type(F.cross_entropy(x, x), Tensor)
assert_type(torch.float32, torch.dtype)
assert_type(torch.device("cpu"), torch.device)
assert_type(torch.is_tensor(x), bool)
x += 1
x.add_(1).clamp_(min=0)
for row in x:
    assert_type(row, Tensor)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.layer(x))


net = Net()
loss: Tensor = net(x).square().mean()
loss.backward()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
optimizer.step()
with torch.no_grad():
    pass

torch.oness(2)  # type: ignore[attr-defined]
x.summ()  # type: ignore[attr-defined]
torch.add(x)  # type: ignore[call-arg]
torch.add(x, other="a")  # type: ignore[arg-type]
torch.linalg.inv("a")  # type: ignore[arg-type]
x.permute("a")  # type: ignore[arg-type]
F.relu()  # type: ignore[call-arg]
F.reluu(x)  # type: ignore[attr-defined]
nn.Linear(2)  # type: ignore[call-arg]
x.sum(nodim="a")  # type: ignore[call-overload]
