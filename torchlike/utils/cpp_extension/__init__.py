"""torch.utils.cpp_extension: operators written in C++ over XLA's FFI."""

from torchlike.interop.lazy import on_first_use
from torchlike.utils.cpp_extension._compiler import check_compiler_ok_for_platform as check_compiler_ok_for_platform
from torchlike.utils.cpp_extension._compiler import (
    get_compiler_abi_compatibility_and_version as get_compiler_abi_compatibility_and_version,
)
from torchlike.utils.cpp_extension._compiler import get_cxx_compiler as get_cxx_compiler
from torchlike.utils.cpp_extension._compiler import get_default_build_root as get_default_build_root
from torchlike.utils.cpp_extension._compiler import include_paths as include_paths
from torchlike.utils.cpp_extension._compiler import is_ninja_available as is_ninja_available
from torchlike.utils.cpp_extension._compiler import library_paths as library_paths
from torchlike.utils.cpp_extension._compiler import verify_ninja_availability as verify_ninja_availability
from torchlike.utils.cpp_extension._load import load as load
from torchlike.utils.cpp_extension._load import load_inline as load_inline
from torchlike.utils.cpp_extension._setuptools import CUDA_HOME as CUDA_HOME
from torchlike.utils.cpp_extension._setuptools import BuildExtension as BuildExtension
from torchlike.utils.cpp_extension._setuptools import CppExtension as CppExtension
from torchlike.utils.cpp_extension._setuptools import CUDAExtension as CUDAExtension
from torchlike.utils.cpp_extension._setuptools import SyclExtension as SyclExtension

__getattr__, __dir__ = on_first_use(__name__)
