#include "cleave/compile/rank_program.h"

#include <algorithm>
#include <map>

#include "cleave/core/error.h"
#include "cleave/runtime/agreement.h"
#include "cleave/runtime/executor.h"

namespace cleave {
namespace {

// FNV-1a.
class Digest {
 public:
  void add(std::string_view text) {
    for (char c : text) add_byte(static_cast<uint8_t>(c));
    add_byte(0);
  }
  void add(uint64_t number) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<uint8_t>(number >> (8 * i)));
  }
  uint64_t value() const { return hash_; }

 private:
  void add_byte(uint8_t byte) { hash_ = (hash_ ^ byte) * 1099511628211u; }
  uint64_t hash_ = 1469598103934665603u;
};

// Everything that decides which messages there are.
uint64_t digest_of(const Program& program, const std::string& passes) {
  Digest digest;
  digest.add(to_string(*program.mesh));
  digest.add(passes);
  auto add_value = [&](ValueId value) {
    digest.add(to_string(program.graph.type(value)));
    if (program.layout(value).spec.mesh) digest.add(to_string(program.layout(value).spec));
  };
  for (ValueId arg : program.graph.region(program.entry_function().body).args) add_value(arg);
  program.graph.walk(program.entry_function().body, [&](NodeId id) {
    const Node& node = program.graph.node(id);
    digest.add(node.name());
    for (ValueId operand : node.operands) digest.add(operand.index);
    for (ValueId result : node.results) add_value(result);
  });
  return digest.value();
}

std::string text_of(const Program& program) {
  std::string text = fmt::format("@{}(", program.entry);
  const auto& args = program.graph.region(program.entry_function().body).args;
  for (size_t i = 0; i < args.size() && i < 4; ++i)
    text += fmt::format("{}{}", i ? ", " : "", to_string(program.graph.type(args[i])));
  return text + fmt::format("{}) of {} nodes on {}", args.size() > 4 ? ", ..." : "",
                            program.graph.num_nodes(), to_string(*program.mesh));
}

Array bytes_of(const std::string& text) {
  return Array::from_bytes(DType::U8, {static_cast<int64_t>(text.size())}, text.data());
}

std::string text_in(const Array& array) {
  return {reinterpret_cast<const char*>(array.raw()), array.num_bytes()};
}

}  // namespace

RankProgram::RankProgram(World& world, const Program& program)
    : world_(world), own_(world.devices_of(*program.mesh)), count_(program.mesh->num_devices()) {
  view_.rank = world.rank();
  view_.blocks = {count_, world.size()};
  TransferPlanners planners;
  for (int64_t device : own_) {
    instances_.push_back(instantiate(program, device, &planners));
    const Instance& instance = instances_.back();
    for (uint32_t i = 0; i < instance.transfers.size(); ++i)
      if (instance.transfers[i])
        view_.parts[{device, instance.origin[i].index}] = {
            instance.transfers[i], instance.graph.operand_type(instance.graph.node({i}), 0).shape};
  }
}

bool RankProgram::agree(const Program& program, const std::string& passes, bool compiled) {
  Array facts(DType::U64, {2});
  facts.data<uint64_t>()[0] = digest_of(program, passes);
  facts.data<uint64_t>()[1] = compiled;
  const auto all =
      world_.gather({facts, bytes_of(text_of(program))}, "the compilation of a program");
  bool everywhere = true;
  for (int rank = 0; rank < world_.size(); ++rank) {
    const std::vector<Array>& other = all[static_cast<size_t>(rank)];
    if (other[0].data<uint64_t>()[0] != facts.data<uint64_t>()[0])
      throw TransportError(
          fmt::format("ranks run different programs: rank {} runs {}, and rank {} runs {}{}",
                      world_.rank(), text_of(program), rank, text_in(other[1]),
                      text_in(other[1]) == text_of(program) ? " with other nodes" : ""));
    everywhere = everywhere && other[0].data<uint64_t>()[1];
  }
  // The same messages, but are they of the same numbers?
  require_same_graph(world_, program.graph, "programs");
  if (everywhere) devices_ = std::make_unique<RankDevices>(world_, count_, own_);
  return everywhere;
}

// Numbers are by the Program's node, and where a node stands several times by their order.
void RankProgram::link(const std::vector<DeviceCode*>& codes) {
  using Key = std::pair<uint32_t, int64_t>;
  std::vector<std::map<Key, RankTransfer*>> by_key(codes.size());
  for (size_t d = 0; d < codes.size(); ++d) {
    std::map<uint32_t, int64_t> times;
    for (const auto& [origin, transfer] : codes[d]->rank_transfers)
      by_key[d][{origin, times[origin]++}] = transfer.get();
  }
  for (size_t d = 0; d < codes.size(); ++d) {
    int64_t number = 0;
    for (const auto& [key, transfer] : by_key[d]) {
      std::vector<RankTransfer*> members;
      for (int64_t near : transfer->near())
        members.push_back(by_key[static_cast<size_t>(near - own_[0])].at(key));
      transfer->link(*devices_, number++, std::move(members));
    }
  }
}

void RankProgram::share(std::vector<CommEvent>& events) const {
  const auto count = static_cast<int64_t>(events.size());
  Array own(DType::I64, {2, count});
  for (int64_t i = 0; i < count; ++i) {
    own.data<int64_t>()[i] = events[static_cast<size_t>(i)].bytes;
    own.data<int64_t>()[count + i] = events[static_cast<size_t>(i)].total_bytes;
    events[static_cast<size_t>(i)].total_bytes = 0;
  }
  for (const auto& arrays : world_.gather({own}, "the log of communication"))
    for (int64_t i = 0; i < count; ++i) {
      CommEvent& event = events[static_cast<size_t>(i)];
      event.bytes = std::max(event.bytes, arrays[0].data<int64_t>()[i]);
      event.total_bytes += arrays[0].data<int64_t>()[count + i];
    }
}

void RankProgram::share(const Program& program, std::vector<std::vector<Array>>& results) const {
  const Node& end = program.graph.node(program.graph.terminator(program.entry_function().body));
  std::vector<Array> own;
  for (int64_t device : own_)
    for (size_t i = 0; i < end.operands.size(); ++i)
      own.push_back(is_first_holder(program.layout(end.operands[i]),
                                    program.graph.operand_type(end, i).shape, device)
                        ? results[static_cast<size_t>(device)][i]
                        : Array());
  size_t device = 0;
  for (const auto& arrays : world_.gather(std::move(own), "the gathering of results"))
    for (size_t at = 0; at < arrays.size(); at += end.operands.size(), ++device)
      for (size_t i = 0; i < end.operands.size(); ++i) results[device][i] = arrays[at + i];
}

}  // namespace cleave
