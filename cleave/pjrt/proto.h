#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Protocol buffers' wire format, as far as PJRT's options and XLA's modules need it: a message is a
// row of fields, each a number, a kind, and a varint, 4 or 8 bytes, or bytes with their length.
namespace cleave::pjrt::proto {

class Writer {
 public:
  Writer& integer(int field, int64_t value);  // negative numbers take ten bytes
  Writer& boolean(int field, bool value) { return integer(field, value ? 1 : 0); }
  Writer& bytes(int field, std::string_view value);
  Writer& message(int field, const Writer& value) { return bytes(field, value.text_); }
  Writer& packed(int field, const std::vector<int64_t>& values);
  const std::string& text() const { return text_; }

 private:
  void varint(uint64_t value);
  std::string text_;
};

// One field of a message: an integer, or a view of its bytes.
struct Field {
  int number = 0;
  int wire = 0;          // 0: varint, 1: 8 bytes, 2: bytes with a length, 5: 4 bytes
  uint64_t integer = 0;  // if the wire is not 2
  std::string_view bytes;
};

// Goes through the fields of a message, whose bytes must outlive it.
//   for (Reader reader(bytes); std::optional<Field> field = reader.next();) ...
// Throws UserError if the bytes are no message.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::optional<Field> next();

 private:
  uint64_t varint();
  std::string_view take(uint64_t size);
  std::string_view rest_;
};

// The numbers of a repeated field, which may come packed or one by one.
void append_integers(const Field& field, std::vector<int64_t>& numbers);

}  // namespace cleave::pjrt::proto
