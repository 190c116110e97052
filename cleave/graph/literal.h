#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cleave/graph/type.h"

namespace cleave {

// The value of a dense constant: elements in row-major order, as bytes of the dtype (bool: one
// byte, 0 or 1; sub-byte integers: one byte each). A splat holds one element for the whole shape.
// Copies share the bytes.
struct Literal {
  Type type;
  bool splat = false;
  std::shared_ptr<const std::vector<std::byte>> bytes;
  std::string resource;  // dense_resource<key>: the key; `bytes` is null if its blob is not given
  uint32_t resource_alignment = 0;

  int64_t num_elements() const { return cleave::num_elements(type.shape); }
  const std::byte* data() const { return bytes->data(); }
  bool operator==(const Literal& other) const;
};

}  // namespace cleave
