#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/pjrt/proto.h"

namespace cleave::pjrt {

// An HloInstructionProto: the fields by their numbers. Those that are read are listed where they
// are used; views point into the bytes of the module.
class HloMessage {
 public:
  explicit HloMessage(std::string_view bytes);

  int64_t integer(int field, int64_t otherwise = 0) const;
  std::string_view bytes(int field) const;              // the last one; empty if there is none
  std::vector<std::string_view> each(int field) const;  // of a repeated message or text
  std::vector<int64_t> integers(int field) const;       // of repeated numbers
  bool has(int field) const { return fields_.count(field) != 0; }

 private:
  std::multimap<int, proto::Field> fields_;  // in order
};

}  // namespace cleave::pjrt
