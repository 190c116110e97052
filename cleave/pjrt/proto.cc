#include "cleave/pjrt/proto.h"

#include <cstring>

#include "cleave/core/error.h"

namespace cleave::pjrt::proto {
namespace {

[[noreturn]] void damaged() {
  throw_user("what a PJRT plugin gave as a serialized message is not one: it ends inside a field");
}

}  // namespace

void Writer::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
  text_ += static_cast<char>(value);
}

Writer& Writer::integer(int field, int64_t value) {
  varint(static_cast<uint64_t>(field) << 3);
  varint(static_cast<uint64_t>(value));
  return *this;
}

Writer& Writer::bytes(int field, std::string_view value) {
  varint(static_cast<uint64_t>(field) << 3 | 2);
  varint(value.size());
  text_ += value;
  return *this;
}

Writer& Writer::packed(int field, const std::vector<int64_t>& values) {
  Writer list;
  for (int64_t value : values) list.varint(static_cast<uint64_t>(value));
  return bytes(field, list.text_);
}

uint64_t Reader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  damaged();
}

std::string_view Reader::take(uint64_t size) {
  if (size > rest_.size()) damaged();
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

std::optional<Field> Reader::next() {
  if (rest_.empty()) return std::nullopt;
  const uint64_t tag = varint();
  Field field;
  field.number = static_cast<int>(tag >> 3);
  field.wire = static_cast<int>(tag & 7);
  switch (field.wire) {
    case 0:
      field.integer = varint();
      break;
    case 1:
      field.bytes = take(8);
      std::memcpy(&field.integer, field.bytes.data(), 8);
      break;
    case 2:
      field.bytes = take(varint());
      break;
    case 5:
      field.bytes = take(4);
      std::memcpy(&field.integer, field.bytes.data(), 4);
      break;
    default:
      damaged();
  }
  return field;
}

void append_integers(const Field& field, std::vector<int64_t>& numbers) {
  if (field.wire != 2) return numbers.push_back(static_cast<int64_t>(field.integer));
  // Packed: varints without tags. A varint reads like the value of a field of number 0.
  std::string_view rest = field.bytes;
  while (!rest.empty()) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      if (rest.empty() || shift > 63) damaged();
      const auto byte = static_cast<unsigned char>(rest[0]);
      rest.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    numbers.push_back(static_cast<int64_t>(value));
  }
}

}  // namespace cleave::pjrt::proto
