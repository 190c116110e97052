#include "cleave/runtime/fill.h"

#include <cmath>
#include <cstring>
#include <numbers>

#include "cleave/core/error.h"
#include "cleave/core/number_text.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/float16.h"
#include "cleave/kernels/narrow.h"
#include "cleave/runtime/npy.h"

namespace cleave {
namespace {

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

double uniform(uint64_t seed, uint64_t i) {
  return (static_cast<double>(mix(mix(seed) ^ i) >> 11) + 0.5) * 0x1p-53;
}

double normal(uint64_t seed, uint64_t i) {
  const double radius = std::sqrt(-2 * std::log(uniform(seed, 2 * i)));
  return radius * std::cos(2 * std::numbers::pi * uniform(seed, 2 * i + 1));
}

template <typename T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

void store(DType dtype, std::byte* at, double value) {
  switch (dtype) {
    case DType::F16:
      return put(at, static_cast<float16>(static_cast<float>(value)));
    case DType::BF16:
      return put(at, bfloat16(static_cast<float>(value)));
    case DType::F32:
      return put(at, static_cast<float>(value));
    case DType::F64:
      return put(at, value);
    case DType::Bool:
      return put(at, static_cast<uint8_t>(value != 0));
    default:
      break;
  }
  const auto integer = static_cast<int64_t>(value);
  std::memcpy(at, &integer, static_cast<size_t>(byte_size(dtype)));
}

// Element i, part 0 or 1 of a complex number.
template <typename Element>
Array fill(const Type& type, Element element) {
  Array array(type.dtype, type.shape);
  const int64_t parts = is_complex(type.dtype) ? 2 : 1;
  const DType part_type = real_part_type(type.dtype);
  const int size = byte_size(part_type);
  for (int64_t i = 0; i < array.num_elements() * parts; ++i)
    store(part_type, array.raw() + i * size, element(i / parts, i % parts));
  return array;
}

Array fill_random(const Type& type, uint64_t seed, bool normally) {
  if (type.dtype == DType::Bool)
    return fill(type, [&](int64_t i, int64_t) { return uniform(seed, i) < 0.5 ? 0.0 : 1.0; });
  if (is_integer(type.dtype))
    return fill(type, [&](int64_t i, int64_t) { return std::floor(10 * uniform(seed, i)); });
  if (!normally)
    return fill(type, [&](int64_t i, int64_t part) { return uniform(seed, 2 * i + part); });
  return fill(type, [&](int64_t i, int64_t part) { return normal(seed, 2 * i + part); });
}

}  // namespace

Array make_array(const Type& type, std::string_view text) {
  if (text.ends_with(".npy")) {
    const Array array = load_npy(text, type.dtype);
    bool fits = array.dtype() == type.dtype && array.rank() == type.rank();
    for (size_t d = 0; fits && d < type.rank(); ++d)
      fits = type.shape[d] == kDynamicSize || type.shape[d] == array.shape()[d];
    if (!fits)
      throw_user("{}: holds {}, and {} is asked for", text,
                 to_string(Type::tensor(array.dtype(), array.shape())), to_string(type));
    return array;
  }
  if (type.has_static_shape() && is_narrow(type.dtype))
    return convert(make_array(Type::tensor(wide_type(type.dtype), type.shape), text), type.dtype);
  if (!type.has_static_shape() || !has_kernels(type.dtype))
    throw_user("an array of {} cannot be made up; give a .npy file", to_string(type));
  if (text == "zeros") return Array::zeros(type.dtype, type.shape);
  if (text == "ones") return fill(type, [](int64_t, int64_t part) { return part ? 0.0 : 1.0; });
  if (text == "iota")
    return fill(type, [](int64_t i, int64_t part) { return part ? 0.0 : static_cast<double>(i); });
  for (const std::string_view kind : {"random:", "uniform:"})
    if (text.starts_with(kind))
      if (const auto seed = number_of<uint64_t>(text.substr(kind.size())))
        return fill_random(type, *seed, kind == "random:");
  throw_user(
      "'{}' says nothing about an array; zeros, ones, iota, random:SEED, uniform:SEED or FILE.npy "
      "do",
      text);
}

}  // namespace cleave
