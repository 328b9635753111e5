"""torch.distributions.kl: the Kullback-Leibler divergence of pairs of distributions.

>>> import torchlike as torch
>>> p, q = torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(1.0, 1.0)
>>> torch.distributions.kl_divergence(p, q)
tensor(0.5000)
"""

import warnings
from collections.abc import Callable
from typing import Any

from torchlike.distributions.distribution import Distribution
from torchlike.interop.alias import missing_names

__all__ = ["kl_divergence", "register_kl"]

_missing = missing_names(__name__)

_KL_REGISTRY: dict[tuple[type, type], Callable] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}
_SHORT = {"ExponentialFamily": "expfamily", "TransformedDistribution": "transformed"}


def __getattr__(name: str) -> Any:
    """``_kl_normal_normal`` and the like, as programs import them: the functions of the registry."""
    if name.startswith("_kl_"):
        classes = name[4:].replace("_", "")
        for pair, function in _KL_REGISTRY.items():
            if classes == "".join(_SHORT.get(kind.__name__, kind.__name__.lower()) for kind in pair):
                return function
    return _missing(name)


def register_kl(type_p: type, type_q: type) -> Callable:
    """A decorator: the function gives the divergence of a ``type_p`` from a ``type_q``, and from subclasses of both.

    Raises TypeError for what is no class.
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):  # classes that are no distributions stand for them in Pyro
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorator(fun: Callable) -> Callable:
        _KL_REGISTRY[type_p, type_q] = fun
        _KL_MEMOIZE.clear()
        return fun

    return decorator


def _nearest(matches: list, first: int) -> tuple[type, type]:
    """Of the pairs of classes the one that no other is more special than, looking at position ``first`` before."""
    best = matches[0]
    for pair in matches[1:]:
        order = (first, 1 - first)
        for k in order:
            if pair[k] is not best[k]:
                best = pair if issubclass(pair[k], best[k]) else best
                break
    return best


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The function of the nearest classes; NotImplemented if there is none."""
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    left, right = _nearest(matches, 0), _nearest(matches, 1)
    found = _KL_REGISTRY[left]
    if found is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left[0].__name__}, "
            f"{right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return found


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """The Kullback-Leibler divergence of ``p`` from ``q``, one number for each distribution of the batch.

    Raises NotImplementedError for a pair of classes without a formula.
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    fun = _KL_MEMOIZE[pair]
    if fun is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return fun(p, q)
