"""Convolutions over eight CPUs, cut in every way, beside one: a script, run by ``test_sharding``."""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from checks_kit import Checks

import torchlike as torch
from torchlike import sharding
from torchlike._ops import _divided
from torchlike.nn import functional as F
from torchlike.sharding import PartitionSpec as P

warnings.simplefilter("error")
CHECKS = check = Checks()


def meshes():
    return sharding.make_mesh(a=2, b=4), sharding.make_mesh(a=8), sharding.make_mesh(a=2, b=2, c=2)


def numbers(*shape):
    return torch.arange(float(np.prod(shape))).mul(7).remainder(11).sub(5).reshape(*shape) / 8


def gradients(f, *arrays):
    """The result of a function and the gradients of what it is given."""
    arrays = [x.detach().requires_grad_() for x in arrays]
    y = f(*arrays)
    (y * numbers(*y.shape)).sum().backward()
    return [y.detach(), *[x.grad for x in arrays]]


def same(f, layouts, *arrays):
    """That ``f`` and its gradients are the same however its arrays lie: eagerly, and compiled over the first mesh."""
    want, layouts = gradients(f, *arrays), [*layouts]
    for mesh, *specs in layouts:
        laid = [x.shard(mesh, spec) for x, spec in zip(arrays, specs, strict=True)]
        for run in (gradients, torch.compile(gradients))[: 1 + (mesh is layouts[0][0])]:
            for ours, theirs in zip(run(f, *laid), want, strict=True):
                np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-4, 1e-4)


def cuts(ndim):
    """Meshes with layouts of an image and a weight, images cut by one axis where another cuts nothing among them."""
    two, one, three = meshes()
    rest = (None,) * (ndim - 1)
    yield two, P(None, None, *rest, "a"), P()
    yield two, P(None, None, "b"), P("a")
    yield two, P("a", None, *rest, "b"), P("a", "b")
    yield two, P("b", "a"), P(None, "a")
    yield one, P(None, None, "a"), P("a")
    yield three, P("a", None, "b"), P("c", None, "a" if ndim > 1 else None)


@check
def convolutions():
    for ndim, f in enumerate((F.conv1d, F.conv2d, F.conv3d), 1):
        x, w = numbers(8, 8, *(8, 8, 8)[:ndim]), numbers(8, 8, *(4, 4, 2)[:ndim])
        same(lambda x, w, f=f: f(x, w, padding=1), [*cuts(ndim)][:: 2 * ndim - 1], x, w)


@check
def strides_dilation_and_groups():
    for stride, dilation, groups in ((2, 1, 1), (1, 2, 2), (2, 1, 8)):
        def f(x, w, stride=stride, dilation=dilation, groups=groups):
            return F.conv2d(x, w, stride=stride, padding=2, dilation=dilation, groups=groups)

        two, one, _ = meshes()
        laid = [(two, P("a", "b"), P("b")), (two, P(None, None, "a"), P("b")), (one, P(None, None, "a"), P("a"))]
        same(f, laid, numbers(8, 8, 8, 8), numbers(16, 8 // groups, 3, 3))


@check
def transposed_convolutions():
    for groups in (1, 2):
        def f(x, w, groups=groups):
            return F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1, groups=groups)

        two, _, three = meshes()
        laid = [(two, P("b", None, "a"), P("a")), (three, P(None, None, "b", "a"), P(None, None))]
        same(f, laid, numbers(8, 8, 8, 8), numbers(8, 4, 3, 3))


@check
def networks_whose_images_are_cut():
    def losses(spread, compiled):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), torch.nn.AvgPool2d(2), torch.nn.ConvTranspose2d(8, 3, 4, 4),
        )
        if spread is not None:
            torch.distribute(net, spread)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            loss = (net(x) - x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        step, x = torch.compile(step) if compiled else step, numbers(4, 3, 16, 16)
        x = x if spread is None else x.shard(spread, ("a", None, "b"))
        return [step(x).item() for _ in range(4)]

    want = losses(None, False)
    mesh = sharding.make_mesh(a=2, b=4)
    for compiled in (False, True):
        np.testing.assert_allclose(losses(mesh, compiled), want, 1e-5)


@check
def transforms():
    two, _, _ = meshes()
    x, w = numbers(4, 8, 8), numbers(8, 8, 3)
    scales = torch.tensor([1.0, -2.0, 3.0])

    def loss(x, w):
        return F.conv1d(x, w, padding=1).sin().sum()

    def many(x, w):
        return torch.func.vmap(lambda s: torch.func.grad(loss, (0, 1))(x * s, w * s))(scales)

    def curved(x, w):
        return torch.func.jvp(lambda w: torch.func.grad(loss, (0, 1))(x, w), (w,), (w,))[1]

    for f, spec in itertools.product((many, curved), (P(None, None, "a"), P("a", "b"))):
        for ours, theirs in zip(f(x.shard(two, spec), w.shard(two, ("a",))), f(x, w), strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-4, 1e-4)


@check
def programs_of_jax():
    two, _, _ = meshes()
    x, w = numbers(4, 8, 8), numbers(8, 8, 3)

    def grad(x, w):
        return jax.grad(lambda w: _divided.convolve(x, w, (1,), ((1, 1),), (1,), 1).sum())(w)

    want = grad(x.jax(), w.jax())
    got = jax.jit(grad)(x.shard(two, (None, None, "a")).jax(), w.shard(two, ("a",)).jax())
    np.testing.assert_allclose(got, want, 1e-4)
    assert not jnp.issubdtype(got.dtype, jnp.integer)


@check
def one_device_of_many_convolves_as_one():
    def f(x, w):
        return _divided.convolve(x, w, (1,), ((1, 1),), (1,), 1)

    text = jax.jit(f).lower(numbers(4, 8, 8).jax(), numbers(8, 8, 3).jax()).as_text()
    assert "CustomSPMDPartitioning" not in text


if __name__ == "__main__":
    CHECKS.run()
