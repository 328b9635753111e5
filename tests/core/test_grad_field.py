"""``.grad``: what may be assigned, what accumulates in place, and what shares memory with what."""

import pytest
from both import agree, attempt
from history_kit import double, leaf, no_grad
from story_kit import story


def message(f):
    """What an error says in its first sentence, or the result."""
    got = attempt(f)
    return f"{type(got).__name__}: {got}".partition(". ")[0].partition(" (in")[0] if isinstance(got, Exception) else got


# -- assignment ----------------------------------------------------------------------------------------

ASSIGNED = {
    "None": lambda t, x: None,
    "a fitting one": lambda t, x: double(t, 2, 3),
    "a number": lambda t, x: 3,
    "a list": lambda t, x: [1, 2],
    "text": lambda t, x: "grad",
    "itself": lambda t, x: x,
    "its data": lambda t, x: x.data,
    "detached itself": lambda t, x: x.detach(),
    "other shape": lambda t, x: double(t, 3, 2),
    "fewer dimensions": lambda t, x: double(t, 6),
    "scalar": lambda t, x: double(t),
    "one more dimension": lambda t, x: double(t, 1, 2, 3),
    "single": lambda t, x: double(t, 2, 3).float(),
    "half": lambda t, x: double(t, 2, 3).half(),
    "integers": lambda t, x: double(t, 2, 3).long(),
    "bools": lambda t, x: double(t, 2, 3) > 2,
    "complex": lambda t, x: double(t, 2, 3).to(t.complex128),
    "other device": lambda t, x: double(t, 2, 3).to("meta"),
    "transposed": lambda t, x: double(t, 3, 2).t(),
    "expanded": lambda t, x: double(t, 1, 3).expand(2, 3),
    "a view": lambda t, x: double(t, 4, 3)[1:3],
    "with history": lambda t, x: leaf(t, 2, 3) * 2,
    "a leaf that requires grad": lambda t, x: leaf(t, 2, 3),
    "a parameter": lambda t, x: t.nn.Parameter(double(t, 2, 3)),
    "a computation of itself": lambda t, x: x * 2,
}


@pytest.mark.parametrize("name", ASSIGNED)
def test_assignment(name):
    """A fitting gradient is kept as it is and added to; another is refused and changes nothing."""

    def f(t):
        x = leaf(t, 2, 3)
        given = ASSIGNED[name](t, x)
        got = message(lambda: setattr(x, "grad", given))
        kept = x.grad is given
        after = message(lambda: ((x * 2).sum().backward(), x.grad)[1])
        given = None if getattr(given, "is_meta", False) else given
        return got, kept, after, x.grad is given, given

    agree(f)


OWNERS = {
    "plain": lambda t: double(t, 2),
    "integers": lambda t: t.tensor([1, 2]),
    "computed": lambda t: leaf(t, 2) * 2,
    "complex": lambda t: double(t, 2).to(t.complex128).requires_grad_(),
    "single": lambda t: t.ones(2, requires_grad=True),
    "view": lambda t: leaf(t, 2, 2)[0],
    "meta": lambda t: t.ones(2, device="meta"),
}


@pytest.mark.parametrize("name", OWNERS)
def test_who_may_have_a_gradient(name):
    def f(t):
        x = OWNERS[name](t)
        gradient = t.ones(2, dtype=x.dtype, device=x.device)
        got = message(lambda: setattr(x, "grad", gradient))
        kept = x.grad is gradient
        x.grad = None
        return got, kept, x.grad, message(lambda: x._grad), message(lambda: delattr(x, "grad"))

    agree(f)


@story
def test_deletion(t):
    x = leaf(t, 2)
    x.sum().backward()
    del x.grad
    first = x.grad
    x.sum().backward()
    again = x.grad
    del x.grad
    del x.grad
    return first, again, x.grad


@story
def test_attributes_that_cannot_be_deleted(t):
    x = leaf(t, 2)
    names = "data", "requires_grad", "_grad_fn", "_backward_hooks", "grad_fn", "shape", "is_leaf", "_version", "_base"
    return [type(attempt(lambda: delattr(x, n))).__name__ for n in names]  # noqa: B023


@story
def test_attributes_that_cannot_be_set(t):
    x = leaf(t, 2)
    names = "grad_fn", "is_leaf", "_version", "_base", "output_nr", "shape", "dtype", "retains_grad", "device"
    return [type(attempt(lambda: setattr(x, n, None))).__name__ for n in names]  # noqa: B023


@story
def test_warnings_of_a_computed_tensor(t):
    import warnings

    x = leaf(t, 2)
    y = x * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = y.grad
        y.retain_grad()
        second = y.grad
        y.sum().backward()
        third = y.grad
    return first, second, third, [(str(w.message)[:80], w.category.__name__) for w in caught]


# -- accumulation --------------------------------------------------------------------------------------


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("start", ["none", "given", "given transposed", "given with history", "given view"])
def test_accumulation(start, create):
    """In place without ``create_graph``, a new tensor with it; aliases of the old one tell."""

    def f(t):
        x = leaf(t, 2, 3)
        old = {
            "none": lambda: None,
            "given": lambda: double(t, 2, 3),
            "given transposed": lambda: double(t, 3, 2).t(),
            "given with history": lambda: x * 2,
            "given view": lambda: double(t, 4, 3)[1:3],
        }[start]()
        x.grad = old
        alias = None if old is None else old.detach()
        version = None if old is None else old._version
        got = message(lambda: (x**2).sum().backward(create_graph=create))
        facts = x.grad is old, x.grad.requires_grad, x.grad.stride(), x.grad._version
        return got, facts, version, alias, x.grad.detach(), old if old is None else (old.detach(), old._version)

    agree(f)


@pytest.mark.parametrize("create", [False, True])
def test_a_gradient_given_to_backward(create):
    """Whether ``.grad`` is the tensor itself, or shares its memory."""

    def f(t):
        x, seed = leaf(t, 2), double(t, 2)
        x.backward(seed, create_graph=create)
        facts = x.grad is seed, x.grad.data_ptr() == seed.data_ptr(), x.grad.requires_grad
        x.grad.mul_(10)
        kept = x.grad
        x.backward(seed, create_graph=create)
        return facts, seed, x.grad.detach(), x.grad is kept, seed._version

    agree(f)


SEEDS = {
    "transposed": lambda t: double(t, 3, 2).t(),
    "expanded": lambda t: double(t, 1, 3).expand(2, 3),
    "part": lambda t: double(t, 2, 6)[:, ::2],
    "requires grad": lambda t: leaf(t, 2, 3),
    "computed": lambda t: leaf(t, 2, 3) * 2,
    "row": lambda t: double(t, 3, 3)[1:],
}


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("name", SEEDS)
def test_the_layout_of_a_new_gradient(name, create):
    def f(t):
        out = []
        for make in (
            lambda: leaf(t, 2, 3),
            lambda: double(t, 3, 2).t().requires_grad_(),
            lambda: double(t, 2, 6)[:, ::2].requires_grad_(),
            lambda: double(t, 1, 3).expand(2, 3).requires_grad_(),
            lambda: double(t, 2, 3)[None][0].requires_grad_(),
        ):
            x, seed = make(), SEEDS[name](t)
            x.backward(seed, create_graph=create)
            g = x.grad
            out.append((g.stride(), g.storage_offset(), g.requires_grad, g.data_ptr() == seed.data_ptr(), g.detach()))
        return out

    agree(f)


@story
def test_both_operands_of_a_sum(t):
    a, b = leaf(t, 2), leaf(t, 2)
    (a + b).backward(double(t, 2))
    shared = a.grad.data_ptr() == b.grad.data_ptr()
    a.grad.mul_(5)
    return shared, a.grad, b.grad


@story
def test_both_operands_of_a_sum_with_graph(t):
    a, b = leaf(t, 2), leaf(t, 2)
    (a + b).backward(double(t, 2), create_graph=True)
    shared = a.grad.data_ptr() == b.grad.data_ptr(), a.grad is b.grad
    a.grad.mul_(5)
    return shared, a.grad, b.grad, a.grad.requires_grad


@story
def test_one_leaf_twice(t):
    a, seed = leaf(t, 2), double(t, 2)
    (a + a).backward(seed)
    first = a.grad
    (a * 3 + a).backward(seed)
    return a.grad is first, a.grad, seed


@story
def test_same_leaf_as_both_inputs(t):
    a, seed = leaf(t, 2), double(t, 2)
    got = t.autograd.grad(a * 2, (a, a), seed)
    return got, got[0] is got[1]


@story
def test_the_gradient_is_a_leaf_without_history(t):
    x = leaf(t, 2)
    (x**2).sum().backward()
    g = x.grad
    return g.requires_grad, g.is_leaf, g.grad_fn, g._version, g._is_view(), g.grad, type(g).__name__, g is x.grad


@story
def test_versions_of_a_gradient(t):
    x = leaf(t, 2)
    (x**2).sum().backward()
    versions = [x.grad._version]
    (x**2).sum().backward()
    versions.append(x.grad._version)
    x.grad.zero_()
    versions.append(x.grad._version)
    (x**2).sum().backward()
    return versions, x.grad._version, x.grad


@story
def test_second_gradient_by_accumulation(t):
    x = leaf(t, 2)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    x.grad.sum().backward()
    return first is x.grad, x.grad.detach(), x.grad.requires_grad, first.detach()


@story
def test_second_gradient_with_graph(t):
    x = leaf(t, 2)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    x.grad.sum().backward(create_graph=True)
    return first is x.grad, x.grad.detach(), x.grad.requires_grad, first.detach()


@story
def test_gradient_accumulates_over_several_roots(t):
    x = leaf(t, 2)
    t.autograd.backward([x.sum(), (x * x).sum(), x], [None, None, double(t, 2)])
    return x.grad


@story
def test_zero_elements(t):
    a, b = t.rand(4, 0, requires_grad=True), t.rand(4, 1, requires_grad=True)
    (a + b).sum().backward()
    return a.grad, b.grad, a.grad.shape


@story
def test_zero_dimensional(t):
    x = t.tensor(3.0, requires_grad=True)
    (x * x).backward()
    first = x.grad
    x.backward()
    return x.grad, first is x.grad, x.grad.shape


@story
def test_dtypes_of_gradients(t):
    out = []
    for dtype in (t.float16, t.bfloat16, t.float32, t.float64, t.complex64, t.complex128):
        x = t.ones(2, dtype=dtype, requires_grad=True)
        (x.to(t.complex128) * 2).abs().sum().backward()
        out.append((str(x.grad.dtype), x.grad.shape))
    y = t.ones(2, requires_grad=True)
    (y * double(t, 2) * 1j).sum().abs().backward()
    return out, y.grad


@story
def test_seeds_of_other_dtypes(t):
    x = leaf(t, 2)
    out = []
    for seed in (t.ones(2), t.ones(2).half(), t.ones(2, dtype=t.int64), t.ones(2, dtype=t.complex64)):
        x.grad = None
        out.append(message(lambda: (x * 2).backward(seed)))  # noqa: B023
        out.append(x.grad)
    return out


@story
def test_assigned_through_data(t):
    x = leaf(t, 2)
    x.sum().backward()
    x.grad.data = double(t, 2) * 10
    x.sum().backward()
    x.grad.data.zero_()
    return x.grad, x.grad.is_leaf


@story
def test_in_place_on_a_gradient(t):
    x = leaf(t, 2)
    (x**2).sum().backward()
    g = x.grad
    g += 1
    x.grad *= 2
    return x.grad is g, x.grad, g._version


@story
def test_gradient_with_history_then_in_place(t):
    x = leaf(t, 2)
    (x**3).sum().backward(create_graph=True)
    x.grad.mul_(2)
    x.grad.sum().backward(inputs=[x])
    return x.grad.detach(), x.grad.requires_grad


@story
def test_views_of_a_leaf_have_no_gradient_of_their_own(t):
    x = leaf(t, 2, 2)
    v = x[0]
    v.retain_grad()
    x.retain_grad()
    (v * 3).sum().backward()
    return v.grad, x.grad, v.retains_grad, x.retains_grad, v.is_leaf


@story
def test_view_of_a_leaf_made_in_no_grad(t):
    x = leaf(t, 2, 2)
    with t.no_grad():
        v = x[0]
    w = x.detach()[0].requires_grad_()
    (w * 3).sum().backward()
    return v.requires_grad, v.is_leaf, v.grad, w.grad, x.grad, w._is_view()


@story
def test_channels_last(t):
    x = double(t, 2, 2, 2, 3).permute(0, 3, 1, 2).requires_grad_()
    (x * x).sum().backward()
    first = x.grad.stride()
    x.grad = None
    x.sum().backward()
    return first, x.grad.stride(), x.grad.is_contiguous(memory_format=t.channels_last)


@story
def test_shape_changed_by_data(t):
    x = leaf(t, 3)
    x.sum().backward()
    x.data = double(t, 2)
    kept = x.grad.shape
    got = message(lambda: x.sum().backward())
    x.grad = None
    x.sum().backward()
    return kept, type(got), x.grad


# -- retain_grad ---------------------------------------------------------------------------------------

RETAIN = {
    "plain": lambda t: double(t, 2),
    "leaf": lambda t: leaf(t, 2),
    "computed": lambda t: leaf(t, 2) * 2,
    "detached": lambda t: (leaf(t, 2) * 2).detach(),
    "in no_grad": lambda t: no_grad(t, lambda: leaf(t, 2) * 2),
    "integers": lambda t: t.tensor([1, 2]),
    "view": lambda t: leaf(t, 2, 2)[0],
}


@pytest.mark.parametrize("name", RETAIN)
def test_who_can_retain(name):
    def f(t):
        x = RETAIN[name](t)
        before = x.retains_grad
        got = message(lambda: x.retain_grad())
        twice = message(lambda: x.retain_grad())
        if x.requires_grad:
            (x * 2).sum().backward()
        return before, got, twice, x.retains_grad, x.grad

    agree(f)


@story
def test_retained_gradients(t):
    x = leaf(t, 2)
    h1 = x * 3
    out = (h1 * h1).sum()
    h1.retain_grad()
    h1.retain_grad()
    out.backward(retain_graph=True)
    first = h1.grad
    out.backward(retain_graph=True)
    second = h1.grad, h1.grad is first
    h1.grad.zero_()
    out.backward()
    return first, second, h1.grad, x.grad


@story
def test_retained_gradient_is_not_shared(t):
    x, seed = leaf(t, 2), double(t, 2)
    y = x + 1
    y.retain_grad()
    y.backward(seed)
    facts = y.grad is seed, y.grad.data_ptr() == seed.data_ptr(), y.grad.data_ptr() == x.grad.data_ptr()
    y.grad.mul_(100)
    return facts, x.grad, seed, y.grad


@story
def test_retained_gradient_with_graph(t):
    x = leaf(t, 2)
    y = x * x
    y.retain_grad()
    (y * y).sum().backward(create_graph=True)
    return y.grad.requires_grad, y.grad.is_leaf, t.autograd.grad(y.grad.sum(), x)


@story
def test_retained_gradient_and_inputs(t):
    x = leaf(t, 2)
    y = x * 2
    z = y * 3
    y.retain_grad()
    z.sum().backward(inputs=[x], retain_graph=True)
    first = y.grad
    z.sum().backward(inputs=[y], retain_graph=True)
    second = None if y.grad is None else y.grad.clone()
    grads = t.autograd.grad(z.sum(), x)
    return first, second, grads, y.grad, x.grad


@story
def test_a_retained_tensor_dies(t):
    x = leaf(t, 2)
    y = x * 2
    y.retain_grad()
    z = (y * y).sum()
    del y
    z.backward()
    return x.grad


@story
def test_hooks_see_what_is_retained(t):
    x, seen = leaf(t, 2), []
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    y.register_hook(lambda g: (seen.append(g.tolist()), g * 5)[1])
    y.sum().backward()
    return y.grad, x.grad, seen


@story
def test_retaining_a_root(t):
    x = leaf(t, 2)
    y = (x * 2).sum()
    y.retain_grad()
    y.backward()
    return y.grad, y.grad.shape


@story
def test_retaining_an_output_of_several(t):
    x = leaf(t, 4)
    a, b = x.split(2)
    b.retain_grad()
    (a.sum() + (b * 3).sum()).backward()
    return b.grad, x.grad, a.retains_grad, b.retains_grad


@story
def test_backward_with_inputs_fills_computed_tensors(t):
    x = leaf(t, 2)
    y = x * 2
    (y * y).sum().backward(inputs=[y])
    return y.grad, x.grad, y.retains_grad


# -- requires_grad -------------------------------------------------------------------------------------


@story
def test_requires_grad_follows(t):
    x = double(t, 2)
    facts = [x.requires_grad, x.requires_grad_().requires_grad, x.requires_grad_(False).requires_grad]
    x.requires_grad = True
    y = x * 2
    x.requires_grad = False
    z = x * 2
    errors = [attempt(lambda: setattr(x, "requires_grad", v)) for v in (1, None, "yes")]  # noqa: B023
    errors += [attempt(lambda: x.requires_grad_(v)) for v in (1, None, "yes")]  # noqa: B023
    return facts, y.requires_grad, z.requires_grad, errors, message(lambda: (y.sum().backward(), x.grad)[1])


@story
def test_requires_grad_of_every_dtype(t):
    names = "float16 bfloat16 float32 float64 complex64 complex128 int8 int32 int64 uint8 bool".split()
    got = []
    for dtype in [getattr(t, n) for n in names]:
        x = t.ones(1, dtype=dtype)
        ways = (
            lambda: x.requires_grad_(),  # noqa: B023
            lambda: setattr(x, "requires_grad", True),  # noqa: B023
            lambda: t.ones(1, dtype=dtype, requires_grad=True),  # noqa: B023
        )
        got += [str(attempt(way)).lower()[:30] for way in ways if not (x.is_floating_point() or x.is_complex())]
        got.append([(attempt(way), x.requires_grad) for way in ways])
    return got


# -- grad_dtype ----------------------------------------------------------------------------------------


@story
def test_grad_dtype_by_default(t):
    x = leaf(t, 2)
    tensors = x, t.ones(2), t.tensor([1]), x.detach(), x * 2, x[0]
    return [message(lambda: str(y.grad_dtype)) for y in tensors]  # noqa: B023


@story
def test_grad_dtype_set(t):
    x = leaf(t, 2)
    errors = [attempt(lambda: setattr(x, "grad_dtype", v)) for v in (3, "float32")]  # noqa: B023
    errors += [message(lambda: setattr(y, "grad_dtype", t.float32)) for y in (x * 2, x[0])]  # noqa: B023
    x.grad_dtype = t.float32
    errors.append(message(lambda: setattr(x, "grad", double(t, 2))))
    x.grad = t.ones(2)
    errors.append(message(lambda: setattr(x, "grad_dtype", t.float16)))
    kept = str(x.grad_dtype), x.grad
    x.grad = None
    x.grad_dtype = None
    x.grad = t.ones(2, dtype=t.float16)
    return errors, kept, x.grad_dtype, x.grad, str(x.detach().grad_dtype)
