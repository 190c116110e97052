#include "cleave/compile/buffer_table.h"

#include <algorithm>

namespace cleave {

uint32_t BufferTable::add(CodeBuffer buffer) {
  buffers_.push_back(std::move(buffer));
  parent_.push_back(static_cast<uint32_t>(buffers_.size() - 1));
  return parent_.back();
}

uint32_t BufferTable::root(uint32_t id) {
  while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
  return id;
}

void BufferTable::touch(uint32_t id) {
  CodeBuffer& buffer = whole(id);
  buffer.begin = std::min(buffer.begin, position_);
  buffer.end = std::max(buffer.end, position_);
  for (auto& loop : loops_) loop.insert(id);
}

void BufferTable::add_step(CodeStep* step, const std::vector<CodeView>& reads,
                           const std::vector<CodeView>& writes, std::vector<InPlace> in_place) {
  ++position_;
  Record record{step, {}, std::move(in_place)};
  for (const CodeView& view : reads) {
    touch(view.buffer);
    record.reads.push_back(view.buffer);
  }
  for (const CodeView& view : writes) touch(view.buffer);
  records_[position_] = std::move(record);
}

int64_t BufferTable::begin_loop() {
  loops_.emplace_back();
  return ++position_;
}

void BufferTable::end_loop(int64_t begin) {
  const std::set<uint32_t> touched = std::move(loops_.back());
  loops_.pop_back();
  for (uint32_t id : touched)
    if (whole(id).begin < begin) touch(id);
}

void BufferTable::rotate(uint32_t a, uint32_t b, int64_t loop_begin) {
  buffers_[b].begin = std::min(buffers_[b].begin, loop_begin);
  touch(b);
  rotated_.emplace_back(a, b);
  pinned_.insert(a);
  pinned_.insert(b);
}

bool BufferTable::is_dead_before(uint32_t a, uint32_t b) {
  if (buffers_[a].end < buffers_[b].begin) return true;
  if (buffers_[a].end != buffers_[b].begin) return false;
  return may_overwrite(records_.at(buffers_[b].begin), a, b);
}

bool BufferTable::may_overwrite(const Record& record, uint32_t a, uint32_t b) {
  int reads = 0;
  for (uint32_t read : record.reads) reads += root(read) == a;
  if (reads != 1) return false;
  return std::any_of(record.in_place.begin(), record.in_place.end(), [&](const InPlace& pair) {
    return root(pair.operand) == a && root(pair.result) == b;
  });
}

void BufferTable::unite(uint32_t a, uint32_t b) {
  buffers_[a].begin = std::min(buffers_[a].begin, buffers_[b].begin);
  buffers_[a].end = std::max(buffers_[a].end, buffers_[b].end);
  if (buffers_[b].output >= 0) buffers_[a].output = buffers_[b].output;
  parent_[b] = a;
}

void BufferTable::share_memory() {
  share_memory(CodeBuffer::Kind::Argument);
  share_memory(CodeBuffer::Kind::Arena);
}

void BufferTable::share_memory(CodeBuffer::Kind kind) {
  for (const auto& [position, record] : records_)
    for (const InPlace& pair : record.in_place) {
      const uint32_t a = root(pair.operand), b = root(pair.result);
      if (a == b || buffers_[a].kind != kind || pinned_.count(a) || pinned_.count(b)) continue;
      const CodeBuffer& from = buffers_[a];
      const CodeBuffer& to = buffers_[b];
      const bool writable = from.kind == CodeBuffer::Kind::Arena ||
                            (from.kind == CodeBuffer::Kind::Argument && from.donated &&
                             (to.output < 0 || from.aliased < 0 || from.aliased == to.output));
      if (!writable || to.kind != CodeBuffer::Kind::Arena || from.output >= 0 ||
          from.bytes != to.bytes || from.end != position || to.begin != position ||
          !may_overwrite(record, a, b))
        continue;
      unite(a, b);
    }
}

void BufferTable::donate(DeviceCode& code) {
  for (uint32_t id = 0; id < buffers_.size(); ++id) {
    const CodeBuffer& b = buffers_[id];
    if (b.kind != CodeBuffer::Kind::Argument || !b.donated || b.output >= 0) continue;
    for (size_t k = 0; k < code.results.size(); ++k) {
      if (code.results[k].kind != CodeResult::Kind::Buffer) continue;
      const uint32_t other = root(code.results[k].buffer);
      const CodeBuffer& to = buffers_[other];
      if (to.kind != CodeBuffer::Kind::Arena || to.bytes != b.bytes || b.end >= to.begin ||
          (b.aliased >= 0 && b.aliased != static_cast<int64_t>(k)))
        continue;
      unite(id, other);
      break;
    }
  }
}

// Held arrays are there from the step that makes them to the one that reads them last; results
// stay.
size_t BufferTable::most_held(const DeviceCode& code) const {
  std::vector<int64_t> change(static_cast<size_t>(position_) + 3);
  for (uint32_t id = 0; id < buffers_.size(); ++id) {
    const CodeBuffer& b = buffers_[id];
    if (b.kind != CodeBuffer::Kind::Held || b.end < 0) continue;
    const bool stays =
        std::any_of(code.results.begin(), code.results.end(), [&](const CodeResult& result) {
          return result.kind == CodeResult::Kind::Held && result.buffer == id;
        });
    change[static_cast<size_t>(b.begin)] += static_cast<int64_t>(b.bytes);
    change[static_cast<size_t>(stays ? position_ : b.end) + 1] -= static_cast<int64_t>(b.bytes);
  }
  int64_t live = 0, most = 0;
  for (int64_t bytes : change) most = std::max(most, live += bytes);
  return static_cast<size_t>(most);
}

void BufferTable::plan(DeviceCode& code) {
  code.same.resize(buffers_.size());
  std::vector<std::vector<uint32_t>> members(buffers_.size());
  for (uint32_t id = 0; id < buffers_.size(); ++id) members[root(id)].push_back(id);
  // Buffers that trade places are both needed as long as either.
  for (size_t turn = 0; turn < 2; ++turn)
    for (const auto& [x, y] : rotated_) {
      CodeBuffer& a = whole(x);
      CodeBuffer& b = whole(y);
      a.begin = b.begin = std::min(a.begin, b.begin);
      a.end = b.end = std::max(a.end, b.end);
    }
  std::vector<MemoryRequest> requests;
  std::vector<uint32_t> of;
  for (uint32_t id = 0; id < buffers_.size(); ++id) {
    code.same[id] = members[root(id)];
    const CodeBuffer& b = buffers_[id];
    if (root(id) != id || b.kind != CodeBuffer::Kind::Arena || b.output >= 0 || b.end < 0) continue;
    requests.push_back({b.bytes, b.begin, b.end});
    of.push_back(id);
  }
  const MemoryPlan memory = plan_memory(requests);
  code.offsets.assign(buffers_.size(), 0);
  for (size_t i = 0; i < of.size(); ++i)
    for (uint32_t id : members[of[i]]) code.offsets[id] = memory.offsets[i];
  code.stats.arena_bytes = memory.bytes;
  code.stats.arena_lower_bound = memory.lower_bound;
  code.stats.held_bytes = most_held(code);
  code.donated.resize(code.arguments.size());
  for (uint32_t id = 0; id < buffers_.size(); ++id) {
    CodeBuffer& b = buffers_[id];
    if (b.kind == CodeBuffer::Kind::Argument && members[root(id)].size() > 1)
      code.donated[b.argument] = true;
    if (b.kind == CodeBuffer::Kind::Held && b.end >= 0) {
      const auto record = records_.find(b.end);
      if (record != records_.end()) record->second.step->releases.push_back(id);
    }
    b.output = whole(id).output;
  }
  for (CodeResult& result : code.results) {
    if (result.kind != CodeResult::Kind::Buffer) continue;
    const CodeBuffer& buffer = whole(result.buffer);
    if (buffer.kind != CodeBuffer::Kind::Argument) {
      code.stats.own_result_bytes += static_cast<size_t>(result.type.byte_count());
      continue;
    }
    result.donor = static_cast<int64_t>(buffer.argument);
    ++code.stats.donated;
  }
  code.buffers = std::move(buffers_);
}

int64_t bytes_needed(const DeviceCode& code) {
  const CodeStats& stats = code.stats;
  return static_cast<int64_t>(stats.argument_bytes + stats.own_result_bytes + stats.arena_bytes +
                              stats.held_bytes + code.scratch_bytes);
}

int64_t bytes_held(const Frame& frame, const std::vector<Array>& args,
                   const std::vector<Array>& results) {
  const DeviceCode& code = *frame.code;
  std::map<const void*, int64_t> arrays;
  auto count = [&](const Array& array) {
    arrays[array.raw()] = static_cast<int64_t>(array.num_bytes());
  };
  for (const Array& array : args) count(array);
  for (size_t i = 0; i < results.size(); ++i)
    if (code.results[i].kind == CodeResult::Kind::Buffer) count(results[i]);
  int64_t bytes =
      frame.held_peak + static_cast<int64_t>(code.stats.arena_bytes + code.scratch_bytes);
  for (const auto& [address, size] : arrays) bytes += size;
  return bytes;
}

}  // namespace cleave
