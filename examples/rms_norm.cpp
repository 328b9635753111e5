// RMS normalization over the last dimension, y = x / sqrt(mean(x^2) + eps) * weight, and its gradient.

#include <torchlike/extension.h>

namespace {

// Rows and columns of a tensor that is normalized along its last dimension.
struct Rows {
  explicit Rows(const ffi::AnyBuffer& x) {
    auto dims = x.dimensions();
    if (dims.size() == 0) throw std::invalid_argument("rms_norm: x needs a dimension to normalize");
    columns = dims.back();
    count = columns ? x.element_count() / columns : 0;
  }
  size_t count, columns;
};

template <typename T>
void Forward(ffi::AnyBuffer x, ffi::AnyBuffer weight, double eps, ffi::AnyBuffer y, ffi::AnyBuffer scale) {
  Rows rows(x);
  const T* w = weight.typed_data<T>();
  for (size_t i = 0; i < rows.count; ++i) {
    const T* from = x.typed_data<T>() + i * rows.columns;
    T* to = y.typed_data<T>() + i * rows.columns;
    double total = 0;
    for (size_t j = 0; j < rows.columns; ++j) total += double(from[j]) * from[j];
    T s = T(1 / std::sqrt(total / rows.columns + eps));
    scale.typed_data<T>()[i] = s;
    for (size_t j = 0; j < rows.columns; ++j) to[j] = from[j] * s * w[j];
  }
}

// With u = x * scale and h = grad * weight: dx = scale * (h - u * mean(h * u)), dweight = sum over rows of grad * u.
template <typename T>
void Backward(ffi::AnyBuffer grad, ffi::AnyBuffer x, ffi::AnyBuffer weight, ffi::AnyBuffer scale, ffi::AnyBuffer dx,
              ffi::AnyBuffer dweight) {
  Rows rows(x);
  const T* w = weight.typed_data<T>();
  T* dw = dweight.typed_data<T>();
  std::fill(dw, dw + rows.columns, T(0));
  for (size_t i = 0; i < rows.count; ++i) {
    const T* g = grad.typed_data<T>() + i * rows.columns;
    const T* from = x.typed_data<T>() + i * rows.columns;
    T* to = dx.typed_data<T>() + i * rows.columns;
    T s = scale.typed_data<T>()[i];
    double mean = 0;
    for (size_t j = 0; j < rows.columns; ++j) mean += double(g[j]) * w[j] * from[j] * s;
    mean /= rows.columns;
    for (size_t j = 0; j < rows.columns; ++j) {
      T u = from[j] * s;
      to[j] = s * (g[j] * w[j] - u * T(mean));
      dw[j] += g[j] * u;
    }
  }
}

ffi::Error Unsupported() { return ffi::Error::InvalidArgument("rms_norm: expected float32 or float64"); }

ffi::Error rms_norm(ffi::AnyBuffer x, ffi::AnyBuffer weight, double eps, ffi::Result<ffi::AnyBuffer> y,
                    ffi::Result<ffi::AnyBuffer> scale) {
  if (weight.element_type() != x.element_type()) return Unsupported();
  switch (x.element_type()) {
    case ffi::F32: Forward<float>(x, weight, eps, *y, *scale); break;
    case ffi::F64: Forward<double>(x, weight, eps, *y, *scale); break;
    default: return Unsupported();
  }
  return ffi::Error::Success();
}

ffi::Error rms_norm_backward(ffi::AnyBuffer grad, ffi::AnyBuffer x, ffi::AnyBuffer weight, ffi::AnyBuffer scale,
                             ffi::Result<ffi::AnyBuffer> dx, ffi::Result<ffi::AnyBuffer> dweight) {
  Rows rows(x);
  if (grad.size_bytes() != x.size_bytes() || weight.size_bytes() != dweight->size_bytes() ||
      weight.element_count() != rows.columns || scale.element_count() != rows.count) {
    return ffi::Error::InvalidArgument("rms_norm_backward: the shapes do not belong together");
  }
  switch (x.element_type()) {
    case ffi::F32: Backward<float>(grad, x, weight, scale, *dx, *dweight); break;
    case ffi::F64: Backward<double>(grad, x, weight, scale, *dx, *dweight); break;
    default: return Unsupported();
  }
  return ffi::Error::Success();
}

}  // namespace

TORCHLIKE_FUNCTION(rms_norm, "(Tensor x, Tensor weight, float eps=1e-6) -> (Tensor y, Tensor scale)");
TORCHLIKE_FUNCTION(rms_norm_backward,
                   "(Tensor grad, Tensor x, Tensor weight, Tensor scale) -> (Tensor dx, Tensor dweight)");
