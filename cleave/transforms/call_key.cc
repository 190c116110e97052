#include "cleave/transforms/call_key.h"

#include <fmt/format.h>

#include <bit>

#include "cleave/core/error.h"

namespace cleave {
namespace key_detail {

bool ArgumentKey::operator==(const ArgumentKey& other) const {
  if (bytes != other.bytes || tensors != other.tensors || objects.size() != other.objects.size())
    return false;
  for (size_t i = 0; i < objects.size(); ++i)
    if (!objects[i]->equals(*other.objects[i])) return false;
  return true;
}

void ArgumentKey::add_word(uint64_t word) {
  bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
}

void ArgumentKey::add_text(std::string_view text) {
  add_word(text.size());
  bytes.append(text);
}

void ArgumentKey::add_real(long double value) {
  // Two doubles hold every long double; what is beyond the range of a double is told apart by its
  // digits.
  const auto head = static_cast<double>(value);
  add_word(std::bit_cast<uint64_t>(head));
  if (static_cast<long double>(head) == value || value != value) return;
  add_text(fmt::format("{:a}", value));
}

void check_shown(size_t argument, size_t tensors, size_t leaves) {
  if (tensors == leaves) return;
  throw_user(
      "compile: argument {} holds {} Tensors, and its `visit` shows {}; a Tensor that is not shown "
      "would keep its first value",
      argument, tensors, leaves);
}

}  // namespace key_detail

std::string CallKey::difference(const CallKey& before) const {
  if (types_ != before.types_) return "the arguments are of other types";
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i] == before.arguments_[i]) continue;
    const std::string &now = arguments_[i].text, &was = before.arguments_[i].text;
    if (!now.empty()) return fmt::format("argument {} was {}, and is {}", i, was, now);
    return fmt::format("argument {} differs in its structure, or in a value that is not a Tensor",
                       i);
  }
  return "nothing differs";
}

}  // namespace cleave
