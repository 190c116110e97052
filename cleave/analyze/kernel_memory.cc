#include "cleave/analyze/kernel_memory.h"

#include <algorithm>

#include "cleave/analyze/kernels.h"
#include "cleave/core/error.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"

namespace cleave::analyze {
namespace {

class Holder {
 public:
  explicit Holder(const Graph& graph) : graph_(graph), last_(graph.num_values(), -1) {}

  KernelMemory run(const Function& function) {
    KernelMemory memory;
    const Region& body = graph_.region(function.body);
    find_last_uses(body);
    const auto end = static_cast<int>(body.nodes.size());
    std::vector<int64_t> freed(end + 1), donated(end + 1);
    for (size_t i = 0; i < body.args.size(); ++i) {
      const int64_t bytes = byte_count(body.args[i]);
      memory.arguments += bytes;
      if (i < function.arg_attrs.size() && is_donated_argument(function.arg_attrs[i]))
        donated[std::clamp(last_[body.args[i].index], 0, end)] += bytes;
    }
    int64_t live = memory.arguments;
    memory.peak = live;
    for (int at = 0; at < end; ++at) {
      const NodeId id = body.nodes[at];
      const int64_t written = allocate(id, at, end, freed);
      const int64_t now =
          live + std::max<int64_t>(0, written - donated[at]) + inner_peak(graph_.node(id));
      live += written;
      if (now > memory.peak) {
        memory.peak = now;
        memory.peak_at = id;
      }
      live -= freed[at] + donated[at];
    }
    return memory;
  }

 private:
  int64_t byte_count(ValueId value) const {
    const Type& type = graph_.type(value);
    return type.is_tensor() && type.has_static_shape() ? type.byte_count() : 0;
  }

  bool is_written(const Node& node, size_t result) const {
    const auto use = kernel_use(node);
    return !use || use->writes[result] > 0;
  }

  // A value that is not written is computed wherever its users are.
  void find_last_uses(const Region& body) {
    for (int at = static_cast<int>(body.nodes.size()) - 1; at >= 0; --at) {
      const Node& node = graph_.node(body.nodes[at]);
      int last = node.def->has(kTerminator) ? static_cast<int>(body.nodes.size()) : -1;
      for (size_t i = 0; i < node.results.size(); ++i)
        last = std::max(last, is_written(node, i) ? at : last_[node.results[i].index]);
      for (ValueId operand : node.operands)
        last_[operand.index] = std::max(last_[operand.index], last);
      for (ValueId captured : captured_values(graph_, node.regions))
        last_[captured.index] = std::max(last_[captured.index], at);
    }
  }

  int64_t allocate(NodeId id, int at, int end, std::vector<int64_t>& freed) {
    const Node& node = graph_.node(id);
    if (is_in_place(node, at)) {
      // The result has the bytes of the operand, which are freed with the result instead.
      const int last = std::clamp(last_[node.results[0].index], at, end);
      const int64_t bytes = byte_count(node.results[0]);
      freed[at] -= bytes;
      freed[last] += bytes;
      return 0;
    }
    int64_t written = 0;
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (node.def->has(kConstantLike) || !is_written(node, i)) continue;
      const int64_t bytes = byte_count(node.results[i]);
      written += bytes;
      freed[std::clamp(last_[node.results[i].index], at, end)] += bytes;
    }
    return written;
  }

  // The operand's memory becomes the result's: it ends here, and it was written by an op.
  bool is_in_place(const Node& node, int at) const {
    if (!analyze::is_in_place(node) || node.results.size() != 1) return false;
    const ValueId operand = node.operands[0];
    const NodeId producer = graph_.value(operand).producer;
    return last_[operand.index] == at && producer.valid() &&
           is_written(graph_.node(producer), graph_.value(operand).index) &&
           !graph_.node(producer).def->has(kConstantLike);
  }

  // What the regions of a loop hold beside the carried values.
  int64_t inner_peak(const Node& node) {
    if (flow_of(node) == Flow::None) return 0;
    int64_t most = 0;
    for (RegionId id : node.regions) {
      const Region& body = graph_.region(id);
      find_last_uses(body);
      const auto end = static_cast<int>(body.nodes.size());
      std::vector<int64_t> freed(end + 1);
      int64_t live = 0;
      for (int at = 0; at < end; ++at) {
        const Node& inner = graph_.node(body.nodes[at]);
        const int64_t written = allocate(body.nodes[at], at, end, freed);
        most = std::max(most, live + written + inner_peak(inner));
        live += written - freed[at];
      }
    }
    return most;
  }

  const Graph& graph_;
  std::vector<int> last_;  // by value: the position of the last kernel that reads it
};

}  // namespace

KernelMemory kernel_memory(const Graph& graph, std::string_view entry) {
  const Function* function = graph.find_function(entry);
  if (!function) throw_user("there is no function @{}", entry);
  return Holder(graph).run(*function);
}

}  // namespace cleave::analyze
