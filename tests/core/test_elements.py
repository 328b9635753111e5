"""Elements of tensors, asked for one after the other: their numbers come out of the memory of the base."""

import pytest
from both import agree

VIEWS = {
    "a row": lambda x: x[1],
    "a column": lambda x: x[:, 1],
    "transposed": lambda x: x.T[2],
    "every second": lambda x: x[0, ::2],
    "expanded": lambda x: x[0, :1].expand(3),
    "flipped": lambda x: x.flip(1)[0],
    "repeated": lambda x: x.as_strided((2, 2), (1, 1), 1)[1],
    "diagonal": lambda x: x.diagonal(),
    "a window": lambda x: x.unfold(1, 2, 1)[1, 1],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16", "complex64"])
def test_numbers_of_elements(name, dtype):
    """As they are, and after a change of the base through another view."""

    def run(t):
        x = (t.arange(12).reshape(3, 4) % 5).to(getattr(t, dtype)) * (1 + 2j if dtype == "complex64" else 1)
        elements = list(VIEWS[name](x))
        before = [e.item() for e in elements], [bool(e) for e in elements]
        x[1:, 1:] = 3
        after = [e.item() for e in elements]
        elements[0].zero_()
        return before, after, [e.item() for e in elements], x

    agree(run)


def test_parts_of_complex_numbers():
    def run(t):
        x = t.tensor([1 + 2j, 3 - 4j])
        views = [x.conj(), x.imag, x.conj().imag, x.real, t.view_as_real(x)[1], x[::1].conj()]
        return [e.item() for v in views for e in v]

    agree(run)


def test_in_functions_that_are_transformed():
    def run(t):
        x = t.arange(3.0)
        t.func.grad(lambda y: (y * y)[1])(x)
        seen = []

        def f(y):
            seen.append(x[2].item())
            return y[0] * x[1].item()

        return t.func.grad(f)(x), seen, [float(e) for e in x.clone().requires_grad_().detach()]

    agree(run)
