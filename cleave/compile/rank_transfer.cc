#include "cleave/compile/rank_transfer.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cleave/core/aligned.h"
#include "cleave/core/error.h"
#include "cleave/core/seconds_now.h"
#include "cleave/kernels/combine.h"
#include "cleave/runtime/executor.h"

namespace cleave {
namespace {

// Below this many bytes per member every member gets all parts.
constexpr size_t kChunkBytes = 1024;

// Whether a box of a packed array is one run of elements.
bool is_run(const Shape& whole, const Shape& box) {
  bool cut = false;
  for (size_t d = whole.size(); d-- > 0;) {
    if (cut && box[d] != 1) return false;
    cut |= box[d] != whole[d];
  }
  return true;
}

int64_t offset_in(const Shape& whole, const Shape& start) {
  const Shape strides = row_major_strides(whole);
  int64_t offset = 0;
  for (size_t d = 0; d < whole.size(); ++d) offset += start[d] * strides[d];
  return offset;
}

size_t place_in(const std::vector<int64_t>& devices, int64_t device) {
  return static_cast<size_t>(std::find(devices.begin(), devices.end(), device) - devices.begin());
}

}  // namespace

RankTransfer::RankTransfer(const RankView& view, int64_t device, uint32_t origin, DType dtype,
                           std::string what)
    : device_(device),
      origin_(origin),
      dtype_(dtype),
      element_(byte_size(dtype)),
      what_(std::move(what)),
      plan_(view.part(device, origin).plan),
      shape_(view.part(device, origin).shape) {
  for (int64_t other : plan_->group)
    if (view.rank_of(other) == view.rank) near_.push_back(other);
  if (near_.empty()) near_ = {device};
  std::sort(near_.begin(), near_.end());
  self_ = place_in(near_, device);
  member_ = place_in(plan_->group, device);
  const size_t bytes = static_cast<size_t>(num_elements(plan_->shape) * element_);
  const size_t members = plan_->group.size();
  if (!plan_->is_all_reduce)
    plan_pieces(view);
  else if (members <= 2 || bytes < kChunkBytes * members)
    plan_whole(view);
  else
    plan_chunks(view);
}

// ---- plans ----

void RankTransfer::send(Letter letter, int64_t to, int round) {
  if (letter.bytes > 0) sends_.push_back({letter, to, round, {}, 0});
}

void RankTransfer::receive(Letter letter, int round) {
  if (letter.bytes > 0) receives_.push_back({letter, device_, round, {}, 0});
}

// The device of this rank that receives a piece, for all that want it.
int64_t RankTransfer::leader(const RankView& view, const Transfer::Piece& piece) const {
  for (int64_t device : near_)
    for (const Transfer::Piece& other : view.part(device, origin_).plan->receives)
      if (other.device == piece.device && other.source == piece.source && other.size == piece.size)
        return device;
  return device_;
}

std::vector<RankTransfer::Letter> RankTransfer::letters_of(const RankView& view, int64_t device,
                                                           size_t* end) const {
  std::vector<Letter> letters;
  size_t staged = 0;
  const Transfer& plan = *view.part(device, origin_).plan;
  for (const Transfer::Piece& piece : plan.receives) {
    if (view.rank_of(piece.device) == view.rank || leader(view, piece) != device) continue;
    Letter letter{piece.device, static_cast<size_t>(num_elements(piece.size) * element_)};
    if (plan.parts == 1 && !plan.is_identity && is_run(plan.shape, piece.size)) {
      letter.where = Where::Result;
      letter.at = static_cast<size_t>(offset_in(plan.shape, piece.start) * element_);
    } else {
      letter.at = staged;
      staged += aligned(letter.bytes);
    }
    letters.push_back(letter);
  }
  if (end) *end = staged;
  return letters;
}

RankTransfer::Place RankTransfer::place_of(const RankView& view,
                                           const Transfer::Piece& piece) const {
  if (view.rank_of(piece.device) == view.rank) {
    const Shape& shape = view.part(piece.device, origin_).shape;
    return {place_in(near_, piece.device), Where::Operand,
            static_cast<size_t>(offset_in(shape, piece.source) * element_)};
  }
  const int64_t by = leader(view, piece);
  for (const Letter& letter : letters_of(view, by, nullptr))
    if (letter.from == piece.device) return {place_in(near_, by), letter.where, letter.at};
  throw_internal("{}: a piece that nobody receives", what_);
}

void RankTransfer::plan_pieces(const RankView& view) {
  const Transfer& plan = *plan_;
  for (const Letter& letter : letters_of(view, device_, &staging_bytes_)) receive(letter, 0);
  std::vector<const Transfer::Piece*> sent;
  const std::vector<Transfer::Piece> sends = plan.sends();
  for (const Transfer::Piece& piece : sends) {
    const int rank = view.rank_of(piece.device);
    if (rank == view.rank) continue;
    const bool is_sent = std::any_of(sent.begin(), sent.end(), [&](const Transfer::Piece* other) {
      return view.rank_of(other->device) == rank && other->start == piece.start &&
             other->size == piece.size;
    });
    if (is_sent) continue;
    sent.push_back(&piece);  // devices come in order, the lowest of a rank first
    Letter letter{device_, static_cast<size_t>(num_elements(piece.size) * element_), Where::Operand,
                  static_cast<size_t>(offset_in(shape_, piece.start) * element_)};
    if (is_run(shape_, piece.size)) {
      send(letter, piece.device, 0);
      continue;
    }
    const size_t from = letter.at;
    letter.where = Where::Staging;
    letter.at = staging_bytes_;
    staging_bytes_ += aligned(letter.bytes);
    send(letter, piece.device, 0);
    sends_.back().pack_from = from;
    sends_.back().pack =
        StridedCopy(piece.size, row_major_strides(shape_), row_major_strides(piece.size), element_);
  }
  if (plan.is_identity || plan.pads) {
    identity_ = identity_array(plan.fill, dtype_, plan.shape);
    fill_ = StridedCopy(plan.shape, identity_->strides(), row_major_strides(plan.shape), element_);
  }
  if (plan.is_identity) return;
  auto strides = [&](const Transfer::Piece& piece) {
    return row_major_strides(view.rank_of(piece.device) == view.rank
                                 ? view.part(piece.device, origin_).shape
                                 : piece.size);
  };
  auto move = [&](const Transfer::Piece& piece, const Place& from, Where to, size_t base) {
    moves_.push_back(
        {from, to, base + static_cast<size_t>(offset_in(plan.shape, piece.start) * element_),
         StridedCopy(piece.size, strides(piece), row_major_strides(plan.shape), element_)});
  };
  if (plan.parts == 1) {
    for (const Transfer::Piece& piece : plan.receives) {
      const Place from = place_of(view, piece);
      if (from.member != self_ || from.where != Where::Result) move(piece, from, Where::Result, 0);
    }
    return;
  }
  count_ = static_cast<size_t>(num_elements(plan.shape));
  const size_t bytes = count_ * static_cast<size_t>(element_);
  for (int64_t part = 0; part < plan.parts; ++part) {
    std::vector<const Transfer::Piece*> pieces;
    for (const Transfer::Piece& piece : plan.receives)
      if (piece.part == part) pieces.push_back(&piece);
    if (pieces.size() == 1 && pieces[0]->size == plan.shape) {
      const Place from = place_of(view, *pieces[0]);
      if (from.where != Where::Operand ||
          is_run(view.part(pieces[0]->device, origin_).shape, pieces[0]->size)) {
        parts_.push_back(from);
        continue;
      }
    }
    const size_t at = staging_bytes_;
    staging_bytes_ += aligned(bytes);
    if (plan.pads) filled_.push_back(at);
    for (const Transfer::Piece* piece : pieces)
      move(*piece, place_of(view, *piece), Where::Staging, at);
    parts_.push_back({self_, Where::Staging, at});
  }
}

void RankTransfer::plan_whole(const RankView& view) {
  kind_ = Kind::Whole;
  count_ = static_cast<size_t>(num_elements(plan_->shape));
  const size_t bytes = count_ * static_cast<size_t>(element_);
  std::vector<int> told;
  std::vector<int64_t> group = plan_->group;
  std::sort(group.begin(), group.end());
  for (int64_t other : group) {
    const int rank = view.rank_of(other);
    if (rank == view.rank || std::find(told.begin(), told.end(), rank) != told.end()) continue;
    told.push_back(rank);
    send({device_, bytes, Where::Operand, 0}, other, 0);
  }
  size_t staged = 0;
  for (int64_t other : plan_->group) {
    if (view.rank_of(other) == view.rank) {
      parts_.push_back({place_in(near_, other), Where::Operand, 0});
      continue;
    }
    if (self_ == 0) receive({other, bytes, Where::Staging, staged}, 0);
    parts_.push_back({0, Where::Staging, staged});
    staged += aligned(bytes);
  }
  if (self_ == 0) staging_bytes_ = staged;
}

size_t RankTransfer::chunk_begin(size_t place) const {
  const auto n = static_cast<size_t>(num_elements(plan_->shape));
  const size_t members = plan_->group.size();
  return std::min(n, place * ((n + members - 1) / members));
}

void RankTransfer::plan_chunks(const RankView& view) {
  kind_ = Kind::Chunks;
  const auto element = static_cast<size_t>(element_);
  const std::vector<int64_t>& group = plan_->group;
  auto chunk = [&](size_t place, int64_t from, Where where) {
    return Letter{from, (chunk_end(place) - chunk_begin(place)) * element, where,
                  chunk_begin(place) * element};
  };
  begin_ = chunk_begin(member_);
  count_ = chunk_end(member_) - begin_;
  for (size_t place = 0; place < group.size(); ++place) {
    const int64_t other = group[place];
    if (view.rank_of(other) == view.rank) {
      parts_.push_back({place_in(near_, other), Where::Operand, begin_ * element});
      if (other != device_) {
        const Letter whole = chunk(place, other, Where::Result);
        late_moves_.push_back({{place_in(near_, other), Where::Result, whole.at},
                               Where::Result,
                               whole.at,
                               StridedCopy({static_cast<int64_t>(whole.bytes)}, {1}, {1}, 1)});
      }
      continue;
    }
    receive({other, count_ * element, Where::Staging, staging_bytes_}, 0);
    parts_.push_back({self_, Where::Staging, staging_bytes_});
    staging_bytes_ += aligned(count_ * element);
    send(chunk(place, device_, Where::Operand), other, 0);
    const Letter whole = chunk(place, other, Where::Result);
    if (self_ == 0)
      receive(whole, 1);
    else
      late_moves_.push_back({{0, Where::Result, whole.at},
                             Where::Result,
                             whole.at,
                             StridedCopy({static_cast<int64_t>(whole.bytes)}, {1}, {1}, 1)});
  }
  std::vector<int64_t> lowest;  // of each other rank
  for (int64_t other : group) {
    if (view.rank_of(other) == view.rank) continue;
    const auto it = std::find_if(lowest.begin(), lowest.end(), [&](int64_t known) {
      return view.rank_of(known) == view.rank_of(other);
    });
    if (it == lowest.end())
      lowest.push_back(other);
    else
      *it = std::min(*it, other);
  }
  for (int64_t other : lowest) send(chunk(member_, device_, Where::Result), other, 1);
}

// ---- running ----

void RankTransfer::link(RankDevices& ranks, int64_t number, std::vector<RankTransfer*> members) {
  ranks_ = &ranks;
  members_ = std::move(members);
  const int64_t each = ranks.blocks().largest();
  auto tag = [&](int round, int64_t from, int64_t to) {
    return ranks.first_tag() +
           static_cast<int>(((number * 2 + round) * each + from % each) * each + to % each);
  };
  for (Countdown* countdown : {&in_[0], &in_[1], &out_}) ranks.attach(*countdown, device_);
  for (const Message& message : sends_)
    (message.round ? sends2_ : sends1_)
        .push_back({ranks.rank_of(message.to), tag(message.round, device_, message.to), nullptr,
                    message.letter.bytes, &out_});
  for (const Message& message : receives_)
    incoming_.push_back({ranks.rank_of(message.letter.from),
                         tag(message.round, message.letter.from, device_), nullptr,
                         message.letter.bytes, &in_[message.round]});
  sources_.resize(parts_.size());
}

std::byte* RankTransfer::address(Where where, size_t at) const {
  switch (where) {
    case Where::Operand:
      return operand_ + at;
    case Where::Staging:
      return staging_ + at;
    case Where::Result:
      break;
  }
  return result_ + at;
}

std::byte* RankTransfer::address(const Place& place) const {
  return members_[place.member]->address(place.where, place.at);
}

void RankTransfer::fill() {
  if (!identity_) return;
  if (filled_.empty() && parts_.empty()) fill_->run(identity_->raw(), result_);
  for (size_t at : filled_) fill_->run(identity_->raw(), staging_ + at);
}

void RankTransfer::start(std::byte* operand, std::byte* staging, std::byte* result) {
  started_at_ = seconds_now();
  ++turn_;
  operand_ = operand;
  staging_ = staging;
  result_ = result;
  fill();
  size_t first = 0, second = 0;
  for (const Message& message : sends_) {
    std::byte* const data = address(message.letter.where, message.letter.at);
    if (message.pack) message.pack->run(operand_ + message.pack_from, data);
    (message.round ? sends2_[second++] : sends1_[first++]).data = data;
  }
  int arrivals[2] = {0, 0};
  for (size_t i = 0; i < receives_.size(); ++i) {
    incoming_[i].data = address(receives_[i].letter.where, receives_[i].letter.at);
    ++arrivals[receives_[i].round];
  }
  for (int round : {0, 1}) in_[round].left.store(arrivals[round]);
  out_.left.store(static_cast<int>(sends_.size()));
  if (!sends1_.empty() || !incoming_.empty()) ranks_->post(sends1_, incoming_);
  reach(Started);
}

void RankTransfer::reach(Phase phase) {
  progress_.store(turn_ * kPhases + phase, std::memory_order_release);
  for (int64_t other : near_)
    if (other != device_) ranks_->wake(other);
}

bool RankTransfer::all_near(Phase phase) const {
  return std::all_of(members_.begin(), members_.end(), [&](const RankTransfer* member) {
    return member->progress_.load(std::memory_order_acquire) >= turn_ * kPhases + phase;
  });
}

void RankTransfer::run_moves(const std::vector<Move>& moves) const {
  for (const Move& move : moves) move.copy.run(address(move.from), address(move.to, move.at));
}

void RankTransfer::combine_here() {
  if (parts_.empty() || count_ == 0) return;
  for (size_t i = 0; i < parts_.size(); ++i) sources_[i] = address(parts_[i]);
  combine_parts(plan_->reduce, dtype_, sources_, result_ + begin_ * static_cast<size_t>(element_),
                0, static_cast<int64_t>(count_));
}

bool RankTransfer::advance() {
  while (true) {
    switch (progress_.load(std::memory_order_relaxed) % kPhases) {
      case Started:
        if (in_[0].left.load(std::memory_order_acquire) != 0) return false;
        reach(Received);
        break;
      case Received:
        if (!all_near(Received)) return false;
        run_moves(moves_);
        combine_here();
        if (!sends2_.empty()) ranks_->post(sends2_, {});
        reach(Worked);
        break;
      case Worked:
        if (in_[1].left.load(std::memory_order_acquire) != 0) return false;
        reach(Gathered);
        break;
      case Gathered:
        if (!late_moves_.empty() && !all_near(Gathered)) return false;
        run_moves(late_moves_);
        ended_at_ = seconds_now();
        reach(Copied);
        break;
      default:
        return all_near(Copied) && out_.left.load(std::memory_order_acquire) == 0;
    }
  }
}

bool RankTransfer::advance_or_throw() {
  if (advance()) return true;
  for (const Countdown& countdown : in_)
    if (const int64_t bytes = countdown.wrong.load(); bytes >= 0)
      throw TransportError(fmt::format(
          "device {} waits in {}: a message of {} bytes has come that is not as long as this rank "
          "expects; do all ranks run the same program?",
          device_, what_, bytes));
  ranks_->waits_in(device_, what_);
  try {
    ranks_->check(device_, what_, plan_->group);
  } catch (const TransportError&) {
    // A rank that has ended may have sent before: its word may come first.
    using namespace std::chrono_literals;
    for (int attempt = 0; attempt < 200; ++attempt) {
      if (advance()) return true;
      std::this_thread::sleep_for(1ms);
    }
    throw;
  }
  return false;
}

}  // namespace cleave
