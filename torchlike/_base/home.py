"""Where this package's classes and modules are at home, also while they show themselves under torch's name."""

OURS = __name__.partition(".")[0]
THEIRS = "torch"


class _Alias:
    """Whether `import torch` means this package; `interop/alias.py` says so."""

    installed = False


ALIAS = _Alias()


def home(module: str) -> str:
    """The name that a module has in this package, from the ``__module__`` or ``__name__`` that it shows."""
    if ALIAS.installed and (module == THEIRS or module.startswith(THEIRS + ".")):
        return OURS + module[len(THEIRS) :]
    return module
