#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cleave/kernels/array.h"

namespace cleave {

// The shards of a value where Cleave's kernels cannot read them: on the devices of another engine
// (cleave/pjrt). They may still be computed there. A Tensor that has its value in this way fetches
// it when somebody reads it.
class RemoteValue {
 public:
  virtual ~RemoteValue() = default;
  virtual std::vector<Array> fetch() const = 0;           // by device; waits
  virtual std::vector<int64_t> device_bytes() const = 0;  // by device
};
using RemotePtr = std::shared_ptr<const RemoteValue>;

}  // namespace cleave
