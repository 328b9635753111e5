"""Adaptive softmax: rare classes in clusters."""

from collections import namedtuple
from collections.abc import Sequence

from torchlike._base.dtypes import int64
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS
from torchlike.nn import functional as F
from torchlike.nn.modules.container import ModuleList, Sequential
from torchlike.nn.modules.linear import Linear
from torchlike.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])
cat = FUNCTIONS["cat"]


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of many classes, of which the frequent ones come first, and their loss.

    Args:
        in_features: size of an input.
        n_classes: number of classes.
        cutoffs: the classes at which clusters start; those before the first are in the head.
        div_value: by how much each cluster's hidden size is less than that of the one before.
        head_bias: whether the head has a bias.

    ``forward(input, target)``, of [N, in_features] and [N] or of [in_features] and [], gives
    ``(output, loss)``: the log probability of each target, and minus their mean.

    Raises:
        ValueError: cutoffs that are no increasing positive integers below ``n_classes``.
        RuntimeError: inputs and targets that do not fit, or a target out of range.

    >>> import torchlike as torch
    >>> m = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 100, cutoffs=[10, 50])
    >>> m(torch.randn(4, 16), torch.tensor([1, 20, 60, 99])).output.shape
    torch.Size([4])
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        ordered = cutoffs == sorted(set(cutoffs)) and all(int(c) == c for c in cutoffs)
        if not ordered or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where "
                "each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        kind = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **kind)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden, size = int(in_features // div_value ** (i + 1)), self.cutoffs[i + 1] - self.cutoffs[i]
            first = Linear(in_features, hidden, bias=False, **kind)
            self.tail.append(Sequential(first, Linear(hidden, size, bias=False, **kind)))

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        _check(input_, target_)
        input = input_ if target_.dim() else input_.unsqueeze(0)
        target = target_ if target_.dim() else target_.unsqueeze(0)
        used, batch = 0, target.size(0)
        output, in_head = input.new_zeros(batch), target.new_empty(batch)
        edges = [0, *self.cutoffs]
        for i, (low, high) in enumerate(zip(edges, edges[1:], strict=False)):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:  # a cluster without targets gets no gradient
                continue
            used += rows.numel()
            chosen = target.index_select(0, rows) - low
            if i == 0:
                in_head.index_copy_(0, rows, chosen)
                continue
            local = F.log_softmax(self.tail[i - 1](input.index_select(0, rows)), dim=1)
            in_head.index_fill_(0, rows, self.shortlist_size + i - 1)
            output.index_copy_(0, rows, local.gather(1, chosen.unsqueeze(1)).squeeze(1))
        if used != batch:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, in_head.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if target_.dim() else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            at = self.shortlist_size + i
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, at : at + 1])
        return cat(parts, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities [N, n_classes] of all classes for ``input`` [N, in_features]."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The class [N] of greatest probability for each row of ``input`` [N, in_features]."""
        head = self.head(input)
        output = head.argmax(dim=1).to(int64)
        rare = output >= self.shortlist_size
        if not rare.any():
            return output
        rows = rare.nonzero().squeeze(1)
        best = self._get_full_log_prob(input.index_select(0, rows), head.index_select(0, rows)).argmax(dim=1)
        return output.index_copy(0, rows, best)


def _check(input: Tensor, target: Tensor) -> None:
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.dim() == 1 and input.size(0) != target.size(0):
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with size "
            f"{input.size()}"
        )
