"""Settings of all pipes that a pipe is made of."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, NamedTuple

from torchlike._base.dtypes import int64
from torchlike._core.conversion.factories import empty
from torchlike._functions.generator import Generator
from torchlike.utils.data.datapipes.iter.combinatorics import Seeded
from torchlike.utils.data.graph import traverse_dps


def get_all_graph_pipes(graph: dict) -> list:
    """The pipes of what :func:`torch.utils.data.graph.traverse_dps` gives, each once."""
    found: dict[int, Any] = {}
    _gather(graph, found)
    return list(found.values())


def _gather(graph: dict, found: dict[int, Any]) -> None:
    for key, (pipe, inner) in graph.items():
        if key not in found:
            found[key] = pipe
            _gather(inner, found)


def _shufflers(pipe: Any) -> list:
    return [p for p in get_all_graph_pipes(traverse_dps(pipe)) if isinstance(p, Seeded)]


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Switch the shuffling of a pipe on or off, of all pipes that it is made of; None leaves them.

    A pipe in which nothing shuffles gets a shuffler if ``shuffle`` is True, and a UserWarning says so.

    >>> from torchlike.utils.data.datapipes.iter import IterableWrapper
    >>> list(apply_shuffle_settings(IterableWrapper([1, 2]).shuffle(), shuffle=False))
    [1, 2]
    """
    if shuffle is None:
        return datapipe
    found = _shufflers(datapipe)
    if shuffle and not found:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end, which a "
            "DataLoader does not read: call shuffle() on the pipe.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        found = [datapipe]
    for pipe in found:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Give each shuffler that a pipe is made of a seed drawn from the Generator ``rng``."""
    for pipe in _shufflers(datapipe):
        pipe.set_seed(int(empty((), dtype=int64).random_(generator=rng).item()))
    return datapipe


def seed_shufflers(datapipe: Any, generator: Any) -> int:
    """Seed the shufflers for one pass of a loader, from one number of its generator, as PyTorch does; the number."""
    seed = pass_seed(generator)
    apply_random_seed(datapipe, Generator().manual_seed(seed))
    return seed


class Again(NamedTuple):
    """What a worker does before another pass: it seeds the shufflers of its pipe as all workers do."""

    seed: int | None

    def __call__(self, dataset: Any) -> None:
        if self.seed is not None:
            apply_random_seed(dataset, Generator().manual_seed(self.seed))


def pass_seed(generator: Any) -> int:
    """A number of a loader's generator, from which the shufflers of all workers are seeded for one pass."""
    return int(empty((), dtype=int64).random_(generator=generator).item())


def apply_sharding(datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> Any:
    """Tell the pipes with a method ``apply_sharding`` that a pipe is made of which part of the items is theirs.

    RuntimeError if two of them follow each other: most items would be lost.

    >>> from torchlike.utils.data.datapipes.iter import IterableWrapper
    >>> list(apply_sharding(IterableWrapper(range(5)).sharding_filter(), 2, 0))
    [0, 2, 4]
    """
    _shard(traverse_dps(datapipe), (num_of_instances, instance_id), sharding_group, None, set())
    return datapipe


def _shard(graph: dict, part: tuple[int, int], group: Any, above: Any, seen: set[int]) -> None:
    for key, (pipe, inner) in graph.items():
        apply, last = getattr(pipe, "apply_sharding", None), above
        if apply is not None:
            if above is not None:
                raise RuntimeError(
                    "Sharding twice on a single pipeline is likely unintended and will cause data loss. "
                    f"Sharding already applied to {above} while trying to apply to {pipe}"
                )
            last = pipe
            if key not in seen:
                takes_group = len(inspect.signature(apply).parameters) > 2
                apply(*part, group) if takes_group else apply(*part)
        seen.add(key)
        _shard(inner, part, group, last, seen)
