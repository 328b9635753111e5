"""The types of scripted modules that TorchScript's compiler keeps: none here."""

from typing import Any

from torchlike.interop.alias import missing_names


class ConcreteTypeStore:
    """An empty store of types: scripted modules run their Python."""

    def __init__(self) -> None:
        self.type_store: dict[type, list] = {}
        self.methods_compiled: set[Any] = set()


concrete_type_store = ConcreteTypeStore()
__getattr__ = missing_names(__name__)
