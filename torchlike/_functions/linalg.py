"""Matrix products and linear algebra made of several operators."""

from torchlike._functions._install import function
from torchlike._ops import matmul as products

function("get_float32_matmul_precision")(products.get_float32_matmul_precision)
function("set_float32_matmul_precision")(products.set_float32_matmul_precision)
