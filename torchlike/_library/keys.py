"""Dispatch keys: the names under which kernels are registered, and those that stand for devices."""

from collections.abc import Sequence

from torchlike._core.dispatch.dispatch_keys import DEVICES, EXPLICIT, KNOWN, UNUSED
from torchlike._core.dispatch.dispatch_keys import IMPLICIT as IMPLICIT


def of_device(device_type: str) -> str:
    """The key of a type of device; RuntimeError for a name that is none."""
    found = DEVICES.get(device_type)
    if found is None:
        names = ", ".join(name for name in DEVICES)
        raise RuntimeError(f"Expected one of {names} device type at start of device string: {device_type}")
    return found


def parsed(name: str) -> str:
    """``name`` if it is a key; RuntimeError else."""
    if name not in KNOWN:
        raise RuntimeError(
            f"could not parse dispatch key: {name} (a device's is spelt CPU, CUDA or Meta; see also Autograd)"
        )
    return name


def demand_used(name: str, operator: str) -> None:
    """NotImplementedError for a key whose layer torchlike does not let kernels be registered with."""
    if name in UNUSED:
        hint = ""
        if name == "FuncTorchBatched":
            hint = "; use torch.library.register_vmap()"
        elif name == "Python":
            hint = "; use torch.library.register_torch_dispatch()"
        raise NotImplementedError(f"{operator}: kernels for the dispatch key {name} are not supported{hint}")


def names(types: str | Sequence[str]) -> list[str]:
    """The keys of device types; ``default`` stands for all."""
    chosen = [types] if isinstance(types, str) else list(types)
    return [EXPLICIT if t == "default" else t if t in KNOWN else of_device(t) for t in chosen]
