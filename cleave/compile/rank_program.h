#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cleave/compile/device_code.h"
#include "cleave/compile/rank_devices.h"
#include "cleave/compile/rank_transfer.h"
#include "cleave/runtime/comm_log.h"
#include "cleave/spmd/program.h"

namespace cleave {

// What a compiled program is beyond one rank: how ranks agree on it, where their devices meet, and
// what they tell each other after a run. All ranks make the same calls.
class RankProgram {
 public:
  RankProgram(World& world, const Program& program);

  const RankView& view() const { return view_; }
  // The instances of this rank's devices, in order; may be called once.
  std::vector<Instance> take_instances() { return std::move(instances_); }
  bool has_tags_for(const DeviceCode& code) const {
    return static_cast<int64_t>(code.rank_transfers.size()) *
               RankTransfer::num_tags(view_.blocks) <=
           RankDevices::kTags;
  }
  // Whether all ranks have compiled the program. Throws TransportError if it is not the same
  // program everywhere.
  bool agree(const Program& program, const std::string& passes, bool compiled);
  // Gives every transfer its number and its members; after `agree`, before anything runs.
  void link(const std::vector<DeviceCode*>& codes);

  void run(int workers, bool blocks, const std::function<bool(size_t index)>& advance) {
    devices_->run(workers, blocks, advance);
  }

  // Events come with the bytes of own devices, and get those of all devices.
  void share(std::vector<CommEvent>& events) const;
  // Ranks give each other the shards that no device before them holds.
  void share(const Program& program, std::vector<std::vector<Array>>& results) const;

 private:
  World& world_;
  const std::vector<int64_t> own_;
  const int64_t count_;
  RankView view_;
  std::vector<Instance> instances_;
  std::unique_ptr<RankDevices> devices_;
};

}  // namespace cleave
