"""torch.autograd.functional: products with Jacobians and Hessians, the matrices, and what strict mode refuses."""

import pytest
from both import agree, agree_error, attempt

import torchlike
import torchlike.autograd.functional

PRODUCTS = ["vjp", "jvp", "vhp", "hvp"]
MATRICES = ["jacobian", "hessian"]


def functional(t):
    return t.autograd.functional


def agree_messages(script):
    """As agree, where an error counts as its text."""

    def run(t):
        got = attempt(lambda: script(t))
        return [type(got).__name__, str(got)] if isinstance(got, Exception) else got

    agree(run)


def point(t, n=3, **keywords):
    return t.arange(1.0, n + 1.0, dtype=t.float64, **keywords)


# name: (function of t giving a function of tensors, points)
FUNCTIONS = {
    "cube": (lambda t: lambda a: a**3, 1),
    "linear": (lambda t: lambda a: a * 2, 1),
    "identity": (lambda t: lambda a: a, 1),
    "view": (lambda t: lambda a: a.flip(0)[:2] * a[0], 1),
    "a matrix": (lambda t: lambda a: t.outer(a, a), 1),
    "constant": (lambda t: lambda a: t.ones(3, dtype=t.float64), 1),
    "constant with history": (lambda t: lambda a: t.ones(3, dtype=t.float64, requires_grad=True) * 2, 1),
    "detached": (lambda t: lambda a: a.detach() * 2, 1),
    "integers": (lambda t: lambda a: a.long(), 1),
    "two inputs": (lambda t: lambda a, b: a**2 * b, 2),
    "one unused": (lambda t: lambda a, b: a**2, 2),
    "one linear": (lambda t: lambda a, b: a**2 + b, 2),
    "both ways": (lambda t: lambda a, b: (a * b, (a**2).sum(), b.sin()), 2),
    "a tuple of one": (lambda t: lambda a: (a**2,), 1),
    "indices too": (lambda t: lambda a: t.sort(a * a), 1),
    "at a kink": (lambda t: lambda a: (a - 2).abs() + (a - 2).relu(), 1),
    "no numbers": (lambda t: lambda a: a * float("nan"), 1),
    "lower precision": (lambda t: lambda a: a.float() ** 2, 1),
}
SCALARS = {
    "cubes": (lambda t: lambda a: (a**3).sum(), 1),
    "one element": (lambda t: lambda a: (a**3).sum().view(1, 1), 1),
    "linear": (lambda t: lambda a: a.sum(), 1),
    "squares": (lambda t: lambda a: (a * a).sum(), 1),
    "constant": (lambda t: lambda a: t.tensor(1.0, dtype=t.float64), 1),
    "constant with history": (lambda t: lambda a: t.ones((), dtype=t.float64, requires_grad=True) * 2, 1),
    "two inputs": (lambda t: lambda a, b: (a**2 * b.exp()).sum(), 2),
    "one unused": (lambda t: lambda a, b: (a**3).sum(), 2),
    "one linear": (lambda t: lambda a, b: (a**3).sum() + b.sum(), 2),
    "one detached": (lambda t: lambda a, b: (a**3).sum() + b.detach().sum(), 2),
    "mixed": (lambda t: lambda a, b: (a**3 * b**3).sum(), 2),
    "norm": (lambda t: lambda a: (a - 1).norm(), 1),
}
FLAGS = [{}, {"create_graph": True}, {"strict": True}, {"create_graph": True, "strict": True}]


def points_of(t, count, link):
    made = tuple((point(t, requires_grad=link)) / (i + 1) for i in range(count))
    return made[0] if count == 1 else made


def product(name, f, count, keywords, link):
    """The product along ones of the right shapes."""

    def run(t):
        func, points = f(t), points_of(t, count, link)
        if name == "vjp":
            found = func(*(points if count > 1 else (points,)))
            ones = tuple(t.ones_like(o) for o in found) if isinstance(found, tuple) else t.ones_like(found)
        else:
            ones = t.ones_like(points) if count == 1 else tuple(t.ones_like(p) for p in points)
        return getattr(functional(t), name)(func, points, ones, **keywords)

    return run


def comparable(name, f, keywords):
    """Not where a message differs: PyTorch on the dtype of zeros, and on which input a Jacobian is constant in."""
    if name == "jvp" and f in ("integers", "indices too"):
        return False
    return not (name == "jacobian" and f == "one linear" and len(keywords) == 2)


@pytest.mark.parametrize("keywords", FLAGS, ids=lambda k: "+".join(k) or "plain")
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name, keywords):
    for key, (f, count) in (FUNCTIONS if name in ("vjp", "jvp") else SCALARS).items():
        if comparable(name, key, keywords):
            agree_messages(product(name, f, count, keywords, link=False))
            agree_messages(product(name, f, count, keywords, link=True))


@pytest.mark.parametrize("keywords", [*FLAGS, {"vectorize": True}, {"vectorize": True, "create_graph": True}],
                         ids=lambda k: "+".join(k) or "plain")  # fmt: skip
@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name, keywords):
    for key, (f, count) in (FUNCTIONS if name == "jacobian" else SCALARS).items():
        for link in (False, True) if comparable(name, key, keywords) else ():
            agree_messages(
                lambda t, f=f, count=count, link=link: getattr(functional(t), name)(
                    f(t), points_of(t, count, link), **keywords
                )
            )


FORWARD = {
    "jacobian": {"vectorize": True, "strategy": "forward-mode"},
    "hessian": {"vectorize": True, "outer_jacobian_strategy": "forward-mode"},
}


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_forwards(name):
    for f, count in (FUNCTIONS if name == "jacobian" else SCALARS).values():
        for link in (False, True):
            agree_messages(
                lambda t, f=f, count=count, link=link: getattr(functional(t), name)(
                    f(t), points_of(t, count, link), **FORWARD[name]
                )
            )


SHAPES = {
    "0-dim": lambda t: (lambda a: a**2, t.tensor(3.0)),
    "0-dim to vector": lambda t: (lambda a: a * t.ones(3), t.tensor(3.0)),
    "empty input": lambda t: (lambda a: a.sum() * t.ones(2), t.ones(0)),
    "matrix": lambda t: (lambda a: a @ a.t(), t.arange(6.0).view(2, 3)),
    "not contiguous": lambda t: (lambda a: a**2, t.arange(6.0).view(2, 3).t()),
    "expanded": lambda t: (lambda a: a**2, t.ones(1).expand(3)),
    "mixed dtypes": lambda t: (lambda a, b: a**2 * b**2, (t.ones(2), t.ones(2, dtype=t.float64))),
    "complex to real": lambda t: (lambda a: a.abs() ** 2, t.tensor([1j, 2.0])),
    "half": lambda t: (lambda a: a.to(t.bfloat16) ** 2, t.ones(2, dtype=t.float16)),
}


@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("case", SHAPES)
def test_shapes_and_dtypes(case, vectorize):
    agree(lambda t: functional(t).jacobian(*SHAPES[case](t), vectorize=vectorize))


VECTORIZED = {
    "an output without elements": lambda t: (lambda a: (a[:0], a), t.ones(2)),
    "complex": lambda t: (lambda a: a**3, t.tensor([1j, 2.0])),
    "real to complex": lambda t: (lambda a: a * 1j, t.tensor([1.0, 2.0])),
}


@pytest.mark.parametrize("case", VECTORIZED)
def test_vectorized_only(case):
    agree(lambda t: functional(t).jacobian(*VECTORIZED[case](t), vectorize=True))


def test_complex_products():
    def script(t):
        z, v = t.tensor([1 + 2j, 3.0]), t.tensor([1.0, 2j])
        square = lambda a: a * a  # noqa: E731
        norm = lambda a: (a.real**2 + a.imag**2).sum()  # noqa: E731
        f = functional(t)
        return [f.vjp(square, z, v), f.jvp(square, z, v), f.vhp(norm, z, v), f.hvp(norm, z, v),
                f.hessian(norm, z, vectorize=True)]  # fmt: skip

    agree(script)


@pytest.mark.parametrize("name", [*PRODUCTS, *MATRICES])
def test_what_the_function_is_given(name):
    """A leaf; with create_graph, and an input that requires grad, a view of the input."""

    def script(t):
        seen = []

        def f(a):
            seen.append((a.is_leaf, a.requires_grad, a.grad_fn, a._base is x, t.is_grad_enabled()))
            return (a**3).sum()

        for x in (t.ones(2), t.ones(2, requires_grad=True)):
            for create in (False, True):
                v = () if name in MATRICES else (t.ones(()) if name == "vjp" else t.ones(2),)
                with t.no_grad():
                    getattr(functional(t), name)(f, x, *v, create_graph=create)
        return [(*s[:2], type(s[2]).__name__, *s[3:]) for s in seen]

    agree(script)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_can_be_differentiated(name):
    def script(t):
        x, v = point(t, requires_grad=True), point(t, requires_grad=True)
        f = (lambda a: a**4) if name in ("vjp", "jvp") else (lambda a: (a**5).sum())
        out, got = getattr(functional(t), name)(f, x, v, create_graph=True)
        return t.autograd.grad(got.sin().sum() + out.sum(), (x, v))

    agree(script)


@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("name", MATRICES)
def test_matrices_can_be_differentiated(name, vectorize):
    def script(t):
        x, y = point(t, requires_grad=True), point(t, requires_grad=True)
        f = (lambda a, b: a**3 * b) if name == "jacobian" else (lambda a, b: (a**4 * b**2).sum())
        got = getattr(functional(t), name)(f, (x, y), create_graph=True, vectorize=vectorize)
        total = sum(m.sin().sum() for row in got for m in (row if isinstance(row, tuple) else (row,)))
        return t.autograd.grad(total, (x, y))

    agree(script)


def test_nothing_is_left_on_the_inputs():
    def script(t):
        x, w = t.ones(3, requires_grad=True), t.ones(3, requires_grad=True)
        f = functional(t)
        results = [f.vjp(lambda a: a * w, x, t.ones(3)), f.jacobian(lambda a: a * w, x),
                   f.hessian(lambda a: (a * w).sum() ** 2, x)]  # fmt: skip
        return [results, x.grad is None, w.grad is None]

    agree(script)


def test_direction_left_out():
    agree(lambda t: [
        functional(t).vjp(lambda a: a.sum(), t.ones(3)),
        functional(t).vjp(lambda a: a[:1], (t.ones(3),)),
        functional(t).jvp(lambda a: (a * 2, a), t.ones(1)),
        functional(t).hvp(lambda a: (a**2).sum(), t.ones(1, 1)),
        functional(t).vhp(lambda a: (a**2).sum(), t.ones(1)),
    ])  # fmt: skip


def bad(name, f, inputs, v=None, match=""):
    """``inputs`` and ``v`` are functions of t."""
    return pytest.param(name, f, inputs, v, match, id=f"{name}: {match[:40]}")


def one(t):
    return t.ones(3)


def scalar(a):
    return (a**3).sum()


BAD = [
    *[bad(n, scalar, lambda t: (one(t), 2), one, rf"inputs given to {n} must be either a Tensor or a tuple of Tensors "
          r"but the value at index 1 has type <class 'int'>") for n in PRODUCTS],
    *[bad(n, scalar, lambda t: [one(t)], one, rf"inputs given to {n} .* the given inputs has type <class 'list'>")
      for n in PRODUCTS],
    *[bad(n, lambda a: (scalar(a), "b"), one, one, rf"outputs of the user-provided function given to {n} must .* index "
          r"1 has type <class 'str'>") for n in PRODUCTS],
    *[bad(n, lambda a: [scalar(a)], one, one, rf"given to {n} .* user-provided function has type <class 'list'>")
      for n in PRODUCTS],
    *[bad(n, lambda a: a, one, lambda t: (one(t), 2), rf"The v given to {n} must .* index 1 has type <class 'int'>")
      for n in ("vjp", "jvp")],
    *[bad(n, lambda a: a, one, lambda t: 3, rf"The v given to {n} must .* the given v has type <class 'int'>")
      for n in ("vjp", "jvp")],
    *[bad(n, lambda a: a, one, lambda t: t.ones(4), r"v has invalid size: should be torch.Size\(\[3\]\) but got "
          r"torch.Size\(\[4\]\)") for n in ("vjp", "jvp")],
    *[bad(n, lambda a: a, one, lambda t: (one(t), one(t)), "The given v should contain a single Tensor")
      for n in ("vjp", "jvp")],
    bad("vjp", lambda a: (a, a), one, lambda t: (one(t),), "v is a tuple of invalid length: should be 2 but got 1"),
    bad("vjp", lambda a: (a, a), one, lambda t: (one(t), t.ones(2)), r"Entry 1 in v has invalid size: should be .*3"),
    bad("jvp", lambda a: a, lambda t: (one(t),), lambda t: (one(t), one(t)), "invalid length: should be 1 but got 2"),
    bad("vjp", lambda a: a, one, None, "v can only be None if the user-provided function returns a single Tensor"),
    *[bad(n, scalar, one, None, "v can only be None if the input to the user-provided function is a single Tensor")
      for n in ("jvp", "hvp", "vhp")],
    *[bad(n, lambda a: (scalar(a), scalar(a)), one, one, f"function given to {n} should return a single Tensor")
      for n in ("hvp", "vhp")],
    *[bad(n, lambda a: a * 2, one, one, f"returned by the function given to {n} should contain a single element")
      for n in ("hvp", "vhp")],
    *[bad(n, lambda a: a, lambda t: t.arange(3), one, "floating point") for n in ("vjp", "jvp")],
    bad("jvp", lambda a: a.long(), one, one, "floating point"),
    bad("vjp", lambda a: a, one, lambda t: one(t) * 1j, "complex64 and output.* has a dtype of torch.float32"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "f", "inputs", "v", "match"), BAD)
def test_refused_products(name, f, inputs, v, match):
    agree_error(lambda t: getattr(functional(t), name)(f, inputs(t), *(() if v is None else (v(t),))), match)


BAD_MATRICES = {
    "strategy": ({"strategy": "sideways"}, AssertionError, 'either "forward-mode" or "reverse-mode"'),
    "forward and graph": ({"strategy": "forward-mode", "create_graph": True}, NotImplementedError, "create_graph=True"),
    "forward and strict": ({"strategy": "forward-mode", "strict": True}, RuntimeError, "`strict=True` and `strategy="),
    "forward in a loop": ({"strategy": "forward-mode"}, NotImplementedError, "only implemented for `vectorize=True`"),
    "strict at once": ({"vectorize": True, "strict": True}, RuntimeError, "`strict=True` and `vectorized=True`"),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("case", BAD_MATRICES)
def test_refused_modes(case, name):
    keywords, error, match = BAD_MATRICES[case]
    if name == "hessian" and "strategy" in keywords:
        keywords = {**{k: v for k, v in keywords.items() if k != "strategy"},
                    "outer_jacobian_strategy": keywords["strategy"]}  # fmt: skip

    def run(t):
        try:
            getattr(functional(t), name)(scalar, one(t), **keywords)
        except error as e:
            raise type(e)(str(e).replace("isonly", "is only")) from None

    agree_error(run, match)


# name: (function of t and a tensor, the tensor)
FORWARDS = {
    "matrix": (lambda t, a: a @ a.t(), lambda t: t.arange(6.0).view(2, 3)),
    "not contiguous": (lambda t, a: a**2, lambda t: t.arange(6.0).view(2, 3).t()),
    "0-dim": (lambda t, a: a**2, lambda t: t.tensor(3.0)),
    "nothing in": (lambda t, a: a * 2, lambda t: t.ones(0)),
    "nothing out": (lambda t, a: a[:0], lambda t: t.ones(2)),
    "no output": (lambda t, a: (), lambda t: t.ones(2)),
    "complex": (lambda t, a: a**2, lambda t: t.tensor([1 + 2j, 3.0])),
    "complex to real": (lambda t, a: a.abs(), lambda t: t.tensor([1 + 2j, 3.0])),
    "real to complex": (lambda t, a: a * (1 + 2j), lambda t: t.ones(2)),
    "half": (lambda t, a: a.to(t.bfloat16) ** 2, lambda t: t.ones(2, dtype=t.float16)),
    "the input": (lambda t, a: a, lambda t: t.ones(2)),
    "in place": (lambda t, a: a.clone().mul_(a), lambda t: t.ones(2)),
    "in place on zeros": (lambda t, a: t.zeros(2).add_(a), lambda t: t.ones(2)),
    "a number of it": (lambda t, a: a * a.sum().item() if a.sum() > 0 else a, lambda t: t.ones(2)),
    "an array of it": (lambda t, a: a * t.tensor(a.detach().numpy()), lambda t: t.ones(2)),
    "a gradient": (lambda t, a: t.autograd.grad((a.requires_grad_() ** 3).sum(), a, create_graph=True)[0],
                   lambda t: t.ones(2)),
    "a network": (lambda t, a: t.nn.functional.softplus(a @ a.t()).log_softmax(-1), lambda t: t.eye(3) / 2),
}  # fmt: skip


@pytest.mark.parametrize("case", FORWARDS)
def test_forwards(case):
    f, x = FORWARDS[case]
    agree(lambda t: functional(t).jacobian(lambda a: f(t, a), x(t), **FORWARD["jacobian"]))


def test_forwards_the_function_runs_once():
    def script(t):
        seen = []
        x = one(t).requires_grad_()
        f = lambda a: seen.append((a.requires_grad, a.is_leaf, tuple(a.shape), t.is_grad_enabled())) or a * 2  # noqa: E731
        with t.no_grad():
            return functional(t).jacobian(f, x, **FORWARD["jacobian"]), seen

    agree(script)


def test_forwards_the_result_has_a_history():
    def script(t):
        x, y = one(t).requires_grad_(), one(t).requires_grad_()
        f = lambda p, q: (p**3 * q, (p * q**2).sum())  # noqa: E731
        (a, b), (c, d) = functional(t).jacobian(f, (x, y), **FORWARD["jacobian"])
        return t.autograd.grad((a * a).sum() + (b * c).sum() + d.sum(), (x, y))

    agree(script)


FORWARDS_REFUSED = {
    "integers": (lambda t, a: a * 2.0, lambda t: t.arange(3), "Expected primal to be floating point or complex"),
    "random": (lambda t, a: a * t.rand(3), one, "vmap: .*random operation"),
    "a number": (lambda t, a: 3, one, "given to .* must be either a Tensor or a tuple of Tensors .* <class 'int'>"),
    "a list": (lambda t, a: [a], one, "given to .* must be either a Tensor or a tuple of Tensors .* <class 'list'>"),
    "another level": (lambda t, a: t.autograd.forward_ad.enter_dual_level(), one, "Nested forward mode AD"),
    "no input": (lambda t, a: a, lambda t: (), "[Ee]xpected at least one tensor"),
    "a list of inputs": (lambda t, a: a, lambda t: [one(t)], "inputs given to jacobian .* <class 'list'>"),
    "no history": (lambda t, a: t.autograd.grad(a.sum(), a), one, "does not require grad"),
}


@pytest.mark.parametrize("case", FORWARDS_REFUSED)
def test_forwards_refused(case):
    f, x, match = FORWARDS_REFUSED[case]
    agree_error(lambda t: functional(t).jacobian(lambda *a: f(t, *a), x(t), **FORWARD["jacobian"]), match)


def test_the_constant_input_is_named():
    """PyTorch says input 0 whichever it is."""
    with pytest.raises(RuntimeError, match="jacobian of the user-provided function is independent of input 1"):
        f = FUNCTIONS["one linear"][0](torchlike)
        functional(torchlike).jacobian(f, points_of(torchlike, 2, False), strict=True, create_graph=True)


@pytest.mark.parametrize("name", MATRICES)
def test_refused_matrices(name):
    def run(f, inputs, match, **keywords):
        agree_error(lambda t: getattr(functional(t), name)(f, inputs(t), **keywords), match)

    run(scalar, lambda t: (one(t), 2), rf"inputs given to {name} must .* index 1 has type <class 'int'>")
    run(lambda a: 3, one, rf"given to {name} must .* function has type <class 'int'>")
    run(lambda a: a[:0].sum() if name == "hessian" else a[:0], lambda t: t.ones(0), "stack expects a non-empty")
    run(lambda a: (a**2).sum() if name == "hessian" else a, lambda t: t.ones(0), "index 0 is out of bounds",
        vectorize=True)  # fmt: skip
    run(lambda a: (a**2).sum(), lambda t: t.ones(2) * 1j, "only for real scalar outputs but got torch.complex64")


def test_hessian_wants_a_scalar():
    agree_error(lambda t: functional(t).hessian(lambda a: a, one(t)), "hessian should contain a single element")
    agree_error(lambda t: functional(t).hessian(lambda a: (scalar(a),), one(t)), "hessian should return a single")


def test_unit_vectors():
    def script(t):
        tensors = t.ones(2, 3), t.ones((), dtype=t.float64), t.ones(0)
        return functional(t)._construct_standard_basis_for(tensors, [6, 1, 0])

    agree(script)
