"""torch.complex32 is a dtype with a name and a size, and is refused by name wherever a tensor of it would be made."""

import pytest

import torchlike as torch

HALF = torch.complex32
SIZED = "zeros ones empty rand randn".split()
X = torch.ones(2)
H = torch.ones(2).half()
MADE = {
    **{name: lambda name=name: getattr(torch, name)(2, dtype=HALF) for name in SIZED},
    **{f"{name}_like": lambda name=name: getattr(torch, f"{name}_like")(X, dtype=HALF) for name in SIZED},
    **{f"new_{name}": lambda name=name: getattr(X, f"new_{name}")(2, dtype=HALF) for name in SIZED[:3]},
    **{name: lambda name=name: getattr(torch, name)([1j], dtype=HALF) for name in ("tensor", "as_tensor", "asarray")},
    "full": lambda: torch.full((2,), 1j, dtype=HALF),
    "full_like": lambda: torch.full_like(X, 1j, dtype=HALF),
    "new_full": lambda: X.new_full((2,), 1j, dtype=HALF),
    "new_tensor": lambda: X.new_tensor([1j], dtype=HALF),
    "arange": lambda: torch.arange(3, dtype=HALF),
    "linspace": lambda: torch.linspace(0, 1, 3, dtype=HALF),
    "logspace": lambda: torch.logspace(0, 1, 3, dtype=HALF),
    "eye": lambda: torch.eye(2, dtype=HALF),
    "randperm": lambda: torch.randperm(3, dtype=HALF),
    "normal": lambda: torch.normal(0.0, 1.0, (2,), dtype=HALF),
    "empty_strided": lambda: torch.empty_strided((2,), (1,), dtype=HALF),
    "empty_permuted": lambda: torch.empty_permuted((2,), (0,), dtype=HALF),
    "new_empty_strided": lambda: X.new_empty_strided((2,), (1,), dtype=HALF),
    "scalar_tensor": lambda: torch.scalar_tensor(1, dtype=HALF),
    "frombuffer": lambda: torch.frombuffer(bytearray(8), dtype=HALF),
    "on meta": lambda: torch.empty(2, dtype=HALF, device="meta"),
    "coordinates": lambda: torch.sparse_coo_tensor([[0]], [1.0], (2,), dtype=HALF),
    "rows": lambda: torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), dtype=HALF),
    "storage": lambda: torch.TypedStorage(2, dtype=HALF),
    "module": lambda: torch.nn.Linear(2, 2, dtype=HALF),
    "make_tensor": lambda: torch.testing.make_tensor((2,), dtype=HALF, device="cpu"),
    "to": lambda: X.to(HALF),
    "to a device": lambda: X.to("cpu", HALF),
    "type": lambda: X.type(HALF),
    "type by name": lambda: X.type("torch.ComplexHalfTensor"),
    "chalf": lambda: X.chalf(),
    "bits": lambda: H.view(HALF),
    "pairs": lambda: torch.view_as_complex(H.view(1, 2)),
    "a sparse one": lambda: X.to_sparse().to(HALF),
    "a module": lambda: torch.nn.Linear(2, 2).to(HALF),
    **{name: lambda name=name: getattr(X, name)(dtype=HALF) for name in ("sum", "mean", "prod", "nansum")},
    **{name: lambda name=name: getattr(X, name)(0, dtype=HALF) for name in ("cumsum", "cumprod", "softmax")},
    "complex": lambda: torch.complex(H, H),
    "times": lambda: H * 1j,
    "plus": lambda: H + torch.tensor(1j),
    "where": lambda: torch.where(torch.tensor([True, False]), H, 1j),
}


@pytest.mark.filterwarnings("ignore:Complex modules")
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_refused_by_name(make):
    with pytest.raises(NotImplementedError, match="torch.complex32.* jax lacks.* use (torch.complex64|float32)"):
        make()


def test_of_the_default_dtype():
    torch.set_default_dtype(torch.half)
    try:
        with pytest.raises(NotImplementedError, match="torch.complex32"):
            torch.tensor(1j)
    finally:
        torch.set_default_dtype(torch.float32)


def test_known_by_name():
    assert torch.chalf is HALF
    assert (HALF.itemsize, HALF.is_complex, HALF.to_real()) == (4, True, torch.half)
    assert torch.promote_types(torch.half, HALF) is HALF
    assert torch.promote_types(torch.complex64, HALF) is torch.complex64
