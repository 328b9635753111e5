"""What TorchScript's compiler remembers: nothing here."""

from torchlike.interop.alias import missing_names


def _clear_class_state() -> None:
    """Accepted: scripted classes are Python's, of which nothing is kept.

    >>> import torchlike as torch
    >>> torch.jit._state._clear_class_state()
    """


__getattr__ = missing_names(__name__)
