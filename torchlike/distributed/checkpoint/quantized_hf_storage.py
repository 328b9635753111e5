"""torch.distributed.checkpoint.quantized_hf_storage: quantized files, which are not read."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "not supported; HuggingFaceStorageReader reads files that are not quantized")
