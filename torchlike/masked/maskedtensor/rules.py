"""Which functions a tensor with a mask has, by what they do with the mask."""

UNARY = frozenset("""
abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil clamp
clip clamp_min clamp_max conj conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac
lgamma log log10 log1p log2 logit i0 real imag sinc isnan isfinite nan_to_num neg negative positive pow rad2deg
reciprocal round rsqrt sigmoid sign sgn signbit sin sinh sqrt square tan tanh trunc polygamma float_power dropout
__neg__ __abs__ __pos__ __invert__ __pow__ __ipow__ ones_like zeros_like full_like empty_like rand_like randn_like
""".split())  # fmt: skip
"""Values alone change; the mask stays. No second tensor."""

BINARY = frozenset("""
add sub subtract mul multiply div divide true_divide floor_divide fmod remainder logaddexp logaddexp2 atan2 arctan2
bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift eq ne le ge gt lt less greater less_equal
greater_equal not_equal maximum minimum fmax fmin nextafter isclose rsub
__add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__ __rtruediv__ __itruediv__
__div__ __rdiv__ __idiv__ __floordiv__ __rfloordiv__ __ifloordiv__ __mod__ __rmod__ __imod__ __and__ __or__ __xor__
__iand__ __ior__ __ixor__ __lshift__ __rshift__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__
""".split())  # fmt: skip
"""Of two tensors with masks the masks are the same; a tensor without one counts everywhere that the other does."""

BOTH = frozenset(
    """
t transpose swapaxes swapdims permute movedim moveaxis adjoint view reshape flatten unflatten ravel squeeze unsqueeze
expand expand_as select narrow split chunk tensor_split unbind unfold diagonal stack cat concat concatenate hstack
vstack index_select __getitem__ contiguous clone detach view_as reshape_as broadcast_to flip roll repeat tile gather
""".split()
)
"""The function of the values and the same of the mask."""

CASTS = frozenset("to type type_as half float double bool char short int long cpu cuda to_dense".split())
"""Other dtypes and devices: the mask follows to the device."""

REDUCTIONS = frozenset("sum mean amin amax argmin argmax prod all var std".split())
"""Over the elements that count; a result counts if one of them does."""

NORMALISATIONS = frozenset("softmax log_softmax softmin cumsum cumprod".split())
"""Along a dimension, over the elements that count."""

PLAIN = frozenset(
    """
dim ndimension size stride numel nelement element_size storage_offset is_contiguous is_floating_point is_complex
is_signed is_inference is_tensor is_nonzero __len__ __hash__ requires_grad_ retain_grad register_hook backward
get_device is_same_size __get__ __set__ __delete__ register_post_accumulate_grad_hook data_ptr is_pinned is_shared
has_names _is_view is_conj is_neg result_type can_cast is_set_to
""".split()
)
"""What does not look at values."""
