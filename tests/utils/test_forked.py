"""Computing in the child of a fork, where XLA cannot."""

import contextlib
import multiprocessing
import os
import pickle
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchlike
from torchlike._executor import forked, immediate

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning"),
]


def in_child(f):
    """What ``f()`` gives in a child; what it raises is raised."""
    here, there = multiprocessing.Pipe()
    pid = os.fork()
    if not pid:
        here.close()
        signal.alarm(200)
        try:
            there.send((True, f()))
        except BaseException as error:
            there.send((False, error))
        finally:
            there.recv()  # memory of tensors is handed over by whoever sent them, as in PyTorch
            os._exit(0)
    there.close()  # so that a child that dies is told by the end of its messages
    try:
        fine, found = here.recv()
    finally:
        with contextlib.suppress(OSError):
            here.send(None)
        os.waitpid(pid, 0)
    if not fine:
        raise found
    return found


def grads():
    x = torchlike.arange(5.0).requires_grad_()
    (x.exp() * x).sum().backward()
    return x.grad


def network():
    torchlike.manual_seed(0)
    net = torchlike.nn.Sequential(torchlike.nn.Conv2d(1, 2, 3), torchlike.nn.BatchNorm2d(2), torchlike.nn.GELU())
    return net(torchlike.randn(2, 1, 5, 5)).detach()


BEFORE = torchlike.arange(24.0).reshape(4, 6)
CASES = {
    "by numpy": lambda: (BEFORE + 1)[1:3, ::2].clone(),
    "by the parent": lambda: BEFORE @ BEFORE.T,
    "draws": lambda: torchlike.randn(100, generator=torchlike.Generator().manual_seed(1)),
    "half": lambda: (BEFORE.bfloat16() @ BEFORE.bfloat16().T).float(),
    "complex": lambda: torchlike.fft.fft(BEFORE),
    "a library's routine": lambda: torchlike.linalg.eigvalsh(BEFORE[:, :4]),
    "small numbers": lambda: BEFORE * 1e-40,
    "backward": grads,
    "network": network,
    "vmap": lambda: torchlike.vmap(lambda x: x.sin().sum())(BEFORE),
    "compiled": lambda: torchlike.compile(lambda x: x.cos() * 2)(BEFORE),
    "empty": lambda: torchlike.ones(0, 3).sum(0),
    "of jax": lambda: np.asarray(jnp.sin(jnp.arange(100_003.0)).sum() + jnp.asarray(np.ones(200_001)).sum()),
    "gradient of jax": lambda: np.asarray(jax.grad(lambda x: (x**2).sum())(jnp.arange(3.0))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_child_computes_the_same(name):
    np.testing.assert_allclose(np.asarray(in_child(CASES[name])), np.asarray(CASES[name]()), rtol=2e-5, atol=1e-6)


def _copies_of_xla():
    """How many arrays XLA copies, where its threads may be gone, for numbers of the host."""
    counted, put = [], immediate.put_few
    immediate.put_few = lambda *given: counted.append(given) or put(*given)
    torchlike.tensor([1.0] * 4000), torchlike.randn(32), torchlike.zeros(32).normal_()
    immediate.put_few = put
    return len(counted)


def test_a_child_leaves_no_copy_to_xla():
    assert in_child(_copies_of_xla) == 0


def test_children_of_children():
    assert in_child(lambda: in_child(lambda: (BEFORE @ BEFORE.T).sum().item())) == (BEFORE @ BEFORE.T).sum().item()
    assert not forked.forked() and in_child(forked.forked)


def test_a_pool_of_processes():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(squared, [torchlike.tensor([1.0, 2.0]), 3.0]).get(60) == [5.0, 9.0]


def squared(x):
    return float((torchlike.as_tensor(x).reshape(1, -1) @ torchlike.as_tensor(x).reshape(-1, 1)).item())


def test_what_is_not_computed_yet():
    """In recorded execution a value may still be pending when the process forks."""
    x = BEFORE * 3
    assert in_child(lambda: x.tolist()) == (BEFORE * 3).tolist()


def test_errors():
    for message, f in {
        "shapes cannot be multiplied": lambda: BEFORE @ BEFORE,
        "out of (range|bounds)": lambda: BEFORE[9],
        "cannot run an operator that calls Python": lambda: jax.pure_callback(
            lambda: np.ones(2, np.float32), jax.ShapeDtypeStruct((2,), np.float32)
        ).block_until_ready(),
        "XLA cannot compile in a forked process": lambda: jax.jit(jnp.sin).lower(1.0).compile(),
    }.items():
        with pytest.raises(Exception, match=message):  # noqa: B017, PT011 - of types that differ
            in_child(f)


def test_the_parent_goes_on():
    pickle.loads(in_child(lambda: pickle.dumps(BEFORE.sum())))
    assert (BEFORE @ BEFORE.T).shape == (4, 4) and float(jnp.arange(3.0).sum()) == 3
