"""torch.hub: files and models from the network and from local folders."""

import contextlib
import hashlib
import importlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from typing import Any
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from torchlike import serialization
from torchlike.interop.alias import missing_names

with contextlib.suppress(ImportError):  # programs take the bar from here
    tqdm = importlib.import_module("tqdm.auto").tqdm

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

__getattr__ = missing_names(__name__)

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_chosen: dict[str, str] = {}


def get_dir() -> str:
    """The folder of downloads: what :func:`set_dir` said, or ``hub`` in TORCH_HOME, or in torch's folder of caches."""
    return _chosen.get("dir") or os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    """TORCH_HOME, or torch's folder of caches."""
    caches = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(caches, "torch")))


def set_dir(d: str | os.PathLike) -> None:
    """Set the folder of downloads."""
    _chosen["dir"] = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Write what ``url`` gives to the file ``dst``, which appears when it is whole.

    Args:
        hash_prefix: how the SHA-256 of the file begins. progress: accepted; nothing is shown.

    Raises:
        RuntimeError: the file has another hash. URLError: the network's.
    """
    digest, target = hashlib.sha256(), os.path.expanduser(dst)
    part = tempfile.NamedTemporaryFile(delete=False, dir=os.path.dirname(os.path.abspath(target)))  # noqa: SIM115
    try:
        with part, urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as source:
            while chunk := source.read(1 << 20):
                part.write(chunk)
                digest.update(chunk)
        found = digest.hexdigest()
        if hash_prefix is not None and found[: len(hash_prefix)] != hash_prefix:
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
        shutil.move(part.name, target)
    finally:
        if os.path.exists(part.name):
            os.remove(part.name)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = False,
) -> Any:  # fmt: skip
    """The state dict in the file at ``url``, which is downloaded unless ``model_dir`` has it.

    Args:
        model_dir: ``checkpoints`` in :func:`get_dir` by default. check_hash: whether the file's name has, after a dash,
            how its SHA-256 begins. file_name: of the local file. weights_only: as of ``torch.load``.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress=progress)
    return serialization.load(path, map_location=map_location, weights_only=weights_only)


def _entries(repo_or_dir: Any, source: str) -> Any:
    """The module ``hubconf.py`` of a local folder."""
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise NotImplementedError(
            f"torch.hub: code from GitHub ({repo_or_dir}); download it and give the folder with source='local'"
        )
    folder = os.path.abspath(os.path.expanduser(repo_or_dir))
    sys.path.insert(0, folder)
    try:
        spec: Any = importlib.util.spec_from_file_location("hubconf", os.path.join(folder, "hubconf.py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def _entry(module: Any, model: str) -> Any:
    function = getattr(module, model, None)
    if function is None or not callable(function):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return function


def load(
    repo_or_dir: Any, model: str, *args: Any, source: str = "github", trust_repo: Any = None,
    force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """What the function ``model`` of the file ``hubconf.py`` in a local folder gives for the arguments.

    Raises:
        NotImplementedError: source="github". ValueError: another source. RuntimeError: there is no such function.
    """
    return _entry(_entries(repo_or_dir, source), model)(*args, **kwargs)


def help(github: Any, model: str, *args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedError: code from GitHub is not loaded."""
    return _entries(github, "github")


def list(github: Any, *args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedError: code from GitHub is not loaded."""
    return _entries(github, "github")
