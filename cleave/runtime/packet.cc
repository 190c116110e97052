#include "cleave/runtime/packet.h"

#include <cstring>
#include <span>

#include "cleave/core/error.h"

namespace cleave {
namespace {

constexpr int64_t kInvalid = -1;

size_t to_line(size_t bytes) { return (bytes + Parcel::kLine - 1) / Parcel::kLine * Parcel::kLine; }

Array view_at(const Parcel& message, size_t at, DType dtype, const Shape& shape) {
  return Array(dtype, shape, row_major_strides(shape), static_cast<int64_t>(at / byte_size(dtype)),
               message.data);
}

class Reader {
 public:
  explicit Reader(const Parcel& message) : message_(message) {}

  int64_t number() {
    int64_t value = 0;
    take(&value, sizeof value);
    return value;
  }
  std::string text() {
    std::string value(static_cast<size_t>(number()), '\0');
    take(value.data(), value.size());
    return value;
  }
  std::vector<int64_t> numbers() {
    std::vector<int64_t> values(static_cast<size_t>(number()));
    take(values.data(), values.size() * sizeof(int64_t));
    return values;
  }
  size_t at() const { return at_; }

 private:
  void take(void* out, size_t bytes) {
    internal_check(at_ + bytes <= message_.size, "a message between ranks is cut short");
    if (bytes) std::memcpy(out, message_.data.get() + at_, bytes);
    at_ += bytes;
  }
  const Parcel& message_;
  size_t at_ = 0;
};

class Writer {
 public:
  void number(int64_t value) { put(&value, sizeof value); }
  void text(const std::string& value) {
    number(static_cast<int64_t>(value.size()));
    put(value.data(), value.size());
  }
  void numbers(std::span<const int64_t> values) {
    number(static_cast<int64_t>(values.size()));
    put(values.data(), values.size_bytes());
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void put(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  std::string bytes_;
};

}  // namespace

Parcel encode(const Packet& packet) {
  Writer head;
  head.number(static_cast<int64_t>(packet.kind));
  head.number(packet.session);
  head.number(packet.from);
  head.numbers(packet.to);
  head.number(static_cast<int64_t>(packet.group));
  head.text(packet.what);
  head.number(static_cast<int64_t>(packet.arrays.size()));
  size_t payload = 0;
  for (const Array& array : packet.arrays) {
    head.number(array.valid() ? static_cast<int64_t>(array.dtype()) : kInvalid);
    if (!array.valid()) continue;
    head.numbers(array.shape());
    payload += to_line(array.num_bytes());
  }
  const size_t start = to_line(head.bytes().size());
  Parcel message{allocate(start + payload), start + payload};
  std::memcpy(message.data.get(), head.bytes().data(), head.bytes().size());
  std::memset(message.data.get() + head.bytes().size(), 0, start - head.bytes().size());
  size_t at = start;
  for (const Array& array : packet.arrays) {
    if (!array.valid()) continue;
    copy_elements(array, view_at(message, at, array.dtype(), array.shape()));
    const size_t bytes = array.num_bytes();
    std::memset(message.data.get() + at + bytes, 0, to_line(bytes) - bytes);
    at += to_line(bytes);
  }
  return message;
}

Packet decode(Parcel message) {
  Reader head(message);
  Packet packet;
  packet.kind = static_cast<Packet::Kind>(head.number());
  packet.session = head.number();
  packet.from = head.number();
  packet.to = head.numbers();
  packet.group = static_cast<uint64_t>(head.number());
  packet.what = head.text();
  struct Form {
    int64_t dtype;
    Shape shape;
  };
  std::vector<Form> forms(static_cast<size_t>(head.number()));
  for (Form& form : forms) {
    form.dtype = head.number();
    if (form.dtype != kInvalid) form.shape = head.numbers();
  }
  size_t at = to_line(head.at());
  for (Form& form : forms) {
    if (form.dtype == kInvalid) {
      packet.arrays.emplace_back();
      continue;
    }
    const auto dtype = static_cast<DType>(form.dtype);
    packet.arrays.push_back(view_at(message, at, dtype, form.shape));
    at += to_line(packet.arrays.back().num_bytes());
  }
  internal_check(at <= message.size, "a message between ranks is cut short");
  return packet;
}

}  // namespace cleave
