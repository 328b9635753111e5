"""Convolutions over eight CPUs, cut in every way, beside one: a script, run by ``test_sharding``."""

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
    """That ``f`` and its gradients are the same however its arrays lie: compiled, and eagerly as they lie first."""
    want = gradients(f, *arrays)
    for i, (mesh, *specs) in enumerate(layouts):
        laid = [x.shard(mesh, spec) for x, spec in zip(arrays, specs, strict=True)]
        for run in (torch.compile(gradients), gradients)[: 1 + (i == 0)]:
            for ours, theirs in zip(run(f, *laid), want, strict=True):
                np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-4, 1e-4)


# XLA's own partitioner gets numbers wrong in each check of images that are cut. Lines are compiled sooner than images.


@check
def lines():
    two, _, three = meshes()
    laid = [
        (two, P("a", None, "b"), P("a", "b")),
        (two, P("b", "a"), P(None, "a")),
        (three, P(None, ("b", "c")), P("a")),
    ]
    same(lambda x, w: F.conv1d(x, w, padding=1), laid, numbers(8, 8, 8), numbers(8, 8, 4))


@check
def images_and_volumes():
    two, one, three = meshes()
    laid = [(one, P(None, None, "a"), P("a")), (three, P("a", None, "b", "c"), P("c"))]
    laid += [(two, P(None, None, "a"), P("b"))]
    same(lambda x, w: F.conv2d(x, w, stride=2, padding=2), laid, numbers(8, 8, 8, 8), numbers(16, 8, 3, 3))
    laid = [(two, P(None, None, None, None, "a"), P())]
    same(lambda x, w: F.conv3d(x, w, padding=1), laid, numbers(8, 8, 8, 8, 8), numbers(8, 8, 2, 2, 2))


@check
def groups_and_dilation():
    two, _, _ = meshes()
    for groups, spec in ((2, P("b", "a")), (8, P("a", "b"))):
        laid = [(two, spec, P("b"))][: 1 + groups]
        same(lambda x, w, n=groups: F.conv1d(x, w, groups=n), laid, numbers(8, 8, 8), numbers(16, 8 // groups, 3))
    x, w = numbers(8, 8, 8, 8), numbers(16, 4, 3, 3)
    same(lambda x, w: F.conv2d(x, w, dilation=2, padding=2, groups=2), [(two, P(None, None, "a"), P("b"))], x, w)


@check
def transposed_convolutions():
    two, _, three = meshes()

    def f(x, w, groups=1):
        g = F.conv_transpose2d if x.ndim == 4 else F.conv_transpose1d
        return g(x, w, stride=2, padding=1, output_padding=1, groups=groups)

    same(f, [(three, P(None, None, "b", "a"), P())], numbers(8, 8, 8, 8), numbers(8, 4, 3, 3))
    laid = [(two, P("b", None, "a"), P("a")), (two, P("b", "a"), P("a"))]
    same(lambda x, w: f(x, w, 2), laid, numbers(8, 8, 8), numbers(8, 4, 3))


@check
def networks_whose_images_are_cut():
    def losses(spread, compiled):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), torch.nn.ConvTranspose2d(8, 3, 2, 2),
        )  # fmt: skip
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
        x = x if spread is None else x.shard(spread, (None, None, "a"))
        return [step(x).item() for _ in range(3)]

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

    for f, spec in ((many, P(None, None, "a")), (many, P("a", "b")), (curved, P(None, None, "a"))):
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
