"""GraphModules written as Python packages."""

from pathlib import Path
from typing import Any

from torchlike.serialization import save


def write_folder(module: Any, folder: Path, name: str, imports: str) -> None:
    """Write ``module.py``, with a class of this name, and what it loads: ``state_dict.pt``, and modules as files.

    Raises whatever pickling one of the submodules raises.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save(module.state_dict(), folder / "state_dict.pt")
    lines = [imports, "from torch import nn", "", "", f"class {name}(nn.Module):", "    def __init__(self):",
             "        super().__init__()"]  # fmt: skip
    for child_name, child in module.named_children():
        save(child, folder / f"{child_name}.pt")
        load = f'torch.load(r"{folder / f"{child_name}.pt"}", weights_only=False)'
        lines.append(f'        setattr(self, "{child_name}", {load})')
    for tensor_name, tensor in [*module._buffers.items(), *module._parameters.items()]:
        if tensor is None:
            continue
        empty = f"torch.empty({list(tensor.shape)}, dtype={tensor.dtype})"
        if tensor_name in module._parameters:
            grad = bool(tensor.requires_grad)
            lines.append(
                f'        self.register_parameter("{tensor_name}", nn.Parameter({empty}, requires_grad={grad}))'
            )
        else:
            lines.append(f'        self.register_buffer("{tensor_name}", {empty})')
    lines.append(f'        self.load_state_dict(torch.load(r"{folder / "state_dict.pt"}"))')
    body = "\n".join([f"    {line}" if line.strip() else "" for line in module.code.strip().splitlines()])
    (folder / "module.py").write_text("\n".join([*lines, "", body, ""]))
    (folder / "__init__.py").write_text("from .module import *\n")
