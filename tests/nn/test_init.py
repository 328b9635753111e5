"""torch.nn.init: what is not random runs with torch and torchlike; what is random is tested by its statistics."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from agreement import agree

import torchlike

SHAPES = [(), (3,), (0,), (3, 0), (0, 3), (2, 3), (2, 3, 4), (2, 4, 3, 5), (4, 2, 3, 3, 3), (2, 3, 4, 5, 6, 7)]
NONLINEARITIES = ["linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]
NONLINEARITIES += ["sigmoid", "tanh", "relu", "leaky_relu", "selu", "gelu", "", 3]


@pytest.mark.parametrize("nonlinearity", NONLINEARITIES, ids=str)
def test_gain(nonlinearity):
    for param in (None, 0.2, 0, True, "x", 3):
        agree(lambda T, param=param: T.nn.init.calculate_gain(nonlinearity, param))


FILL = {
    "fans": lambda init, z: init._calculate_fan_in_and_fan_out(z),
    "fan_in": lambda init, z: init._calculate_correct_fan(z, "fan_in"),
    "fan_out": lambda init, z: init._calculate_correct_fan(z, "FAN_OUT"),
    "constant_": lambda init, z: init.constant_(z, 0.3),
    "ones_": lambda init, z: init.ones_(z),
    "zeros_": lambda init, z: init.zeros_(z),
    "eye_": lambda init, z: init.eye_(z),
    "dirac_": lambda init, z: init.dirac_(z),
    "dirac_ groups": lambda init, z: init.dirac_(z, 2),
}
RANDOM = {
    "uniform_": lambda init, z: init.uniform_(z, -1, 2),
    "normal_": lambda init, z: init.normal_(z, 3, 0.1),
    "trunc_normal_": lambda init, z: init.trunc_normal_(z),
    "xavier_uniform_": lambda init, z: init.xavier_uniform_(z),
    "xavier_normal_": lambda init, z: init.xavier_normal_(z, gain=2),
    "kaiming_uniform_": lambda init, z: init.kaiming_uniform_(z, a=math.sqrt(5)),
    "kaiming_normal_": lambda init, z: init.kaiming_normal_(z, mode="fan_out", nonlinearity="relu"),
    "orthogonal_": lambda init, z: init.orthogonal_(z),
    "sparse_": lambda init, z: init.sparse_(z, 0.5),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FILL)
def test_fill(name, shape):
    agree(lambda T: FILL[name](T.nn.init, T.full(shape, 7.0)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", RANDOM)
def test_random_fill(name, shape):
    def code(T):
        z = T.full(shape, 7.0)
        result = RANDOM[name](T.nn.init, z)
        return result is z, result.shape, result.dtype, bool((result == 7.0).any()), result.requires_grad

    agree(code)


@pytest.mark.parametrize("name", [*FILL, *RANDOM])
def test_parameters_are_filled_unrecorded(name):
    def code(T):
        p = T.nn.Parameter(T.zeros(4, 4))
        fill = {**FILL, **RANDOM}[name]
        result = fill(T.nn.init, p)
        return result is p, p.requires_grad, p.grad_fn, p.is_leaf, bool(p.isfinite().all())

    agree(code)


def test_dirac_and_eye_values():
    for shape, groups in [
        ((4, 3, 3), 1),
        ((2, 3, 3, 3), 1),
        ((4, 2, 3), 2),
        ((3, 2, 2, 2, 2), 1),
        ((2, 2, 4), 1),
        ((3, 2, 3), 2),
    ]:
        agree(lambda T, shape=shape, groups=groups: T.nn.init.dirac_(T.ones(shape), groups))
    agree(lambda T: T.nn.init.eye_(T.ones(3, 2, dtype=T.int32)))
    agree(lambda T: T.nn.init.constant_(T.zeros(2, dtype=T.int32), 2))


ERRORS = {
    "mode": lambda T, init: init._calculate_correct_fan(T.zeros(2, 2), "x"),
    "mode 3": lambda T, init: init._calculate_correct_fan(T.zeros(2, 2), 3),
    "kaiming mode": lambda T, init: init.kaiming_uniform_(T.zeros(2, 2), mode="x"),
    "kaiming nonlinearity": lambda T, init: init.kaiming_uniform_(T.zeros(2, 2), nonlinearity="x"),
    "dirac groups": lambda T, init: init.dirac_(T.ones(3, 2, 3), 2),
    "trunc std": lambda T, init: init.trunc_normal_(T.zeros(3), std=0.0),
}
ERROR_TYPES = {
    "normal std": lambda T, init: init.normal_(T.zeros(2), std=-1),
    "uniform bounds": lambda T, init: init.uniform_(T.zeros(2), 2, 1),
    "trunc bounds": lambda T, init: init.trunc_normal_(T.zeros(3), a=3, b=1),
    "list": lambda T, init: init.zeros_([1]),
    "int normal": lambda T, init: init.normal_(T.zeros(2, dtype=T.int64)),
    "complex orthogonal": lambda T, init: init.orthogonal_(T.zeros(3, 2, dtype=T.complex64)),
}


@pytest.mark.parametrize("name", [*ERRORS, *ERROR_TYPES])
def test_errors(name):
    agree(lambda T: {**ERRORS, **ERROR_TYPES}[name](T, T.nn.init), message=name in ERRORS)


def test_warnings():
    def far(T):
        return bool(T.nn.init.trunc_normal_(T.zeros(10), mean=5.0).isfinite().all())

    agree(far)
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        far(torchlike)
    with pytest.warns(UserWarning, match="zero-element tensors is a no-op"):
        torchlike.nn.init.kaiming_uniform_(torchlike.zeros(0, 2))
    with pytest.warns(FutureWarning, match="`nn.init.constant` is now deprecated in favor of `nn.init.constant_`"):
        assert torchlike.nn.init.constant(torchlike.zeros(2), 5).tolist() == [5.0, 5.0]


def test_former_names():
    names = [n for n in dir(torch.nn.init) if n[0] != "_" and callable(getattr(torch.nn.init, n)) and n.islower()]
    for name in names:
        assert getattr(torchlike.nn.init, name).__name__ == name, name
    for name in ("uniform", "normal", "eye", "dirac", "xavier_normal", "kaiming_uniform", "orthogonal"):
        agree(
            lambda T, name=name: getattr(T.nn.init, name)(T.zeros(2, 2, 1) if name == "dirac" else T.zeros(2, 2)).shape
        )


# -- statistics ------------------------------------------------------------------------------------------
def sample(fill, *shape):
    torchlike.manual_seed(0)
    return fill(torchlike.empty(*shape)).numpy().ravel()


def close(samples, mean, std):
    n = len(samples)
    return abs(samples.mean() - mean) < 5 * std / math.sqrt(n) and abs(samples.std() - std) < 5 * std / math.sqrt(n)


init = torchlike.nn.init
MOMENTS = {
    "uniform": (partial(init.uniform_, a=-1, b=3), (100, 50), 1, 4 / math.sqrt(12)),
    "normal": (partial(init.normal_, mean=2, std=3), (100, 50), 2, 3),
    "xavier_uniform": (init.xavier_uniform_, (100, 60), 0, math.sqrt(2 / 160)),
    "xavier_normal": (partial(init.xavier_normal_, gain=2), (40, 10, 5), 0, 2 * math.sqrt(2 / 250)),
    "kaiming_uniform": (partial(init.kaiming_uniform_, a=math.sqrt(5)), (100, 60), 0, math.sqrt(1 / 3 / 60)),
    "kaiming_uniform fan_out": (partial(init.kaiming_uniform_, mode="fan_out"), (50, 60, 2), 0, math.sqrt(2 / 100)),
    "kaiming_normal": (partial(init.kaiming_normal_, nonlinearity="tanh"), (100, 60), 0, 5 / 3 / math.sqrt(60)),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(name):
    fill, shape, mean, std = MOMENTS[name]
    assert close(sample(fill, *shape), mean, std)


@pytest.mark.parametrize("mean,std,a,b", [(0, 1, -2, 2), (1, 2, 0, 2), (0, 1, 1, 5), (0, 0.02, -2, 2)])
def test_truncated_normal(mean, std, a, b):
    from scipy.stats import truncnorm

    expected = truncnorm((a - mean) / std, (b - mean) / std, mean, std)
    x = sample(partial(init.trunc_normal_, mean=mean, std=std, a=a, b=b), 100, 60)
    assert x.min() >= a and x.max() <= b and close(x, expected.mean(), expected.std())


@pytest.mark.parametrize("shape", [(4, 4), (4, 2), (2, 4), (3, 2, 5), (6, 2, 2)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_orthogonal(shape, dtype):
    w = init.orthogonal_(torchlike.empty(shape, dtype=getattr(torchlike, dtype)), gain=2.0).double().numpy()
    w = w.reshape(shape[0], -1)
    product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(
        product, 4 * np.eye(len(product)), atol={"float64": 1e-12, "float16": 2e-2}.get(dtype, 1e-5)
    )


@pytest.mark.parametrize("sparsity", [0.0, 0.35, 0.5, 1.0, 2.0])
def test_sparse(sparsity):
    agree(lambda T: (T.nn.init.sparse_(T.ones(10, 6), sparsity) == 0).sum(0))

    def given(T):
        T.manual_seed(2)
        return T.nn.init.sparse_(T.ones(5, 7), sparsity, generator=T.Generator().manual_seed(3))

    agree(given)
    columns = (init.sparse_(torchlike.ones(30, 20), 0.5) == 0).numpy().T
    assert len({c.tobytes() for c in columns}) > 15


def test_generator_decides():
    for fill in [f for name, f in RANDOM.items() if name != "sparse_"]:  # its zeros lie where the default one says
        first, again, other = (fill(Seeded(seed), torchlike.empty(4, 3)) for seed in (1, 1, 2))
        assert first.tolist() == again.tolist() != other.tolist()


class Seeded:
    """torch.nn.init, each call of which gets a generator of this seed."""

    def __init__(self, seed):
        self.seed = seed

    def __getattr__(self, name):
        return partial(getattr(init, name), generator=torchlike.Generator().manual_seed(self.seed))


LAYERS = {
    "Linear": lambda nn: nn.Linear(2, 3),
    "Conv2d": lambda nn: nn.Conv2d(1, 2, 3),
    "ConvTranspose1d": lambda nn: nn.ConvTranspose1d(2, 1, 2, bias=False),
    "Bilinear": lambda nn: nn.Bilinear(1, 2, 1),
    "LSTM": lambda nn: nn.LSTM(2, 3),
    "GRUCell": lambda nn: nn.GRUCell(1, 2),
    "Embedding": lambda nn: nn.Embedding(4, 2, padding_idx=0),
    "MultiheadAttention": lambda nn: nn.MultiheadAttention(4, 2),
    "BatchNorm2d": lambda nn: nn.BatchNorm2d(2),
    "LayerNorm": lambda nn: nn.LayerNorm(2),
    "GroupNorm": lambda nn: nn.GroupNorm(1, 2),
    "RMSNorm": lambda nn: nn.RMSNorm(2),
    "PReLU": lambda nn: nn.PReLU(),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_start_by_what_stands_in_init(name, monkeypatch):
    """Programs that load weights put functions that do nothing there, and the numbers drawn next depend on it."""

    def calls(T):
        made = []
        for fill in ("kaiming_uniform_", "uniform_", "normal_", "ones_", "zeros_", "constant_", "xavier_uniform_"):
            monkeypatch.setattr(T.nn.init, fill, lambda t, *_, fill=fill, **__: made.append((fill, tuple(t.shape))))
        T.manual_seed(3)
        LAYERS[name](T.nn)
        return made, T.rand(2)

    agree(calls)
