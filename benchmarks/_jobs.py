"""What there is to measure: the scripts that report rows, and the names each takes."""

from _operators import GROUPS
from _programs import PROGRAMS

JOBS = {
    "compiled_step": [*PROGRAMS],
    "eager_step": [*PROGRAMS],
    "amp_step": ["mlp", "cnn", "lstm", "gpt"],
    "eager_overhead": ["add", "mul", "matmul", "backward"],
    "operators": [*GROUPS],
    "overrides": ["function_mode", "dispatch_mode", "subclass", "own_function", "wrapper"],
    "transforms": ["per_sample", "hessian", "jacobian"],
    "gradcheck": ["pointwise", "layer", "loss", "products", "convolution"],
    "backward": ["plain", "hooks", "create_graph", "double", "chain"],
    "startup": ["import", "small", "mlp", "cnn", "gpt"],
    "cold": ["programs", "kernels"],
    "growth": ["recorded", "immediate", "others", "layers"],
    "sharding": ["data", "fully", "tensor", "compiling"],
    "curves": ["data", "ddp", "fully", "fsdp", "tensor", "both", "fully_spanning", "both_spanning"],
    "memory": ["chain"],
    "remat": ["perceptrons", "transformer"],
    "baseline": ["cnn", "gpt"],
}
