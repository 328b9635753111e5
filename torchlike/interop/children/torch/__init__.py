"""Found by `import torch` in a process whose parent has called install_as_torch(): makes torch mean torchlike there."""

import importlib
import importlib.util
import sys
from pathlib import Path

if __name__ == "torch":
    _package = Path(__file__).resolve().parents[3]
    if importlib.util.find_spec(_package.name) is None:  # the parent found it through its own search path
        sys.path.append(str(_package.parent))
    sys.modules.pop("torch")
    importlib.import_module(f"{_package.name}.interop.alias").install_as_torch()
