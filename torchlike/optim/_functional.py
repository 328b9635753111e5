"""The steps of all optimizers as functions of lists of tensors."""

import math

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike._ops import optim_sparse as rules
from torchlike.optim._adafactor import adafactor as adafactor
from torchlike.optim._sparse import advance
from torchlike.optim.adadelta import adadelta as adadelta
from torchlike.optim.adagrad import adagrad as adagrad
from torchlike.optim.adam import adam as adam
from torchlike.optim.adamax import adamax as adamax
from torchlike.optim.adamw import adamw as adamw
from torchlike.optim.asgd import asgd as asgd
from torchlike.optim.nadam import nadam as nadam
from torchlike.optim.radam import radam as radam
from torchlike.optim.rmsprop import rmsprop as rmsprop
from torchlike.optim.rprop import rprop as rprop
from torchlike.optim.sgd import sgd as sgd


def sparse_adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    maximize: bool,
) -> None:
    """The step of :class:`SparseAdam` on lists of tensors, in place; ``state_steps`` count this step already."""
    for i, p in enumerate(params):
        step = state_steps[i]
        rate = lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        numbers = {"beta1": beta1, "beta2": beta2, "eps": eps, "rate": rate}
        with no_grad():
            advance(rules.sparse_adam, [p], [(exp_avgs[i], exp_avg_sqs[i])], numbers, (), maximize, [grads[i]])
