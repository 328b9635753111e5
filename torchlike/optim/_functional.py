"""The steps of all optimizers as functions of lists of tensors."""

from torchlike._core.tensor.tensor import Tensor
from torchlike.optim._adafactor import adafactor as adafactor
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
    """NotImplementedError, as there are no sparse gradients, unless there is nothing to do."""
    if params:
        raise NotImplementedError("sparse_adam(): torchlike has no sparse gradients; use adam() for dense ones")
