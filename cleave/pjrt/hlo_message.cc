#include "cleave/pjrt/hlo_message.h"

namespace cleave::pjrt {

HloMessage::HloMessage(std::string_view bytes) {
  proto::Reader reader(bytes);
  while (const std::optional<proto::Field> field = reader.next())
    fields_.emplace(field->number, *field);
}

int64_t HloMessage::integer(int field, int64_t otherwise) const {
  const auto [begin, end] = fields_.equal_range(field);
  return begin == end ? otherwise : static_cast<int64_t>(std::prev(end)->second.integer);
}

std::string_view HloMessage::bytes(int field) const {
  const auto [begin, end] = fields_.equal_range(field);
  return begin == end ? std::string_view() : std::prev(end)->second.bytes;
}

std::vector<std::string_view> HloMessage::each(int field) const {
  std::vector<std::string_view> all;
  const auto [begin, end] = fields_.equal_range(field);
  for (auto it = begin; it != end; ++it) all.push_back(it->second.bytes);
  return all;
}

std::vector<int64_t> HloMessage::integers(int field) const {
  std::vector<int64_t> all;
  const auto [begin, end] = fields_.equal_range(field);
  for (auto it = begin; it != end; ++it) proto::append_integers(it->second, all);
  return all;
}

}  // namespace cleave::pjrt
