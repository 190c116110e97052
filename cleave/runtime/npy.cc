#include "cleave/runtime/npy.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/core/input_file.h"
#include "cleave/core/output_file.h"
#include "cleave/kernels/narrow.h"

namespace cleave {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

const std::map<DType, std::string>& descriptors() {
  static const std::map<DType, std::string> table = {
      {DType::Bool, "|b1"}, {DType::I8, "|i1"},    {DType::I16, "<i2"}, {DType::I32, "<i4"},
      {DType::I64, "<i8"},  {DType::U8, "|u1"},    {DType::U16, "<u2"}, {DType::U32, "<u4"},
      {DType::U64, "<u8"},  {DType::F16, "<f2"},   {DType::F32, "<f4"}, {DType::F64, "<f8"},
      {DType::C64, "<c8"},  {DType::C128, "<c16"}, {DType::BF16, "|V2"}};
  return table;
}

// The text after `'key':` in the header, up to the next comma outside parentheses or the closing
// brace.
std::string field(const std::string& header, std::string_view key, const std::string& file) {
  const size_t at = header.find("'" + std::string(key) + "'");
  if (at == std::string::npos) throw_user("{}: the header has no '{}'", file, key);
  size_t begin = header.find(':', at);
  if (begin == std::string::npos) throw_user("{}: the header is cut off", file);
  begin = header.find_first_not_of(' ', begin + 1);
  int depth = 0;
  for (size_t i = begin; i < header.size(); ++i) {
    if (header[i] == '(') ++depth;
    if (header[i] == ')') --depth;
    if (depth == 0 && (header[i] == ',' || header[i] == '}'))
      return header.substr(begin, i - begin);
  }
  throw_user("{}: the header is cut off", file);
}

Shape parse_shape(const std::string& text, const std::string& file) {
  Shape shape;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    if (*at == '-') throw_user("{}: the shape {} has a negative size", file, text);
    if (*at < '0' || *at > '9') {
      ++at;
      continue;
    }
    int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc()) throw_user("{}: the shape {} is too large", file, text);
    shape.push_back(size);
    at = next;
  }
  return shape;
}

DType parse_dtype(std::string descriptor, std::optional<DType> expected, const std::string& file) {
  std::erase_if(descriptor, [](char c) { return c == '\'' || c == ' '; });
  if (descriptor.starts_with('=')) descriptor[0] = '<';
  if (expected == DType::BF16 &&
      (descriptor == "<V2" || descriptor == "|V2" || descriptor == "<u2"))
    return DType::BF16;
  if (expected && is_narrow(*expected) && (descriptor == "<V1" || descriptor == "|V1"))
    return *expected;
  for (const auto& [dtype, text] : descriptors())
    if (descriptor.substr(1) == text.substr(1) && descriptor[0] != '>') return dtype;
  throw_user("{}: elements of type {} cannot be read; little-endian numbers and bools can", file,
             descriptor);
}

// Of elements that take less than their byte; the sign is extended.
void clear_unused_bits(Array& array) {
  const int unused = 8 - bit_width(array.dtype());
  for (int64_t i = 0; i < array.num_elements(); ++i) {
    auto& bits = array.data<uint8_t>()[i];
    const auto high = static_cast<uint8_t>(bits << unused);
    bits = is_signed_integer(array.dtype())
               ? static_cast<uint8_t>(static_cast<int8_t>(high) >> unused)
               : static_cast<uint8_t>(high >> unused);
  }
}

}  // namespace

Array load_npy(const std::filesystem::path& path, std::optional<DType> expected) {
  const std::string file = path.string();
  check_regular_file(file);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw_user("{}: cannot be opened", file);
  char start[8] = {};
  in.read(start, 8);
  if (!in || std::string_view(start, 6) != kMagic) throw_user("{}: this is no .npy file", file);
  const int length_bytes = start[6] == 1 ? 2 : 4;
  unsigned char length_text[4] = {};
  in.read(reinterpret_cast<char*>(length_text), length_bytes);
  size_t length = 0;
  for (int i = length_bytes; i-- > 0;) length = length << 8 | length_text[i];
  if (length > 1 << 20) throw_user("{}: a header of {} bytes is not believable", file, length);
  std::string header(length, ' ');
  in.read(header.data(), static_cast<std::streamsize>(length));
  if (!in) throw_user("{}: the header is cut off", file);

  const DType dtype = parse_dtype(field(header, "descr", file), expected, file);
  const bool fortran = field(header, "fortran_order", file).starts_with("True");
  Shape shape = parse_shape(field(header, "shape", file), file);
  if (fortran) std::reverse(shape.begin(), shape.end());
  // Before memory is asked for: a file that says it is larger than it is.
  const std::streamoff data = in.tellg();
  in.seekg(0, std::ios::end);
  const int64_t held = in.tellg() - data;
  in.seekg(data);
  int64_t wanted = byte_size(dtype);
  for (int64_t size : shape)
    if (__builtin_mul_overflow(wanted, size, &wanted))
      throw_user("{}: the shape {} is too large", file, to_string(shape));
  if (held < wanted)
    throw_user("{}: has {} of the {} bytes that its shape asks for", file, held, wanted);
  Array array(dtype, shape);
  in.read(reinterpret_cast<char*>(array.raw()), static_cast<std::streamsize>(wanted));
  if (!in) throw_user("{}: cannot be read", file);
  if (is_narrow(dtype)) clear_unused_bits(array);
  if (!fortran) return array;
  Shape permutation;
  for (size_t d = shape.size(); d-- > 0;) permutation.push_back(static_cast<int64_t>(d));
  return array.transpose(permutation);
}

void save_npy(const std::filesystem::path& path, const Array& array) {
  const auto descriptor = descriptors().find(array.dtype());
  if (descriptor == descriptors().end() && !is_narrow(array.dtype()))
    throw_user("{}: arrays of {} cannot be written as .npy", path.string(), name(array.dtype()));
  std::string shape;
  for (int64_t size : array.shape()) shape += std::to_string(size) + ",";
  if (array.rank() > 1) shape.pop_back();
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                   is_narrow(array.dtype()) ? "<V1" : descriptor->second, shape);
  const size_t unpadded = kMagic.size() + 4 + header.size() + 1;
  header.append((64 - unpadded % 64) % 64, ' ');
  header += '\n';
  std::string start(kMagic);
  start += '\x01';
  start += '\x00';
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  start += header;
  const Array packed = array.contiguous();
  const std::string_view parts[] = {
      start, {reinterpret_cast<const char*>(packed.raw()), packed.num_bytes()}};
  write_file(path, parts);
}

}  // namespace cleave
