"""What programs ask of the processor to choose kernels of their own: those are not here, so the answers are no."""


def _no() -> bool:
    return False


_is_avx2_supported = _is_avx512_supported = _is_avx512_bf16_supported = _is_vnni_supported = _no
_is_amx_tile_supported = _is_amx_fp16_supported = _init_amx = _no
