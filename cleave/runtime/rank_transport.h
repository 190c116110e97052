#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "cleave/ops/collective/transport.h"
#include "cleave/runtime/world.h"

namespace cleave {

// The devices of a mesh, divided over the ranks of a world in blocks. Every rank makes one of these
// for every run, in the same order.
//
// Devices of one rank hand each other arrays; what goes to another rank is packed once, however
// many ranks get it, and sent once to each, however many of its devices get it. Reductions combine
// parts in the order of the group, as the local transport does, so that results are the same bits.
class RankTransport : public Transport {
 public:
  enum class Life : uint8_t {
    Run,      // every device leaves at the end
    Program,  // many runs of one program: no device leaves
  };
  RankTransport(World& world, int64_t num_devices, Life life = Life::Run);
  ~RankTransport() override;

  int64_t num_devices() const override { return blocks_.devices; }
  const DeviceBlocks& blocks() const { return blocks_; }
  int rank_of(int64_t device) const { return blocks_.rank_of(device); }

  Array all_reduce(const Meeting& meeting, const Array& part, const PartReducer& reducer) override;
  std::vector<Array> gather(const Meeting& meeting, const Array& part) override;
  std::vector<Array> exchange(const Meeting& meeting, std::vector<Array> outgoing,
                              const std::vector<bool>& comes) override;
  void send(int64_t device, int64_t channel, std::vector<Array> arrays) override;
  std::vector<Array> receive(int64_t device, int64_t channel, std::string_view what) override;
  void leave(int64_t device) override;
  void fail(int64_t device, std::string_view message) override;

  // Begins another one of many runs.
  void begin();
  // Throws if `device`, which waits for others of `group`, waits in vain.
  void check(int64_t device, std::string_view what, std::span<const int64_t> group) const;
  // The number of the run, the same on every rank.
  int64_t number() const { return session_->id; }

  // After the devices have ended: every rank's arrays, on every rank.
  std::vector<std::vector<Array>> gather_ranks(std::vector<Array> arrays, std::string_view what);

 private:
  void post(const Meeting& meeting, uint64_t digest, std::vector<int64_t> to, const Array& array);
  Array fetch(const Meeting& meeting, uint64_t digest, int64_t from);
  void tell_all(const Packet& packet);
  void stop_counting();
  void to_keeper(Packet packet);
  std::string why_not(int64_t device) const;

  World& world_;
  const std::weak_ptr<void> world_life_;
  const DeviceBlocks blocks_;
  std::shared_ptr<Session> session_;
  uint64_t circles_ = 0;             // of ranks that waited for each other, before this run
  std::atomic<int64_t> counted_{0};  // own devices that run
};

}  // namespace cleave
