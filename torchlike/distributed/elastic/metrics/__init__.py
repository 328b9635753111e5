"""``torch.distributed.elastic.metrics``: numbers that a program tells a handler."""

from torchlike.distributed.elastic.metrics.api import ConsoleMetricHandler as ConsoleMetricHandler
from torchlike.distributed.elastic.metrics.api import MetricData as MetricData
from torchlike.distributed.elastic.metrics.api import MetricHandler as MetricHandler
from torchlike.distributed.elastic.metrics.api import MetricsConfig as MetricsConfig
from torchlike.distributed.elastic.metrics.api import NullMetricHandler as NullMetricHandler
from torchlike.distributed.elastic.metrics.api import configure as configure
from torchlike.distributed.elastic.metrics.api import get_elapsed_time_ms as get_elapsed_time_ms
from torchlike.distributed.elastic.metrics.api import getStream as getStream
from torchlike.distributed.elastic.metrics.api import initialize_metrics as initialize_metrics
from torchlike.distributed.elastic.metrics.api import prof as prof
from torchlike.distributed.elastic.metrics.api import publish_metric as publish_metric
from torchlike.distributed.elastic.metrics.api import put_metric as put_metric
