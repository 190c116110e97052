#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/compile/device_code.h"
#include "cleave/compile/rank_devices.h"
#include "cleave/compile/strided_copy.h"

namespace cleave {

// What is known of a program's transfers before code is made: the plans of this rank's devices.
struct RankView {
  struct Part {
    std::shared_ptr<Transfer> plan;
    Shape shape;  // of the operand
  };
  int rank = 0;
  DeviceBlocks blocks;
  std::map<std::pair<int64_t, uint32_t>, Part> parts;  // by own device and the Program's node

  int rank_of(int64_t device) const { return blocks.rank_of(device); }
  const Part& part(int64_t device, uint32_t origin) const { return parts.at({device, origin}); }
};

// One device's part in a change of layout whose group may reach into other ranks, prepared: which
// bytes go where, under which tag, and how the result is made of what lies near. Devices of this
// rank read each other's memory; what another rank sends is received once for all of them, by the
// lowest that wants it, straight into the result if it lies there in one piece, otherwise into
// `staging`. All three stay as they are from `start` until it is over, and nothing is allocated.
//
// Reductions: parts are combined in the order of the group, so that the bits are those of every
// other transport. Few bytes: every member gets all parts. Many: each member combines one chunk of
// the elements, and sends it round.
class RankTransfer {
 public:
  RankTransfer(const RankView& view, int64_t device, uint32_t origin, DType dtype,
               std::string what);

  size_t staging_bytes() const { return staging_bytes_; }
  const std::string& what() const { return what_; }
  bool is_alone() const { return plan_->group.size() <= 1; }  // no other device takes part
  uint32_t origin() const { return origin_; }                 // the Program's node
  const std::vector<int64_t>& near() const { return near_; }  // the members on this rank

  // Before anything runs. `number`: which of the program's transfers it is, on every rank;
  // `members`: those of `near`, itself among them.
  void link(RankDevices& ranks, int64_t number, std::vector<RankTransfer*> members);
  // How many tags a transfer takes.
  static int64_t num_tags(const DeviceBlocks& blocks) {
    return 2 * blocks.largest() * blocks.largest();
  }

  void start(std::byte* operand, std::byte* staging, std::byte* result);
  // Does what can be done now. True: the result is there, and no other device reads the memory any
  // more.
  bool advance();
  // The same, but throws TransportError if the result can never come.
  bool advance_or_throw();
  double started_at() const { return started_at_; }
  double ended_at() const { return ended_at_; }

 private:
  enum class Kind : uint8_t { Pieces, Whole, Chunks };
  enum class Where : uint8_t { Operand, Staging, Result };
  // How far it has come in one turn; other devices of this rank read it.
  enum Phase : int64_t { Idle, Started, Received, Worked, Gathered, Copied, kPhases };
  struct Place {
    size_t member = 0;  // of near
    Where where = Where::Operand;
    size_t at = 0;  // bytes
  };
  struct Letter {  // from another rank
    int64_t from = 0;
    size_t bytes = 0;
    Where where = Where::Staging;
    size_t at = 0;
  };
  struct Message {
    Letter letter;   // `from`: the other side's device
    int64_t to = 0;  // the other side's device, or this one
    int round = 0;
    std::optional<StridedCopy> pack;  // into staging first
    size_t pack_from = 0;
  };
  struct Move {
    Place from;
    Where to = Where::Result;
    size_t at = 0;
    StridedCopy copy;
  };

  void plan_pieces(const RankView& view);
  void plan_whole(const RankView& view);
  void plan_chunks(const RankView& view);
  std::vector<Letter> letters_of(const RankView& view, int64_t device, size_t* end) const;
  int64_t leader(const RankView& view, const Transfer::Piece& piece) const;
  Place place_of(const RankView& view, const Transfer::Piece& piece) const;
  size_t chunk_begin(size_t place) const;
  size_t chunk_end(size_t place) const { return chunk_begin(place + 1); }
  void send(Letter letter, int64_t to, int round);
  void receive(Letter letter, int round);

  std::byte* address(Where where, size_t at) const;
  std::byte* address(const Place& place) const;
  bool all_near(Phase phase) const;
  void reach(Phase phase);
  void fill();
  void run_moves(const std::vector<Move>& moves) const;
  void combine_here();

  const int64_t device_;
  const uint32_t origin_;
  const DType dtype_;
  const int element_;
  const std::string what_;
  std::shared_ptr<const Transfer> plan_;
  Shape shape_;  // of the operand
  Kind kind_ = Kind::Pieces;
  std::vector<int64_t> near_;
  size_t self_ = 0;    // in near_
  size_t member_ = 0;  // in the group
  size_t staging_bytes_ = 0;
  std::vector<Message> sends_, receives_;
  std::vector<Move> moves_, late_moves_;  // before and after parts are combined
  std::vector<Place> parts_;              // to combine, in order; empty: nothing is combined
  size_t begin_ = 0, count_ = 0;          // elements that are combined
  std::optional<Array> identity_;         // fills the result, or parts
  std::optional<StridedCopy> fill_;
  std::vector<size_t> filled_;  // where, in staging; empty: the result

  RankDevices* ranks_ = nullptr;
  std::vector<RankTransfer*> members_;
  std::vector<Planned> sends1_, sends2_, incoming_;
  std::vector<const std::byte*> sources_;
  Countdown in_[2], out_;
  int64_t turn_ = 0;
  std::atomic<int64_t> progress_{0};  // turn * kPhases + phase
  std::byte *operand_ = nullptr, *staging_ = nullptr, *result_ = nullptr;
  double started_at_ = 0, ended_at_ = 0;
};

}  // namespace cleave
