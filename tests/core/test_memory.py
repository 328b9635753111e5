"""Memory: what a graph keeps, when it lets go, and that nothing waits for the cycle collector."""

import gc
import warnings
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchlike as torch
from torchlike._base import exhausted
from torchlike._executor.recorded import cut
from torchlike.interop import from_jax

N = 64


@pytest.fixture(autouse=True)
def no_collector():
    """Reference counts alone must do: a cycle would show as an object that is still there."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def live():
    """Bytes of the large arrays that exist."""
    cut()
    return sum(a.nbytes for a in jax.live_arrays() if a.size >= N * N)


ARRAY = N * N * 4  # bytes of one float32 array of the tests


def leaf():
    return torch.ones(N, N, requires_grad=True)


def warm(f):
    """Run once, so that compiled constants and caches are there before anything is counted."""
    f()
    gc.collect()
    return f


# -- what is kept --------------------------------------------------------------------------------------


def test_a_graph_keeps_only_what_its_backward_reads():
    def kept(f):
        x = leaf()
        y = f(x)
        start = live()
        nodes = []
        for _ in range(5):
            y = f(y)
            nodes.append(y.grad_fn)
        return (live() - start) / ARRAY - 1  # all but y itself

    constant = torch.ones(N, N)
    functions = {
        "add": (lambda y: y + 1, 0),
        "scale": (lambda y: y * 2, 0),
        "linear in what is differentiated": (lambda y: y * constant, 0),
        "sub": (lambda y: y - constant, 0),
        "neg": (lambda y: -y, 0),
        "view and clone": (lambda y: y.t().clone(), 0),
        "square": (lambda y: y * y, 5),
        "exp": (lambda y: y.exp(), 4),  # the results, the last of which is y
        "no_grad": (lambda y: y.detach() * y.detach(), 0),
    }
    for name, (f, expected) in functions.items():
        warm(lambda: kept(f))  # noqa: B023
        got = kept(f)
        assert got <= max(expected, 0) + 0.01, f"{name}: {got} arrays are kept, expected {expected}"
        assert got >= expected - 1.01, f"{name}: {got} arrays are kept, {expected} are read"


def test_backward_frees_as_it_goes():
    """Going back through n saved arrays never needs more than them and a few gradients."""
    steps, peaks, before = 12, [], live()

    def run(record):
        x = leaf()
        y = x
        for _ in range(steps):
            y = y.sin()
            if record:
                y.register_hook(lambda g: peaks.append((live() - before) / ARRAY))
        total = y.sum()
        del y
        start = (live() - before) / ARRAY
        total.backward()
        return start

    warm(lambda: run(False))
    start = run(True)
    assert steps <= start <= steps + 1.01, f"the forward keeps {start} arrays"
    assert len(peaks) == steps
    assert max(peaks) <= start + 3.01, f"{max(peaks)} arrays at the peak, {start} before the backward"
    assert peaks[-1] <= 5.01, f"{peaks[-1]} arrays at the end: what was used was not freed"
    for n, (before, after) in enumerate(zip(peaks, peaks[1:], strict=False)):
        assert after <= before + 0.01, f"step {n} freed nothing: {before} arrays, then {after}"


def test_a_retained_graph_keeps_its_values_until_it_is_dropped():
    def run():
        x = leaf()
        start = live()
        y = x.exp().exp().sum()
        y.backward(retain_graph=True)
        kept = live() - start
        y.backward()
        x.grad = None
        freed = live() - start
        return kept / ARRAY, freed / ARRAY

    warm(run)
    kept, freed = run()
    assert kept == pytest.approx(3, abs=0.1) and freed == pytest.approx(0, abs=0.1)


def test_gradients_are_added_in_place_without_copies():
    def run():
        start, x = live(), leaf()
        for _ in range(3):
            (x * 2).sum().backward()
        return (live() - start) / ARRAY

    warm(run)
    assert run() == pytest.approx(2, abs=0.1)


def test_views_cost_nothing_until_they_are_read():
    x = torch.ones(N, N)
    start = live()
    views = [x.t(), x.view(-1), x[:, None], x.expand(3, N, N), x.unfold(0, N, 1)]
    assert live() == start
    assert len(views) == 5


def test_an_in_place_loop_does_not_pile_up():
    def run():
        start, x = live(), torch.ones(N, N)
        row = x[0]
        for _ in range(20):
            x.add_(1)
            row.mul_(2)
        return (live() - start) / ARRAY

    warm(run)
    assert run() <= 1.01


# -- graphs die with their tensors -----------------------------------------------------------------------


def nodes_of(*tensors):
    """Weak references to every node below the tensors."""
    found, stack = {}, [t.grad_fn for t in tensors if t.grad_fn is not None]
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found[id(node)] = weakref.ref(node)
            stack += [n for n, _ in node.next_functions if n is not None]
            if hasattr(node, "inner"):
                stack.append(node.inner)
    return list(found.values())


def x_of_two():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def plain(x):
    return ((x * x).exp() + x).sum()


def in_place(x):
    y = x * 2
    y.mul_(3)
    y.add_(y.sum())
    y.exp_()
    return y


def by_itself(x):
    y = x * 2
    y.mul_(y)
    return y


def copy_slices(x):
    y = x * 2
    first, view = y[0], y.view(2, 1)
    first.mul_(3)
    view.exp_()
    return y, first, view


def into_a_buffer(x):
    buffer = torch.zeros(2, 2)
    for i in range(2):
        buffer[i] = x * (i + 1)
    return buffer, buffer[0]


def multiple_views(x):
    parts = (x * 2).unbind(0)
    return parts[0] * parts[1], *parts


def hooks(x):
    y = x * 2
    y.register_hook(lambda g: g * x.detach())
    x.register_hook(lambda g: g + 1)
    y.grad_fn.register_hook(lambda gi, go: None)
    y.grad_fn.register_prehook(lambda g: None)
    return y.sum()


def retained(x):
    y = x * 2
    y.retain_grad()
    z = y.exp()
    z.retain_grad()
    return z


def no_grad_views(x):
    y = x * 2
    with torch.no_grad():
        view = y[0]
    return y, view * 3


def higher_order(x):
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    return g * h


def metadata(x):
    y = x * 2
    y.grad_fn.metadata["note"] = [1]
    return y


def shape_changes(x):
    return torch.cat([x, x]).view(2, 2).t().contiguous().sum(0).expand(3, 2)


BUILDERS = [
    plain, in_place, by_itself, copy_slices, into_a_buffer, multiple_views, hooks, retained, no_grad_views,
    higher_order, metadata, shape_changes,
]  # fmt: skip


def tensors_of(out):
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize("build", BUILDERS)
def test_a_graph_dies_with_its_tensors(build):
    x = x_of_two()
    out = build(x)
    nodes, tensors = nodes_of(*tensors_of(out)), [weakref.ref(t) for t in tensors_of(out)]
    assert nodes and all(ref() is not None for ref in nodes)
    del out
    assert not [ref() for ref in (*nodes, *tensors) if ref() is not None]


@pytest.mark.parametrize("build", [b for b in BUILDERS if b is not by_itself])
def test_after_a_backward_too(build):
    x = x_of_two()
    out = build(x)
    nodes, tensors = nodes_of(*tensors_of(out)), [weakref.ref(t) for t in tensors_of(out)]
    tensors_of(out)[0].sum().backward()
    leaf_ref, grad_ref = weakref.ref(x), weakref.ref(x.grad)
    del out
    assert not [ref() for ref in (*nodes, *tensors) if ref() is not None]
    del x
    assert leaf_ref() is None and grad_ref() is None


def test_a_leaf_does_not_keep_its_graph():
    x = x_of_two()
    nodes = nodes_of(x * 2)
    assert not [ref() for ref in nodes if ref() is not None]
    sink = weakref.ref((x * 2).grad_fn.next_functions[0][0])
    assert sink() is None


def test_a_view_keeps_its_base_and_not_the_other_way():
    x = torch.ones(3)
    view = x[1:]
    x_ref, view_ref = weakref.ref(x), weakref.ref(view)
    del x
    assert view._base is x_ref()
    del view
    assert view_ref() is None and x_ref() is None


def test_a_removed_hook_lets_go():
    class Token:
        pass

    x, token = x_of_two(), Token()
    ref = weakref.ref(token)
    handle = x.register_hook(lambda g, token=token: None)
    del token
    assert ref() is not None
    handle.remove()
    assert ref() is None


def test_failing_calls_keep_nothing():
    """The exception is the only one that may refer to the arguments, and it goes."""
    x = x_of_two()

    def fail(call, y):
        try:
            call(y)
        except Exception:
            return nodes_of(y) + [weakref.ref(y)]
        raise AssertionError("it should have failed")

    calls = [
        lambda y: y + torch.ones(3), lambda y: y.add_(torch.ones(3)), lambda y: y.view(3), lambda y: y[5],
        lambda y: y.backward(), lambda y: torch.autograd.grad(y.sum(), torch.ones(2)), lambda y: y + "text",
        lambda y: (y.register_hook(lambda g: 1 // 0), y.sum().backward()), lambda y: y @ torch.ones(3),
    ]  # fmt: skip
    for call in calls:
        assert not [ref() for ref in fail(call, x * 2) if ref() is not None]


def test_a_create_graph_backward_makes_the_cycle_it_warns_of():
    """x.grad refers to the graph that refers to x: the collector, or resetting .grad, ends it."""
    x = x_of_two()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x * x).sum().backward(create_graph=True)
    nodes = nodes_of(x.grad)
    x.grad = None
    assert not [ref() for ref in nodes if ref() is not None]


# -- what is too much ----------------------------------------------------------------------------------

HUGE = 1 << 24, 1 << 24  # no address space holds it


@jax.custom_vjp
def greedy(x):
    return x * 2


greedy.defvjp(lambda x: (x * 2, None), lambda _, g: (jnp.sort(jnp.broadcast_to(g, HUGE))[0, :1],))


def in_backward(x):
    from_jax(greedy)(x.requires_grad_()).sum().backward()
    return x.grad


def expanded(x):
    return x.expand(HUGE) + 1


@pytest.mark.parametrize("f", [expanded, torch.compile(expanded), in_backward], ids=["eager", "compiled", "backward"])
@pytest.mark.parametrize("time", [1, 2])
def test_memory_that_does_not_suffice_is_pytorchs_error(f, time):
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        f(torch.ones(1)).tolist()
    assert (torch.ones(1) + 1).tolist() == [2]


READS = {  # each reads what a kernel that XLA had begun could not compute
    "list": lambda y: y.tolist(), "element": lambda y: y[0, 0, 0, 0, 0].item(), "text": str,
    "numpy": lambda y: y.numpy(), "array": np.asarray, "address": lambda y: y.data_ptr(),
    "equal": lambda y: torch.equal(y, y),
    "sum": lambda y: float(y.sum()), "a sum and one": lambda y: (y.sum() + 1).tolist(), "nonzero": torch.nonzero,
    "unique": lambda y: y.sum((1, 2, 3, 4)).unique(), "byte": lambda y: y.untyped_storage()[0],
    "index": lambda y: torch.ones(3)[y.sum().long()], "bool": lambda y: bool(y.max()),
}  # fmt: skip


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_could_not_be_computed_is_an_error_and_no_end_of_the_process(read):
    x, weight = torch.ones(1, 4, 8, 8, 8), torch.ones(4, 4, 3, 3, 3)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        read(torch.nn.functional.conv_transpose3d(x, weight, stride=5000))


@pytest.mark.parametrize(
    "said, told",
    [
        ("RESOURCE_EXHAUSTED: Too much.\nStatistics:\n  inputs: 1 GiB", "Too much.\nStatistics:\n  inputs: 1 GiB"),
        ("INTERNAL: Error: RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.", "Out of memory allocating 8 bytes."),
        ("INTERNAL: Error: Out of memory allocating 8 bytes.", "Out of memory allocating 8 bytes."),
    ],
)
def test_what_xla_says_of_memory_is_told_whole(said, told):
    assert str(exhausted.told(jax.errors.JaxRuntimeError(said))).endswith(f"can't allocate memory: {told}")
