#include "cleave/kernels/array_text.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "cleave/kernels/float16.h"
#include "cleave/kernels/narrow.h"

namespace cleave {
namespace {

template <typename T>
T read(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  return value;
}

// Six digits where they give the same number back in the type T.
template <typename T>
std::string float_text(T value) {
  const double wide = static_cast<float>(value);
  const double exact = std::is_same_v<T, double> ? static_cast<double>(value) : wide;
  if (std::isnan(exact)) return "nan";
  if (std::isinf(exact)) return exact > 0 ? "inf" : "-inf";
  std::string text;
  for (int digits : {6, 7, 8, 12, 15, 16}) {
    text = fmt::format("{:.{}e}", exact, digits);
    if (static_cast<T>(std::strtod(text.c_str(), nullptr)) == value) break;
  }
  return text;
}

void append(std::string& text, const Array& array, size_t dim, const std::byte* data, size_t indent,
            int64_t limit) {
  const std::string margin(indent, ' ');
  const int64_t n = array.shape()[dim];
  const int64_t step = array.strides()[dim] * byte_size(array.dtype());
  if (n == 0 || dim + 1 == array.rank()) {
    text += margin + "[";
    for (int64_t i = 0; i < n; ++i) {
      if (i) text += ", ";
      if (n > limit && i == limit / 2) {
        text += "...";
        i = n - (limit - limit / 2);
        text += ", ";
      }
      text += element_text(array.dtype(), data + i * step);
    }
    text += "]";
    return;
  }
  text += margin + "[\n";
  for (int64_t i = 0; i < n; ++i) {
    if (n > limit && i == limit / 2) {
      text += margin + "  ...,\n";
      i = n - (limit - limit / 2);
    }
    append(text, array, dim + 1, data + i * step, indent + 2, limit);
    text += i + 1 < n ? ",\n" : "\n";
  }
  text += margin + "]";
}

}  // namespace

std::string element_text(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::Bool:
      return read<uint8_t>(element) ? "true" : "false";
    case DType::I8:
    case DType::I2:
    case DType::I4:
      return fmt::format("{}", int{read<int8_t>(element)});
    case DType::I16:
      return fmt::format("{}", read<int16_t>(element));
    case DType::I32:
      return fmt::format("{}", read<int32_t>(element));
    case DType::I64:
    case DType::Index:
      return fmt::format("{}", read<int64_t>(element));
    case DType::U8:
    case DType::U2:
    case DType::U4:
      return fmt::format("{}", unsigned{read<uint8_t>(element)});
    case DType::U16:
      return fmt::format("{}", read<uint16_t>(element));
    case DType::U32:
      return fmt::format("{}", read<uint32_t>(element));
    case DType::U64:
      return fmt::format("{}", read<uint64_t>(element));
    case DType::F16:
      return float_text(read<float16>(element));
    case DType::BF16:
      return float_text(read<bfloat16>(element));
    case DType::F32:
      return float_text(read<float>(element));
    case DType::F64:
      return float_text(read<double>(element));
    case DType::C64:
      return fmt::format("[{}, {}]", float_text(read<float>(element)),
                         float_text(read<float>(element + 4)));
    case DType::C128:
      return fmt::format("[{}, {}]", float_text(read<double>(element)),
                         float_text(read<double>(element + 8)));
    default: {
      if (is_narrow(dtype)) return float_text(narrow_float_value(dtype, read<uint8_t>(element)));
      std::string text = "0x";
      for (int i = byte_size(dtype); i-- > 0;)
        text += fmt::format("{:02X}", std::to_integer<unsigned>(element[i]));
      return text;
    }
  }
}

std::string to_text(const Array& array, int64_t limit) {
  std::string text = "tensor<" + to_string(array.shape());
  text += array.rank() ? "x" : "";
  text += name(array.dtype());
  text += "> {";
  if (array.rank() == 0) return text + element_text(array.dtype(), array.raw()) + "}";
  text += "\n";
  append(text, array, 0, array.raw(), 2, limit);
  return text + "\n}";
}

}  // namespace cleave
