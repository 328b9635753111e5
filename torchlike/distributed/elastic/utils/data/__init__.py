"""``torch.distributed.elastic.utils.data``: iterators and samplers that begin in the midst of an epoch."""

from torchlike.distributed.elastic.utils.data.cycling_iterator import CyclingIterator as CyclingIterator
