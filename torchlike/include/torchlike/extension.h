// What a C++ extension includes: XLA's FFI, and TORCHLIKE_FUNCTION, which makes a C++ function callable from Python.
//
//   #include <torchlike/extension.h>
//
//   ffi::Error scale(ffi::Buffer<ffi::F32> x, double factor, ffi::ResultBuffer<ffi::F32> y) {
//     for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = float(factor * x.typed_data()[i]);
//     return ffi::Error::Success();
//   }
//
//   TORCHLIKE_FUNCTION(scale, "(Tensor x, float factor=1.0) -> Tensor")
//
// Parameters: Buffer<dtype, rank> and AnyBuffer take tensors; integers, floating numbers, bool, std::string_view and
// Span<const int64_t> (or of double) take Python values; ResultBuffer<dtype, rank> and Result<AnyBuffer> are results to
// fill; ScratchAllocator and ThreadPool are given by XLA. The schema names the first two groups, in order. A function
// returns ffi::Error, or nothing; a C++ exception becomes a Python RuntimeError. A handler made by
// XLA_FFI_DEFINE_HANDLER_SYMBOL may be given instead of a function.

#ifndef TORCHLIKE_EXTENSION_H_
#define TORCHLIKE_EXTENSION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace torchlike::internal {

struct Entry {
  const char* name;
  const char* schema;
  std::string signature;
  XLA_FFI_Handler* handler;
};

// Hidden: each shared library has a table of its own.
__attribute__((visibility("hidden"))) inline std::vector<Entry>& Entries() {
  static auto* entries = new std::vector<Entry>();
  return *entries;
}

// How one parameter is bound, and the word that tells Python of it.
template <typename T, typename = void>
struct Parameter {
  static_assert(sizeof(T) == 0,
                "a parameter of a TORCHLIKE_FUNCTION is of a type that XLA's FFI cannot pass: see torchlike/extension.h");
};

inline std::string BufferWord(char kind, int dtype, long rank) {
  return std::string(1, kind) + std::to_string(dtype) + ":" + std::to_string(rank);
}

template <size_t rank>
constexpr long RankOf() {
  return rank == xla::ffi::internal::kDynamicRank ? -1L : static_cast<long>(rank);
}

template <xla::ffi::DataType dtype, size_t rank>
struct Parameter<xla::ffi::Buffer<dtype, rank>> {
  static std::string Word() { return BufferWord('B', static_cast<int>(dtype), RankOf<rank>()); }
  template <typename Binding>
  static auto To(Binding&& binding, int) {
    return std::move(binding).template Arg<xla::ffi::Buffer<dtype, rank>>();
  }
};

template <>
struct Parameter<xla::ffi::AnyBuffer> {
  static std::string Word() { return BufferWord('B', 0, -1); }
  template <typename Binding>
  static auto To(Binding&& binding, int) {
    return std::move(binding).template Arg<xla::ffi::AnyBuffer>();
  }
};

template <xla::ffi::DataType dtype, size_t rank>
struct Parameter<xla::ffi::Result<xla::ffi::Buffer<dtype, rank>>> {
  static std::string Word() { return BufferWord('R', static_cast<int>(dtype), RankOf<rank>()); }
  template <typename Binding>
  static auto To(Binding&& binding, int) {
    return std::move(binding).template Ret<xla::ffi::Buffer<dtype, rank>>();
  }
};

template <>
struct Parameter<xla::ffi::Result<xla::ffi::AnyBuffer>> {
  static std::string Word() { return BufferWord('R', 0, -1); }
  template <typename Binding>
  static auto To(Binding&& binding, int) {
    return std::move(binding).template Ret<xla::ffi::AnyBuffer>();
  }
};

template <typename T>
inline std::string ScalarWord() {
  if (std::is_same_v<T, bool>) return "bool";
  const char* kind = std::is_floating_point_v<T> ? "float" : std::is_signed_v<T> ? "int" : "uint";
  return kind + std::to_string(8 * sizeof(T));
}

// The fixed-width type of the same form: XLA has no decoding for both of long and long long.
template <typename T>
using Fixed = std::conditional_t<
    std::is_same_v<T, bool> || std::is_floating_point_v<T>, T,
    std::conditional_t<
        std::is_signed_v<T>,
        std::conditional_t<sizeof(T) == 8, int64_t,
                           std::conditional_t<sizeof(T) == 4, int32_t, std::conditional_t<sizeof(T) == 2, int16_t, int8_t>>>,
        std::conditional_t<sizeof(T) == 8, uint64_t,
                           std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>>>;

// Attributes are named by their position: a0, a1...
template <typename T, typename Binding>
auto BindAttribute(Binding&& binding, int position) {
  return std::move(binding).template Attr<T>("a" + std::to_string(position));
}

template <typename T>
struct Parameter<T, std::enable_if_t<std::is_arithmetic_v<T>>> {
  static std::string Word() { return "A" + ScalarWord<T>(); }
  template <typename Binding>
  static auto To(Binding&& binding, int position) {
    return BindAttribute<Fixed<T>>(std::move(binding), position);
  }
};

template <typename T>
struct Parameter<xla::ffi::Span<const T>> {
  static std::string Word() { return "S" + ScalarWord<T>(); }
  template <typename Binding>
  static auto To(Binding&& binding, int position) {
    return BindAttribute<xla::ffi::Span<const T>>(std::move(binding), position);
  }
};

template <>
struct Parameter<std::string_view> {
  static std::string Word() { return "Astr"; }
  template <typename Binding>
  static auto To(Binding&& binding, int position) {
    return BindAttribute<std::string_view>(std::move(binding), position);
  }
};

template <typename T>
struct ContextParameter {
  static std::string Word() { return "C"; }
  template <typename Binding>
  static auto To(Binding&& binding, int) {
    return std::move(binding).template Ctx<T>();
  }
};

template <>
struct Parameter<xla::ffi::ScratchAllocator> : ContextParameter<xla::ffi::ScratchAllocator> {};
template <>
struct Parameter<xla::ffi::ThreadPool> : ContextParameter<xla::ffi::ThreadPool> {};

// A binding cannot be moved out of a function, so that the last step makes the handler.
template <int position, typename Fn, typename Binding>
xla::ffi::Ffi* BindAll(Fn fn, Binding&& binding) {
  return std::move(binding).To(fn).release();
}

template <int position, typename P, typename... Ps, typename Fn, typename Binding>
xla::ffi::Ffi* BindAll(Fn fn, Binding&& binding) {
  return BindAll<position + 1, Ps...>(fn, Parameter<P>::To(std::move(binding), position));
}

// Calls the function; an exception becomes an error of the call.
template <auto function, typename R, typename... Ps>
xla::ffi::Error Guarded(Ps... parameters) {
  try {
    if constexpr (std::is_void_v<R>) {
      function(std::move(parameters)...);
      return xla::ffi::Error::Success();
    } else {
      return function(std::move(parameters)...);
    }
  } catch (const std::exception& error) {
    return xla::ffi::Error(xla::ffi::ErrorCode::kUnknown, error.what());
  } catch (...) {
    return xla::ffi::Error(xla::ffi::ErrorCode::kUnknown, "an exception that is no std::exception");
  }
}

template <auto function, typename R, typename... Ps>
XLA_FFI_Error* Handle(XLA_FFI_CallFrame* frame) {
  static auto* handler = BindAll<0, Ps...>(&Guarded<function, R, Ps...>, xla::ffi::Ffi::Bind());
  return handler->Call(frame);
}

template <auto function, typename F>
struct Exported;

template <auto function>
struct Exported<function, XLA_FFI_Error* (*)(XLA_FFI_CallFrame*)> {
  static std::string Signature() { return "handler"; }
  static XLA_FFI_Handler* Handler() { return function; }
};

template <auto function, typename R, typename... Ps>
struct Exported<function, R (*)(Ps...)> {
  static_assert(std::is_void_v<R> || std::is_same_v<R, xla::ffi::Error>,
                "a TORCHLIKE_FUNCTION returns ffi::Error or nothing; its results are ffi::ResultBuffer parameters");
  static std::string Signature() {
    std::string words = "function";
    ((words += " " + Parameter<std::decay_t<Ps>>::Word()), ...);
    return words;
  }
  static XLA_FFI_Handler* Handler() { return &Handle<function, R, std::decay_t<Ps>...>; }
};

template <auto function>
struct __attribute__((visibility("hidden"))) Export {
  Export(const char* name, const char* schema) {
    using Functions = Exported<function, decltype(function)>;
    Entries().push_back({name, schema, Functions::Signature(), Functions::Handler()});
  }
};

}  // namespace torchlike::internal

// The functions of this library, read by Python after loading it.
extern "C" __attribute__((visibility("default"), used)) inline XLA_FFI_Handler* torchlike_extension_entry(
    size_t position, const char** name, const char** schema, const char** signature) {
  auto& entries = torchlike::internal::Entries();
  if (position >= entries.size()) return nullptr;
  auto& entry = entries[position];
  *name = entry.name;
  *schema = entry.schema;
  *signature = entry.signature.c_str();
  return entry.handler;
}

// TORCHLIKE_FUNCTION(function) or TORCHLIKE_FUNCTION(function, "(Tensor x, float factor=1.0) -> Tensor").
#define TORCHLIKE_FUNCTION(function, ...)                                          \
  static const ::torchlike::internal::Export<&function> torchlike_export_##function( \
      #function, ("" __VA_ARGS__))

#endif  // TORCHLIKE_EXTENSION_H_
