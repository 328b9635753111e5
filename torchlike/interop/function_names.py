"""PyTorch's own names of functions, where they are not those that users call them by: ``torch._C._nn.gelu``."""

# PyTorch computes these in C++ and names their module so.
_IN_NN = frozenset(
    """
avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear logsigmoid one_hot scaled_dot_product_attention softplus
softshrink
""".split()
)
_IN_FUNCTIONAL = frozenset(
    """
atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul einsum
lu meshgrid norm split stft tensordot unique unique_consecutive unravel_index
""".split()
)
_IN_TORCH = frozenset(
    """
adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d
conv_transpose2d conv_transpose3d cosine_similarity hardshrink native_channel_shuffle pairwise_distance pdist
pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ selu_ threshold_
""".split()
)
_IN_RANDOM = frozenset("get_rng_state initial_seed manual_seed seed set_rng_state".split())
_RENAMED = {"logsigmoid": "log_sigmoid", "threshold": "_threshold"}
_FAMILIES = ("linalg", "fft", "special")


def own_name(module: str, name: str) -> str:
    """The dotted name that PyTorch gives the function ``name`` of its public ``module``.

    >>> own_name("torch.special", "erf"), own_name("torch", "add")
    ('torch._C._special.special_erf', 'torch.add')
    """
    family = module.rpartition(".")[2]
    if module == f"torch.{family}" and family in _FAMILIES:
        short = name if name.startswith(f"{family}_") else f"{family}_{name}"
        return f"torch._C._{family}.{short}"
    for family in _FAMILIES:
        if module == "torch" and name.startswith(f"{family}_"):
            return f"torch._C._{family}.{name}"
    if module in ("torch", "torch.nn.functional"):
        if name in _IN_NN:
            return f"torch._C._nn.{_RENAMED.get(name, name)}"
        if name in _IN_TORCH:
            return f"torch.{name}"
        if module == "torch" and (name in _IN_FUNCTIONAL or name in _IN_RANDOM):
            return f"torch.{'functional' if name in _IN_FUNCTIONAL else 'random'}.{name}"
    return f"{module}.{_RENAMED.get(name, name) if module == 'torch.nn.functional' else name}"
