"""What was once found to differ from PyTorch, by running both: values, strides and errors, a line for each."""

import pytest
from both import agree, agree_error

INF = float("inf")
A = lambda t: t.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, 5]])  # noqa: E731
B = lambda t: t.arange(6.0).reshape(3, 2)  # noqa: E731
X = lambda t: t.arange(24.0).reshape(2, 3, 4)  # noqa: E731
VALUES = {
    "split at negative places": lambda t: [t.tensor_split(t.arange(5), p) for p in ((-2,), (-7, 2), (7,), (2, -1), 2)],
    "products of elements promote": lambda t: [
        t.einsum(e, t.ones(2, dtype=t.int32), t.ones(2, dtype=t.int64)) for e in ("i,i->i", "i,j->ij", "i,j", "i,j->i")
    ],
    "nothing as another dtype": lambda t: t.zeros((0, 2)).view(t.uint8).logical_not_(),
    "of bytes, into bools": lambda t: [
        getattr(t, name)(t.tensor([[0, 2], [0, 3]], dtype=t.uint8), 0, out=t.empty(2, dtype=dtype))
        for name in ("any", "all") for dtype in (t.bool, t.uint8)
    ],
    "a capsule": lambda t: [
        f(t.utils.dlpack.to_dlpack(t.arange(3))) for f in (t.asarray, t.from_dlpack, t.utils.dlpack.from_dlpack)
    ],
    "types by name": lambda t: [
        t.result_type(tensor=t.ones(1), other=2), t.result_type(scalar=2.0, tensor=t.ones(1, dtype=t.int32)),
        t.result_type(scalar1=1, scalar2=2.0), t.result_type(t.ones(1), other=1j),
    ],
    "a mapped look-up": lambda t: [
        t.vmap(lambda i: t.nn.functional.embedding(i, X(t)[0], sparse=True))(t.tensor([[0, 1], [1, 2]])),
        t.vmap(lambda w: t.nn.functional.embedding(t.tensor([0, 2]), w, sparse=True))(X(t)),
    ],
    "a real number is its conjugate": lambda t: [
        (t.conj_physical(x) is x, x.conj_physical().data_ptr() == x.data_ptr(), t.conj_physical(x))
        for x in (t.ones(2), t.arange(3))
    ],
    "memory that overlaps": lambda t: [
        t._debug_has_internal_overlap(x)
        for x in (t.zeros(1).expand(3), t.ones(3, 2).t(), t.ones(6)[::2], t.ones(3, 3)[:, :2],
                  t.ones(5).unfold(0, 2, 1), t.tensor(1.0), t.zeros(0), t.ones(2, 1, 3).transpose(0, 1))
    ],
    "aten's powers": lambda t: [
        t.ops.aten.pow.Tensor_Scalar(t.tensor([-INF, -0.0, 4.0]), e) for e in (-0.5, 0.5, 2, 3, -1, -2, 1.5, 0)
    ],
    "a slice of what": lambda t: t.slice_inverse(t.arange(8.0)[2:4], t.arange(8.0), 0, 2, 4, 1).shape,
    "a scan has the dtype of its output": lambda t: [
        getattr(t, name)(x.to(dtype), 0, out=t.empty(0, dtype=into))
        for name in ("cumsum", "cumprod") for x in [t.tensor([[1.5, 2], [3, 200]])] for dtype in (t.float32, t.int64)
        for into in (t.int32, t.uint8, t.float64, t.int64)
    ],
    "combinations of nothing": lambda t: [
        t.combinations(t.zeros(0), r, w) for r in (0, 1, 3) for w in (False, True)
    ],
    "combinations of nothing are recorded": lambda t: [
        [c.sum().backward(), c.requires_grad, x.grad][1:]
        for x in [t.zeros(0, requires_grad=True)] for c in (t.combinations(x), t.combinations(x, 3, True))
    ],
    "empty vectors join along any dimension": lambda t: [t.cat([t.zeros(0)] * 2, d) for d in (1, -3, 5)],
    "a range into as many elements": lambda t: [
        (f(out=x[:, 1:]), x, f(out=t.zeros(2, 1)).shape)
        for f in (
            lambda **o: t.arange(0, 4, **o), lambda **o: t.range(0, 3, **o),
            lambda **o: t.linspace(0, 3, 4, **o), lambda **o: t.logspace(0, 3, 4, **o),
        )
        for x in [t.zeros(2, 3)]
    ],
    "bytes that are close": lambda t: [
        (t.isclose(x, y, rtol=0, atol=a), t.isclose(x, y, rtol=0.5, atol=a), t.allclose(x, x))
        for x in [t.tensor([1, 2, 250], dtype=t.uint8)] for y in [t.tensor([2, 1, 252], dtype=t.uint8)] for a in (0, 1)
    ],
}  # fmt: skip
STRIDES = {
    "quantile": lambda t: [
        f(x, q, d, k) for f in (t.quantile, t.nanquantile) for x in (X(t), X(t).transpose(0, 2))
        for q in (t.tensor([0.1, 0.5]), t.tensor(0.5), 0.5)
        for d, k in ((None, True), (0, False), (1, True), (-1, False))
    ],
    "unique": lambda t: [
        f(x, dim=d) for f in (t.unique, t.unique_consecutive) for x in (X(t), X(t).mT) for d in range(3)
    ],
    "einsum": lambda t: [
        t.einsum(e, X(t)) for e in ("ijk->kji", "jik", "ijk", "...k->k...", "ij...->j...i", "ijk->ki")
    ],
    "kron": lambda t: [
        t.kron(B(t).t(), B(t).t()), t.kron(X(t).mT, X(t).mT), t.kron(B(t).t(), t.ones(1, 1)), t.kron(B(t), B(t)),
    ],
}  # fmt: skip
ERRORS = {
    "edges of another dtype": (
        lambda t: t.histogram(t.ones(2), t.ones((), dtype=t.float64)),
        "input tensor and bins tensors should have the same dtype",
    ),
    "a quantile of another dtype": (
        lambda t: t.quantile(t.ones(2), 0.5, out=t.empty((), dtype=t.float64)),
        "out tensor must be same dtype as the input tensor",
    ),
    "modes of another dtype": (
        lambda t: t.mode(t.ones(2, 2), 0, out=(t.empty(2, dtype=t.int8), t.empty(2, dtype=t.int64))),
        "expected scalar type 'Float' but got 'Char' for values output",
    ),
    "places of modes of another dtype": (
        lambda t: t.mode(t.ones(2, 2), 0, out=(t.empty(2), t.empty(2, dtype=t.int32))),
        "expected scalar type 'Long' but got 'Int' for indices output",
    ),
    "whether all, as a float": (lambda t: t.all(t.ones(2, 3), 0, out=t.empty(3)), "all only supports bool tensor for"),
    "whether any, as a number": (lambda t: t.any(t.ones(2), out=t.empty((), dtype=t.int64)), "any only .* got: Long"),
    "a scan into bools": (lambda t: t.cumsum(t.ones(2), 0, out=t.empty(0, dtype=t.bool)), "not implemented for 'Bool'"),
    "a scan of two dtypes": (
        lambda t: t.cumprod(t.ones(2), 0, dtype=t.float32, out=t.empty(0, dtype=t.float64)),
        "Expected out tensor to have dtype float, but got double instead",
    ),
    "a histogram without an end": (
        lambda t: t.histc(t.ones(2), min=1, max=float("inf")),
        r"range of .1, inf. is not fin",
    ),
    "a tensor on another device, of old": (lambda t: t.FloatTensor(2, device="cuda"), "expects device type: cpu but"),
    "a tensor on another device": (lambda t: t.Tensor((2.0, 3.0), device="cuda"), "expects device type: cpu but"),
    "new on another device": (
        lambda t: t.ones(2).new(3, device="cuda"),
        "expects device type: cpu but device type: cu",
    ),
    "a tensor of a tensor, somewhere": (
        lambda t: t.Tensor(t.ones(2), device="cpu"),
        "form torch.Tensor.tensor, device",
    ),
    "new of a tensor, somewhere": (
        lambda t: t.ones(2).new(t.ones(2), device="cpu"),
        "tensor.new.tensor, device=device",
    ),
    "rows are no list": (lambda t: t.hstack(t.ones(2, 2)), "tuple of Tensors, not Tensor"),
    "nor for vstack": (lambda t: t.vstack(t.ones(2, 2)), "tuple of Tensors, not Tensor"),
    "nor for dstack": (lambda t: t.dstack(t.ones(2, 2)), "tuple of Tensors, not Tensor"),
    "nor for column_stack": (lambda t: t.column_stack(t.ones(2, 2)), "tuple of Tensors, not Tensor"),
    "none in a tuple": (lambda t: t.cat((t.ones(2), None)), "element 1"),
    "none in a stack": (lambda t: t.stack((None, t.ones(2))), "element 0"),
    "arange into one place": (lambda t: t.arange(4.0, out=t.zeros(1).expand(4)), "single memory location"),
    "linspace into one place": (lambda t: t.linspace(0, 1, 4, out=t.zeros(1).expand(4)), "single memory location"),
    "places as floats": (lambda t: t.nonzero(t.ones(2), out=t.empty(0)), "Long"),
    "different elements of a list": (lambda t: t.unique([1, 2]), "must be Tensor, not list"),
    "more bytes than counted": (lambda t: t.ones(3).resize_(1 << 62), "overflowed with sizes=.4611686018427387904"),
    "more rows than counted": (lambda t: t.empty(1 << 62, 8), "overflowed with sizes"),
    "more than there is": (lambda t: t.zeros(1 << 50), "can't allocate memory"),
    "a product of matrices": (lambda t: t.einsum("i,i", t.ones(2), t.ones(2).double()), "expected scalar type"),
    "one operand": (lambda t: t.result_type(tensor=t.ones(1)), "result_type"),
    "no quantized tensor": (lambda t: t.q_scale(t.ones(2)), "q_scale"),
    "no statistics": (lambda t: t.batch_norm_stats(t.ones(2, 2), 1e-5), "batch_norm_stats"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    agree(VALUES[name])


@pytest.mark.parametrize("name", STRIDES)
def test_strides(name):
    agree(lambda t: [(x.shape, x.stride()) for x in STRIDES[name](t)])


class PassOn:
    """A context in which a dispatch mode passes every call on."""

    def __init__(self, t):
        class Mode(t.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        self.mode = Mode()


@pytest.mark.parametrize("exponent", [0.5, -0.5, 2, 3, 1.5])
def test_gradients_of_powers_under_a_mode(exponent):
    def f(t):
        x = t.tensor([-INF, -0.0, 0.0, 4.0], dtype=t.float64, requires_grad=True)
        with PassOn(t).mode:
            (x**exponent).sum().backward()
        return x.grad

    agree(f)


@pytest.mark.parametrize("name", ["native_batch_norm", "_native_batch_norm_legit"])
@pytest.mark.parametrize("training", [True, False])
def test_statistics_inside_of_transforms(name, training):
    def f(t):
        x, mean, var = t.arange(12.0).reshape(4, 3).double(), t.zeros(3).double(), t.ones(3).double()
        normal = lambda x: getattr(t, name)(x, None, None, mean, var, training, 0.1, 1e-5)[0]  # noqa: E731
        out = t.func.jvp(normal, (x,), (x.sin(),))
        return *out, t.func.grad(lambda x: normal(x).sin().sum())(x), mean, var, mean._version

    agree(f)


def test_einsum_of_one_is_a_view():
    def f(t):
        x = A(t)
        t.einsum("ij->ji", x)[0, 1] = 7
        return x

    agree(f)


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    agree_error(*ERRORS[name])


def test_a_list_in_itself():
    def f(t):
        x = []
        x.append(x)
        return t.tensor(x)

    agree_error(f, "too many dimensions 'list'")


def test_a_list_in_itself_later():
    def f(t):
        x = [0]
        x.append(x)
        return t.as_tensor([[1, 2], x])

    agree_error(f, "self-referential lists are incompatible")


def test_storage_of_the_default_type():
    def f(t):
        try:
            t.set_default_dtype(t.float64)
            return t.Storage is t.DoubleStorage, t.storage.TypedStorage is t.TypedStorage, t.Storage(2).dtype
        finally:
            t.set_default_dtype(t.float32)

    agree(f)


def test_arange_warns_of_an_output_of_another_size():
    def f(t):
        with pytest.warns(
            UserWarning, match=r"of shape \[2, 3\] is 6 which does not match .* elements 5.*shape \(5,\)"
        ):
            return t.arange(5, out=t.zeros(2, 3)), t.arange(5, out=t.zeros(0))

    agree(f)


def test_range_warns():
    def f(t):
        with pytest.warns(UserWarning, match=r"torch.range is deprecated"):
            return t.range(0, 2)

    agree(f)


MISSING = {
    "function": (lambda t: t.roll(t.ones(3)), r"^roll\(\) missing 1 required positional argument"),
    "method": (lambda t: t.ones(3).index_select(0), r"^index_select\(\) missing 1 required positional argument"),
    "unknown": (lambda t: t.sin(t.ones(3), foo=3), r"^sin\(\) got an unexpected keyword argument 'foo'"),
    "in place": (lambda t: t.ones(3).addcmul_(), r"^(Tensor\.)?addcmul_\(\) (missing|received)"),
}


@pytest.mark.parametrize("name", MISSING)
def test_calls_with_too_little_name_the_operator(name):
    agree_error(*MISSING[name])
