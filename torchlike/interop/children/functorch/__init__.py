"""Found by `import functorch` in a process whose parent has called install_as_torch()."""

import importlib
import sys

if __name__ == "functorch":
    sys.modules.pop("functorch")
    importlib.import_module("torch")
    importlib.import_module("functorch")
