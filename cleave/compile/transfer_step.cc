#include <algorithm>
#include <cstring>

#include "cleave/compile/meetings.h"
#include "cleave/compile/steps.h"
#include "cleave/core/error.h"
#include "cleave/kernels/combine.h"
#include "cleave/runtime/executor.h"

namespace cleave {
namespace {

constexpr size_t kNoMember = SIZE_MAX;

int64_t offset_of(const Shape& at, const Shape& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
  return offset;
}

// Whether the elements lie behind each other.
bool is_one_run(const Shape& size, const Shape& strides) {
  int64_t expected = 1;
  for (size_t d = size.size(); d-- > 0; expected *= size[d])
    if (size[d] != 1 && strides[d] != expected) return false;
  return true;
}

}  // namespace

TransferStep::TransferStep(const Transfer& plan, CodeView operand, CodeView result)
    : plan(plan), operand(std::move(operand)), result(std::move(result)) {}

// States: 0 not yet there, 1 waits for the others to arrive, 2 waits for them to finish.
CodeStep::Next TransferStep::run(Frame& frame) const {
  int& at = frame.state[state];
  const DType dtype = operand.type.dtype;
  if (at == 0 && frame.done) frame.done->push_back(node);
  if (plan.group.size() > 1) {
    Meetings::Meeting& meeting = frame.meetings->meeting(this->meeting);
    if (at == 0) {
      at = 1;
      meeting.members[place].source = frame.data(operand);
      if (is_shared) frame.release(result.buffer);
      frame.meetings->arrive(meeting, dtype, is_shared ? &plan.shape : nullptr);
      return Next::Wait;
    }
    if (at == 1) {
      if (is_shared && plan.is_all_gather) {
        give(frame, meeting);
      } else if (is_shared) {
        const int64_t n = num_elements(plan.shape);
        const auto count = static_cast<int64_t>(meeting.members.size());
        const int64_t chunk = std::max<int64_t>(ceil_div(n, count), 4096);
        const int64_t begin = std::min(n, chunk * static_cast<int64_t>(place));
        if (begin < n) {
          prepared_.places.resize(meeting.members.size());
          for (size_t i = 0; i < meeting.members.size(); ++i)
            prepared_.places[i] = meeting.members[i].source;
          combine_parts(plan.reduce, dtype, prepared_.places, meeting.result.raw(), begin,
                        std::min(n, begin + chunk));
        }
      } else {
        receive(frame, meeting);
      }
      at = 2;
      frame.meetings->finish(meeting);
      return Next::Wait;
    }
    at = 0;
    if (is_shared) frame.hold(result.buffer, meeting.result);
    return Next::Continue;
  }
  if (plan.is_all_reduce) {
    std::memcpy(frame.data(result), frame.data(operand), static_cast<size_t>(result.num_bytes()));
    return Next::Continue;
  }
  alone_.members[0].source = frame.data(operand);
  alone_.members[0].shape = operand.type.shape;
  alone_.group[0] = frame.device;
  receive(frame, alone_);
  return Next::Continue;
}

void TransferStep::prepare(const Meetings::Meeting& meeting) const {
  const DType dtype = operand.type.dtype;
  const int64_t size = byte_size(dtype);
  const Shape to = row_major_strides(plan.shape);
  Prepared& p = prepared_;
  p.done = true;
  if (plan.is_identity || plan.pads) {
    p.identity = identity_array(plan.fill, dtype, {}).copy();
    p.fill = StridedCopy(plan.shape, Shape(plan.shape.size(), 0), to, byte_size(dtype));
  }
  if (plan.is_identity) return;
  const auto parts = static_cast<size_t>(plan.parts);
  p.whole.assign(parts, {kNoMember, 0});
  p.parts.resize(parts);
  p.places.resize(parts);
  for (const Transfer::Piece& piece : plan.receives) {
    const size_t member = plan.group.empty() ? 0 : plan.place_of(piece.device);
    const Shape from = row_major_strides(meeting.members[member].shape);
    const auto part = static_cast<size_t>(piece.part);
    Move move{member, offset_of(piece.source, from) * size, offset_of(piece.start, to) * size, part,
              StridedCopy(piece.size, from, to, byte_size(dtype))};
    // Parts that lie whole with one device are read where they are.
    if (parts > 1 && piece.size == plan.shape && is_one_run(piece.size, from)) {
      p.whole[part] = {member, move.from};
      continue;
    }
    p.moves.push_back(std::move(move));
  }
  if (parts == 1) return;
  for (size_t part = 0; part < parts; ++part) {
    if (p.whole[part].first != kNoMember) continue;
    p.parts[part] = Array(dtype, plan.shape);
    // What no piece covers stays so from run to run.
    if (plan.pads) p.fill.run(p.identity.raw(), p.parts[part].raw());
  }
}

// Puts what the device has into what everybody gets.
void TransferStep::give(Frame& frame, const Meetings::Meeting& meeting) const {
  const Transfer::Piece* own = nullptr;
  if (const auto it = std::lower_bound(
          plan.receives.begin(), plan.receives.end(), plan.device,
          [](const Transfer::Piece& piece, int64_t device) { return piece.device < device; });
      it != plan.receives.end() && it->device == plan.device)
    own = &*it;
  if (!own) return;
  const int size = static_cast<int>(byte_size(operand.type.dtype));
  const Shape from = row_major_strides(operand.type.shape), to = row_major_strides(plan.shape);
  if (!prepared_.done) prepared_.fill = StridedCopy(own->size, from, to, size);
  prepared_.done = true;
  prepared_.fill.run(frame.data(operand) + offset_of(own->source, from) * size,
                     meeting.result.raw() + offset_of(own->start, to) * size);
}

// Builds the device's own part from what lies with the others.
void TransferStep::receive(Frame& frame, const Meetings::Meeting& meeting) const {
  if (!prepared_.done) prepare(meeting);
  const Prepared& p = prepared_;
  std::byte* const target = frame.data(result);
  const bool combines = !plan.is_identity && plan.parts > 1;
  if (plan.is_identity || (plan.pads && !combines)) p.fill.run(p.identity.raw(), target);
  for (const Move& move : p.moves)
    move.copy.run(meeting.members[move.member].source + move.from,
                  (combines ? p.parts[move.part].raw() : target) + move.to);
  if (!combines) return;
  for (size_t part = 0; part < p.parts.size(); ++part) {
    const auto& [member, offset] = p.whole[part];
    prepared_.places[part] =
        member == kNoMember ? p.parts[part].raw() : meeting.members[member].source + offset;
  }
  combine_parts(plan.reduce, operand.type.dtype, p.places, target, 0, num_elements(plan.shape));
}

}  // namespace cleave
