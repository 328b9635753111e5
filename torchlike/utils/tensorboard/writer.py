"""Files of events for tensorboard."""

from __future__ import annotations

import importlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from torchlike._core.tensor.tensor import Tensor
from torchlike.interop.alias import missing_names
from torchlike.utils.tensorboard._hparams import summaries

__all__ = ["SummaryWriter"]

__getattr__ = missing_names(__name__)


def _tensorboard(part: str) -> Any:
    try:
        return importlib.import_module(f"tensorboard.{part}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "torch.utils.tensorboard.SummaryWriter needs the package tensorboard: pip install tensorboard",
            name=error.name,
        ) from None


def _array(value: Any) -> np.ndarray:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


class SummaryWriter:
    """Writes events into a folder, ``runs/<time>_<host>`` unless given.

    Args:
        log_dir: the folder. comment: added to its name. max_queue, flush_secs, filename_suffix: as tensorboard's
            EventFileWriter takes them. purge_step: not used.

    Raises:
        ModuleNotFoundError: the package tensorboard is not installed.
    """

    def __init__(
        self, log_dir: str | os.PathLike | None = None, comment: str = "", purge_step: int | None = None,
        max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            log_dir = os.path.join("runs", f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        events = _tensorboard("summary.writer.event_file_writer")
        self._writer: Any = events.EventFileWriter(self.log_dir, max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def _add(self, values: list[Any], step: int | None, walltime: float | None) -> None:
        events, summaries = _tensorboard("compat.proto.event_pb2"), _tensorboard("compat.proto.summary_pb2")
        event = events.Event(summary=summaries.Summary(value=values))
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self._writer.add_event(event)

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """A number of a step."""
        value = _tensorboard("compat.proto.summary_pb2").Summary.Value
        self._add([value(tag=tag, simple_value=float(_array(scalar_value)))], global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Several numbers of a step, each in a folder of its own, which tensorboard draws together."""
        for tag, number in tag_scalar_dict.items():
            with SummaryWriter(os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")) as writer:
                writer.add_scalar(main_tag, number, global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: int | None = None, bins: Any = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """How the elements of a tensor are distributed, over 30 bins unless others are given."""
        array = _array(values).reshape(-1).astype(np.float64)
        counts, edges = np.histogram(array, bins=30 if isinstance(bins, str) else bins)
        protos = _tensorboard("compat.proto.summary_pb2")
        histogram = protos.HistogramProto(
            min=array.min(), max=array.max(), num=len(array), sum=array.sum(), sum_squares=array @ array,
            bucket_limit=edges[1:].tolist(), bucket=counts.tolist(),
        )  # fmt: skip
        self._add([protos.Summary.Value(tag=tag, histo=histogram)], global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A text of a step."""
        protos, tensors = _tensorboard("compat.proto.summary_pb2"), _tensorboard("compat.proto.tensor_pb2")
        shapes = _tensorboard("compat.proto.tensor_shape_pb2").TensorShapeProto
        kind = protos.SummaryMetadata(plugin_data=protos.SummaryMetadata.PluginData(plugin_name="text"))
        held = tensors.TensorProto(
            dtype="DT_STRING", string_val=[text_string.encode()],
            tensor_shape=shapes(dim=[shapes.Dim(size=1)]),
        )  # fmt: skip
        value = protos.Summary.Value(tag=f"{tag}/text_summary", metadata=kind, tensor=held)
        self._add([value], global_step, walltime)

    def add_hparams(
        self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Any] | None = None, run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:  # fmt: skip
        """The settings of a run and what it reached, in a folder ``run_name`` of their own, for a table of runs.

        Raises:
            TypeError: arguments that are no dictionaries. ValueError: a setting that is no number, text or tensor.
        """
        protos = _tensorboard("compat.proto.summary_pb2")
        found = summaries(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self.log_dir, str(time.time()) if run_name is None else run_name)) as writer:
            for tag, content in found:
                plugin = protos.SummaryMetadata.PluginData(plugin_name="hparams", content=content)
                kind = protos.SummaryMetadata(plugin_data=plugin)
                writer._add([protos.Summary.Value(tag=tag, metadata=kind)], global_step, None)
            for tag, number in metric_dict.items():
                writer.add_scalar(tag, number, global_step)

    def _refuse(self, name: str) -> NoReturn:
        raise NotImplementedError(
            f"torch.utils.tensorboard.SummaryWriter.{name}: torchlike writes scalars, histograms, text and settings; "
            "write others with the package tensorboardX"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("add_"):
            self._refuse(name)
        raise AttributeError(f"'SummaryWriter' object has no attribute {name!r}")

    def flush(self) -> None:
        """Write what waits."""
        self._writer.flush()

    def close(self) -> None:
        """Write what waits, and end."""
        self._writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
