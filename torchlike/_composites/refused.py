"""The overloads of ``refused.txt``: they are there, with PyTorch's signatures, and say why they do not compute."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from torchlike._aten.source import SOURCE, Overload


def _refusal(text: str, why: str) -> Callable[[], Callable]:
    name = text[: text.index("(")]

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"aten::{name} is not computed by torchlike: {why}")

    return lambda: refuse


def _listed() -> Iterator[tuple[str, str]]:
    why = ""
    for line in Path(__file__).with_name("refused.txt").read_text().splitlines():
        if line.startswith("# "):
            why = line[2:]
        elif line:
            yield line, why


REFUSED = dict(_listed())
"""{signature: why}"""

for _text, _why in REFUSED.items():
    SOURCE.add(Overload(_text, _refusal(_text, _why), whole=True))
