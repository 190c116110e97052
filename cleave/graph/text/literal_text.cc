#include "cleave/graph/text/literal_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "cleave/graph/text/attribute_printer.h"
#include "cleave/graph/text/float_text.h"
#include "cleave/graph/text/resources.h"

namespace cleave::text {
namespace {

using Bytes = std::vector<std::byte>;

class ElementReader {
 public:
  ElementReader(Lexer lexer, const Type& type)
      : lexer_(lexer), type_(type), dtype_(type.dtype), size_(byte_size(type.dtype)) {}

  Bytes read() {
    if (!type_.is_tensor() || !type_.has_static_shape())
      lexer_.fail("a dense constant needs a tensor type of static shape, not " + to_string(type_));
    if (dtype_ == DType::Other)
      lexer_.fail("constants of type " + to_string(type_) + " have no elements as text");
    if (lexer_.at_end()) {
      if (num_elements(type_.shape) != 0) lexer_.fail("no elements for " + to_string(type_));
    } else if (lexer_.peek() == '"') {
      read_hex();
    } else if (lexer_.peek() == '[') {
      read_list(0);
    } else {
      read_element();
      splat_ = true;
    }
    if (!lexer_.at_end()) lexer_.fail("unexpected text in a dense constant");
    return std::move(bytes_);
  }
  bool splat() const { return splat_; }

 private:
  void read_list(size_t dim) {
    if (dim >= type_.rank())
      lexer_.fail("lists nested deeper than the shape of " + to_string(type_));
    lexer_.expect("[");
    int64_t count = 0;
    if (!lexer_.accept("]")) {
      do {
        if (dim + 1 < type_.rank())
          read_list(dim + 1);
        else
          read_element();
        ++count;
      } while (lexer_.accept(","));
      lexer_.expect("]");
    }
    if (count != type_.shape[dim])
      lexer_.fail(fmt::format("a list of {} where dimension {} of {} is {}", count, dim,
                              to_string(type_), type_.shape[dim]));
  }

  void read_element() {
    if (!is_complex(dtype_)) {
      read_real(dtype_, size_);
      return;
    }
    lexer_.expect("(");
    read_real(real_part_type(dtype_), size_ / 2);
    lexer_.expect(",");
    read_real(real_part_type(dtype_), size_ / 2);
    lexer_.expect(")");
  }

  void read_real(DType dtype, int size) {
    uint64_t bits = 0;
    const size_t begin = lexer_.next_pos();
    if (dtype == DType::Bool && lexer_.accept_word("true")) {
      bits = 1;
    } else if (dtype == DType::Bool && lexer_.accept_word("false")) {
      bits = 0;
    } else if (is_float(dtype)) {
      const std::string_view number = lexer_.number();
      if (!parse_float(number, dtype, bits))
        lexer_.fail_at(begin, fmt::format("'{}' is not a value of {}", number, name(dtype)));
    } else {
      bits = read_integer(dtype, begin);
    }
    const size_t old = bytes_.size();
    bytes_.resize(old + static_cast<size_t>(size));
    store_bits(bytes_.data() + old, size, bits);
  }

  uint64_t read_integer(DType dtype, size_t begin) {
    std::string_view number = lexer_.number();
    const auto bad = [&] {
      lexer_.fail_at(begin, fmt::format("'{}' is not a value of {}", number, name(dtype)));
    };
    const bool negative = number[0] == '-';
    std::string_view digits = number.substr(negative || number[0] == '+' ? 1 : 0);
    int base = 10;
    if (digits.substr(0, 2) == "0x") {
      digits.remove_prefix(2);
      base = 16;
    }
    uint64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
    if (error != std::errc() || stop != end) bad();
    const int width = bit_width(dtype);
    const uint64_t limit = width >= 64 ? UINT64_MAX : (uint64_t{1} << width) - 1;
    if (negative) {
      if (is_unsigned_integer(dtype) || value > (uint64_t{1} << (width - 1))) bad();
      value = 0 - value;
      return dtype == DType::Bool ? value & 1 : value;
    }
    if (value > limit) bad();
    // Sub-byte integers are kept sign-extended to a byte.
    if (is_signed_integer(dtype) && width < 8 && (value >> (width - 1) & 1)) value |= ~limit;
    return value;
  }

  void read_hex() {
    const size_t begin = lexer_.next_pos();
    const std::string_view source = lexer_.source();
    const size_t close = source.find('"', begin + 1);
    if (close == std::string_view::npos) lexer_.fail("a string that does not end");
    const std::string_view digits = source.substr(begin + 1, close - begin - 1);
    lexer_.seek(close + 1);
    bytes_ = hex_bytes(lexer_, begin, digits);
    const auto count = static_cast<uint64_t>(num_elements(type_.shape));
    const auto element = static_cast<uint64_t>(size_);
    if (bytes_.size() % element == 0 && bytes_.size() / element == count) return;
    if (bytes_.size() == element) {
      splat_ = true;
    } else if (dtype_ == DType::Bool && bytes_.size() == count / 8 + (count % 8 != 0)) {
      Bytes unpacked(count);
      for (uint64_t i = 0; i < count; ++i) unpacked[i] = bytes_[i / 8] >> (i % 8) & std::byte{1};
      bytes_ = std::move(unpacked);
    } else {
      lexer_.fail_at(begin, fmt::format("{} bytes of hex for {}", bytes_.size(), to_string(type_)));
    }
  }

  Lexer lexer_;
  const Type& type_;
  DType dtype_;
  int size_;
  Bytes bytes_;
  bool splat_ = false;
};

bool all_equal(const Bytes& bytes, size_t element) {
  return bytes.size() >= element &&
         std::memcmp(bytes.data(), bytes.data() + element, bytes.size() - element) == 0;
}

void append_real(std::string& out, DType dtype, const std::byte* data, int size) {
  uint64_t bits = load_bits(data, size);
  if (dtype == DType::Bool) {
    out += bits ? "true" : "false";
  } else if (is_float(dtype)) {
    append_float(out, dtype, bits);
  } else if (is_unsigned_integer(dtype)) {
    fmt::format_to(std::back_inserter(out), "{}", bits);
  } else {
    const int shift = 64 - 8 * size;
    fmt::format_to(std::back_inserter(out), "{}", static_cast<int64_t>(bits << shift) >> shift);
  }
}

void append_element(std::string& out, DType dtype, const std::byte* data) {
  const int size = byte_size(dtype);
  if (!is_complex(dtype)) {
    append_real(out, dtype, data, size);
    return;
  }
  out += '(';
  append_real(out, real_part_type(dtype), data, size / 2);
  out += ',';
  append_real(out, real_part_type(dtype), data + size / 2, size / 2);
  out += ')';
}

void append_list(std::string& out, const Type& type, size_t dim, const std::byte*& data) {
  out += '[';
  for (int64_t i = 0; i < type.shape[dim]; ++i) {
    if (i) out += ", ";
    if (dim + 1 < type.rank()) {
      append_list(out, type, dim + 1, data);
    } else {
      append_element(out, type.dtype, data);
      data += byte_size(type.dtype);
    }
  }
  out += ']';
}

}  // namespace

Literal parse_dense_elements(const Lexer& lexer, size_t begin, size_t end, const Type& type) {
  Lexer elements(lexer.source().substr(0, end));
  elements.seek(begin);
  ElementReader reader(elements, type);
  Literal literal;
  literal.type = type;
  Bytes bytes = reader.read();
  const auto element = static_cast<size_t>(byte_size(type.dtype));
  literal.splat = reader.splat() || (num_elements(type.shape) != 0 && all_equal(bytes, element));
  if (literal.splat) bytes.resize(element);
  literal.bytes = std::make_shared<const Bytes>(std::move(bytes));
  return literal;
}

void append_dense(std::string& out, const Literal& literal, size_t hex_limit) {
  if (!literal.resource.empty()) {
    out += "dense_resource<";
    append_keyword_or_string(out, literal.resource);
    out += '>';
    return;
  }
  out += "dense<";
  const auto count = static_cast<uint64_t>(literal.num_elements());
  const std::byte* data = literal.data();
  if (literal.splat || literal.type.shape.empty()) {
    append_element(out, literal.type.dtype, data);
  } else if (count == 0) {
    // Nothing between the brackets.
  } else if (count > hex_limit && literal.type.dtype != DType::Bool) {
    // Digits of booleans mean bits to older readers and bytes to newer ones; all read lists.
    out += "\"0x";
    append_hex(out, *literal.bytes);
    out += '"';
  } else {
    append_list(out, literal.type, 0, data);
  }
  out += '>';
}

}  // namespace cleave::text
