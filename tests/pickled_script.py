"""Objects pickled by one library and read by the other: ``python pickled_script.py TO FROM ...``.

Prints what it reads in each FROM, a line for each, and writes its own pickles to TO, unless that is ``-``.
"""

import json
import pickle
import sys
import warnings

import torch

KINDS = ("half", "bfloat16", "float64", "complex64", "complex128", "int8", "uint8", "int16", "int64", "bool")


def storage():
    return torch.storage.TypedStorage(wrap_storage=torch.arange(3.0).untyped_storage(), dtype=torch.float32)


def stepped():
    p = torch.nn.Parameter(torch.ones(2))
    o = torch.optim.Adam([p], 0.1)
    p.sum().backward()
    o.step()
    return o


OBJECTS = {
    "states": lambda: torch.nn.Linear(2, 3).state_dict(),
    "modules": lambda: torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.BatchNorm1d(3)),
    "views": lambda: [torch.arange(6.0).reshape(2, 3)[:, 1], torch.arange(4.0)[1:], torch.empty(0, 3), torch.tensor(2)],
    "kinds": lambda: [torch.ones(2, dtype=getattr(torch, kind)) for kind in KINDS],
    "others": lambda: [torch.ones(2, dtype=torch.complex64).conj(), torch.nn.Parameter(torch.ones(2))],
    "sparse": lambda: [torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr()],
    "quantized": lambda: torch.quantize_per_tensor(torch.arange(4.0), 0.1, 0, torch.qint8),
    "meta": lambda: torch.ones(2, 3, device="meta"),
    "storage": storage,
    "optimizer": stepped,
    "scheduler": lambda: torch.optim.lr_scheduler.StepLR(stepped(), 2),
    "packed": lambda: torch.nn.utils.rnn.pack_sequence([torch.ones(2), torch.ones(1)]),
    "result": lambda: torch.max(torch.ones(2, 2), 0),
    "generator": lambda: torch.Generator().manual_seed(3),
    "functions": lambda: [torch.relu, torch.nn.functional.relu, torch.nn.functional.gelu],
    "constants": lambda: [torch.float16, torch.device("cpu"), torch.Size([1, 2]), torch.per_tensor_affine],
    "distribution": lambda: torch.distributions.Normal(torch.zeros(2), torch.ones(2)),
    "data": lambda: [torch.utils.data.TensorDataset(torch.ones(2)), torch.utils.data.SequentialSampler([1, 2])],
}


def told(x):
    """What can be compared between processes."""
    if isinstance(x, torch.Tensor):
        return str(x), str(x.dtype), x.requires_grad, x.is_conj(), x.layout is torch.strided and x.stride()
    if isinstance(x, torch.nn.Module):
        return str(x), told(x.state_dict())
    if callable(x):
        return x.__name__
    if isinstance(x, torch.Generator):
        return x.initial_seed()
    if isinstance(x, torch.storage.TypedStorage):
        return x.tolist(), str(x.dtype)
    if isinstance(x, list | tuple):
        return type(x).__name__, [told(part) for part in x]
    if isinstance(x, dict):
        return type(x).__name__, {str(k): told(v) for k, v in x.items()}
    state = getattr(x, "state_dict", lambda: {k: v for k, v in getattr(x, "__dict__", {}).items() if k != "generator"})
    return type(x).__qualname__, told(state()) if hasattr(x, "__dict__") else str(x)


def main(target, *sources):
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    for source in sources:
        with open(source, "rb") as file:
            print(json.dumps({name: told(pickle.loads(data)) for name, data in pickle.load(file).items()}))
    if target != "-":
        made = {f"{name} {n}": pickle.dumps(make(), n) for name, make in OBJECTS.items() for n in (2, 5)}
        with open(target, "wb") as file:
            pickle.dump(made, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
