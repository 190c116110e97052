#include <algorithm>
#include <cstring>

#include "cleave/compile/meetings.h"
#include "cleave/compile/steps.h"
#include "cleave/core/error.h"
#include "cleave/kernels/combine.h"
#include "cleave/runtime/executor.h"

namespace cleave {
namespace {

// A box of a packed array.
Array box_of(std::byte* data, DType dtype, const Shape& shape, const Shape& start,
             const Shape& size) {
  const Array whole(dtype, shape, row_major_strides(shape), 0,
                    Buffer(std::shared_ptr<void>(), data));
  return whole.slice(start, size);
}

size_t place_of(const std::vector<int64_t>& group, int64_t device) {
  return static_cast<size_t>(std::find(group.begin(), group.end(), device) - group.begin());
}

}  // namespace

TransferStep::TransferStep(const Transfer& plan, CodeView operand, CodeView result)
    : plan(plan), operand(std::move(operand)), result(std::move(result)) {}

// States: 0 not yet there, 1 waits for the others to arrive, 2 waits for them to finish.
CodeStep::Next TransferStep::run(Frame& frame) const {
  int& at = frame.state[state];
  const DType dtype = operand.type.dtype;
  const Shape& own = operand.type.shape;
  if (at == 0 && frame.done) frame.done->push_back(node);
  if (plan.group.size() > 1) {
    Meetings::Meeting& meeting = frame.meetings->meeting(this->meeting);
    if (at == 0) {
      at = 1;
      meeting.members[place].source = frame.data(operand);
      frame.meetings->arrive(meeting, [&] {
        if (is_shared) meeting.result = Array(dtype, plan.shape);
      });
      return Next::Wait;
    }
    if (at == 1) {
      if (plan.is_all_reduce) {
        std::vector<const std::byte*> parts;
        for (const Meetings::Member& member : meeting.members) parts.push_back(member.source);
        const int64_t n = num_elements(plan.shape);
        const auto count = static_cast<int64_t>(parts.size());
        const int64_t chunk = std::max<int64_t>(ceil_div(n, count), 4096);
        const int64_t begin = std::min(n, chunk * static_cast<int64_t>(place));
        if (begin < n)
          combine_parts(plan.reduce, dtype, parts, meeting.result.raw(), begin,
                        std::min(n, begin + chunk));
      } else if (is_shared) {
        for (const Transfer::Piece& piece : plan.receives)
          if (piece.device == frame.device)
            copy_elements(box_of(frame.data(operand), dtype, own, piece.source, piece.size),
                          meeting.result.slice(piece.start, piece.size));
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
  Meetings::Meeting alone{{frame.device}, {{&plan, own, frame.data(operand)}}, 0, 0, {}};
  if (plan.is_all_reduce)
    copy_elements(frame.array(operand), frame.array(result));
  else
    receive(frame, alone);
  return Next::Continue;
}

// Builds the device's own part from what lies with the others.
void TransferStep::receive(Frame& frame, const Meetings::Meeting& meeting) const {
  const DType dtype = operand.type.dtype;
  const Array target = frame.array(result);
  if (plan.is_identity || plan.pads)
    copy_elements(identity_array(plan.fill, dtype, plan.shape), target);
  if (plan.is_identity) return;
  auto box = [&](const Transfer::Piece& piece) {
    const Meetings::Member& member = meeting.members[place_of(meeting.group, piece.device)];
    return box_of(member.source, dtype, member.shape, piece.source, piece.size);
  };
  if (plan.parts == 1) {
    for (const Transfer::Piece& piece : plan.receives)
      copy_elements(box(piece), target.slice(piece.start, piece.size));
    return;
  }
  // Where axes that sharded the source become partial, what a part does not get is the identity.
  auto empty_part = [&] {
    return plan.pads ? identity_array(plan.fill, dtype, plan.shape).copy()
                     : Array(dtype, plan.shape);
  };
  // Parts that lie whole with one device are read where they are.
  std::vector<Array> parts(static_cast<size_t>(plan.parts));
  for (const Transfer::Piece& piece : plan.receives) {
    Array& part = parts[static_cast<size_t>(piece.part)];
    const Array source = box(piece);
    if (piece.size == plan.shape && source.is_contiguous()) {
      part = source;
      continue;
    }
    if (!part.valid()) part = empty_part();
    copy_elements(source, part.slice(piece.start, piece.size));
  }
  std::vector<const std::byte*> bytes;
  for (Array& part : parts) {
    if (!part.valid()) part = empty_part();
    bytes.push_back(part.raw());
  }
  combine_parts(plan.reduce, dtype, bytes, target.raw(), 0, num_elements(plan.shape));
}

}  // namespace cleave
