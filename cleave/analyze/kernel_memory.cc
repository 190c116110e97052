#include "cleave/analyze/kernel_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "cleave/analyze/kernels.h"
#include "cleave/analyze/library_ops.h"
#include "cleave/analyze/program_cost.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"
#include "cleave/reshard/reordered_bytes.h"

namespace cleave::analyze {
namespace {

class Holder {
 public:
  Holder(const Program& program, const Instance& instance)
      : program_(program),
        instance_(instance),
        graph_(instance.graph),
        clamped_(clamped_values(graph_)),
        when_(graph_.num_nodes(), -1),
        is_early_(graph_.num_nodes()),
        there_(graph_.num_values(), -1),
        last_(graph_.num_values(), -1),
        is_carried_(graph_.num_values()) {}

  KernelMemory run() {
    const Function& function = *graph_.find_function(instance_.entry);
    const Region& body = graph_.region(function.body);
    find_last_uses(body);
    end_ = static_cast<int>(body.nodes.size());
    KernelMemory memory;
    for (size_t i = 0; i < body.args.size(); ++i) {
      const int64_t bytes = byte_count(body.args[i]);
      memory.arguments += bytes;
      const bool donated =
          i < function.arg_attrs.size() && is_donated_argument(function.arg_attrs[i]);
      // A result may take the place of a donated argument in the kernel that reads it last.
      const int last = donated ? std::clamp(last_[body.args[i].index], 0, end_) - 1 : end_;
      buffers_.push_back({{{}, i, bytes}, -1, last});
    }
    std::vector<int64_t> inside(static_cast<size_t>(end_) + 1);
    for (int at = 0; at < end_; ++at) {
      allocate(body.nodes[at], at, buffers_);
      inside[at] = inner_peak(graph_.node(body.nodes[at]));
    }
    hold_results(function);
    hold_filled(body);
    for (ValueId copied : reordered_arguments(graph_, function))
      buffers_.push_back({{{}, graph_.value(copied).index, byte_count(copied)},
                          -1,
                          std::clamp(last_[copied.index], 0, end_)});
    find_peak(body, inside, memory);
    return memory;
  }

 private:
  struct Buffer {
    KernelMemory::Held held;
    int first, last;  // positions at which it is there; -1: before all
  };

  // A result has its memory from the start, unless it takes that of a donated argument.
  void hold_results(const Function& function) {
    const std::vector<ValueId> apart = results_apart(graph_, function);
    for (Buffer& buffer : buffers_) {
      if (!buffer.held.made_by.valid()) continue;
      const ValueId value = graph_.node(buffer.held.made_by).results[buffer.held.number];
      if (std::find(apart.begin(), apart.end(), value) != apart.end()) buffer.first = 0;
    }
  }

  void hold_filled(const Region& body) {
    for (const auto& [value, place] : filled_early(graph_, graph_.node(body.nodes[0]).parent))
      for (Buffer& buffer : buffers_)
        if (buffer.held.made_by.valid() &&
            graph_.node(buffer.held.made_by).results[buffer.held.number] == value)
          buffer.first = static_cast<int>(std::find(body.nodes.begin(), body.nodes.end(), place) -
                                          body.nodes.begin());
  }

  void find_peak(const Region& body, const std::vector<int64_t>& inside, KernelMemory& memory) {
    std::vector<int64_t> change(static_cast<size_t>(end_) + 2);
    for (const Buffer& buffer : buffers_) {
      change[std::max(buffer.first, 0)] += buffer.held.bytes;
      change[buffer.last + 1] -= buffer.held.bytes;
    }
    for (const Buffer& buffer : buffers_)
      if (buffer.held.bytes > 0 && buffer.first <= buffer.last && buffer.first < end_)
        memory.buffers.push_back(
            {buffer.held, std::max(buffer.first, 0), std::min(buffer.last, end_ - 1)});
    memory.inside_at.assign(inside.begin(), inside.begin() + end_);
    memory.peak = memory.arguments;
    int peak_at = -1;
    int64_t live = 0;
    for (int at = 0; at < end_; ++at) {
      live += change[at];
      memory.timeline.push_back(live);
      if (live + inside[at] <= memory.peak) continue;
      memory.peak = live + inside[at];
      memory.inside = inside[at];
      memory.peak_at = body.nodes[at];
      peak_at = at;
    }
    for (const Buffer& buffer : buffers_)
      if (buffer.held.bytes > 0 && buffer.first <= peak_at && peak_at <= buffer.last)
        memory.alive.push_back(buffer.held);
    if (peak_at < 0)
      for (const Buffer& buffer : buffers_)
        if (buffer.first < 0) memory.alive.push_back(buffer.held);
    std::stable_sort(memory.alive.begin(), memory.alive.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  }

  int64_t byte_count(ValueId value) const {
    const Type& type = graph_.type(value);
    return type.is_tensor() && type.has_static_shape() ? type.byte_count() : 0;
  }

  bool is_written(NodeId id, size_t result) const {
    const Node& node = graph_.node(id);
    if (node.def->has(kConstantLike) || is_inside_kernel(program_, instance_, id)) return false;
    if (is_passed_on(graph_, node, result)) return false;
    return kernel_writes(node, result) > 0;
  }

  // A value that is not written is computed wherever its users are.
  void find_last_uses(const Region& body) {
    find_times(body);
    for (int at = static_cast<int>(body.nodes.size()) - 1; at >= 0; --at) {
      const NodeId id = body.nodes[at];
      const Node& node = graph_.node(id);
      int last = node.def->has(kTerminator) ? static_cast<int>(body.nodes.size()) : -1;
      for (size_t i = 0; i < node.results.size(); ++i)
        last = std::max(last, is_written(id, i) ? when_[id.index] : last_[node.results[i].index]);
      const bool loops = flow_of(node) == Flow::Loop;
      for (size_t i = 0; i < node.operands.size(); ++i) {
        const ValueId operand = read_by(node, i);
        // What a loop passes on is held as long as the loop's result is.
        const int until =
            !loops ? last : std::max(at, is_written(id, i) ? at : last_[node.results[i].index]);
        last_[operand.index] = std::max(last_[operand.index], until);
      }
      for (ValueId captured : captured_values(graph_, node.regions))
        last_[captured.index] = std::max(last_[captured.index], at);
    }
  }

  // At which positions nodes run: at their own, or as soon as their operands are there. What is
  // gathered or scattered of such a result follows it at once.
  void find_times(const Region& body) {
    for (int at = 0; at < static_cast<int>(body.nodes.size()); ++at) {
      const NodeId id = body.nodes[at];
      const Node& node = graph_.node(id);
      int ready = -1;
      const std::optional<KernelUse> use = kernel_use(node);
      bool follows = use && use->is_early;
      for (ValueId operand : node.operands) {
        ready = std::max(ready, there_[operand.index]);
        const NodeId maker = graph_.value(operand).producer;
        if (is<op::Transfer>(node) && maker.valid()) follows = follows || is_early_[maker.index];
      }
      const bool is_early = follows && ready >= 0 && ready < at;
      is_early_[id.index] = is_early;
      when_[id.index] = is_early ? ready : at;
      for (size_t i = 0; i < node.results.size(); ++i)
        there_[node.results[i].index] = is_written(id, i) ? when_[id.index] : ready;
    }
  }

  // The derivative of a clamp reads what came out of it, if that is what the executor keeps.
  ValueId read_by(const Node& node, size_t i) const {
    const ValueId operand = node.operands[i];
    const std::optional<KernelUse> use = kernel_use(node);
    if (!use || use->clamped != static_cast<double>(i)) return operand;
    const auto known = clamped_.find(operand);
    return known == clamped_.end() ? operand : known->second;
  }

  // Returns the bytes of what the node writes.
  int64_t allocate(NodeId id, int at, std::vector<Buffer>& buffers) {
    const Node& node = graph_.node(id);
    int64_t written = 0;
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (!is_written(id, i)) continue;
      const int when = when_[id.index];
      const int last = std::max(last_[node.results[i].index], when);
      int64_t bytes = byte_count(node.results[i]);
      if (takes_place(node, i, at)) {
        const ValueId operand = node.operands[i];
        for (Buffer& buffer : buffers)
          if (buffer.held.made_by.valid() && buffer.last == at && is_of(buffer.held, operand))
            --buffer.last;
        // A carry is there already, outside of the loop's body.
        if (is_carried_[operand.index]) {
          is_carried_[node.results[i].index] = true;
          bytes = 0;
        }
      }
      written += bytes;
      buffers.push_back({{id, i, bytes}, when, last});
    }
    if (const int64_t more = beside_transfer(id, at)) buffers.push_back({{id, 0, more}, at, at});
    return written;
  }

  // What a change of layout holds beside its operand and its result: the operand itself if no
  // kernel has written it until then, and a copy of the larger side in another order.
  int64_t beside_transfer(NodeId id, int at) const {
    const NodeId origin = instance_.origin[id.index];
    if (!origin.valid() || !is_transfer(program_.graph.node(origin))) return 0;
    const Node &node = graph_.node(id), &whole = program_.graph.node(origin);
    const ValueId operand = node.operands[0];
    const Type& type = program_.graph.operand_type(whole, 0);
    const NodeId maker = graph_.value(operand).producer;
    const int64_t held = byte_count(operand), made = byte_count(node.results[0]);
    const bool spills = maker.valid() && !is_written(maker, result_number(maker, operand)) &&
                        !graph_.node(maker).def->has(kConstantLike);
    const int64_t copy =
        reordered_bytes(program_.layout(whole.operands[0]).spec,
                        program_.layout(whole.results[0]).spec, type.shape, type.dtype);
    const bool ends = spills || last_[operand.index] == at;
    const int64_t reordered = std::max(copy - made, copy - (ends ? held : 0));
    return (spills ? held : 0) + std::max<int64_t>(0, copy > 0 ? reordered : 0);
  }

  size_t result_number(NodeId maker, ValueId value) const {
    const auto& results = graph_.node(maker).results;
    return static_cast<size_t>(std::find(results.begin(), results.end(), value) - results.begin());
  }

  bool is_of(const KernelMemory::Held& held, ValueId value) const {
    return graph_.node(held.made_by).results[held.number] == value;
  }

  // The operand's memory becomes the result's: it ends here, and it was written by an op or is
  // carried by a loop. Loops update their carries in place.
  bool takes_place(const Node& node, size_t result, int at) const {
    const bool updates = is_in_place(node) && node.results.size() == 1;
    return (updates || flow_of(node) == Flow::Loop) && last_[node.operands[result].index] == at;
  }

  // What the regions of a loop hold beside the carried values, and kernels beside their operands.
  int64_t inner_peak(const Node& node) {
    if (flow_of(node) == Flow::None) return workspace_bytes(node, program_.mesh->num_devices());
    int64_t most = 0;
    for (RegionId id : node.regions) {
      const Region& body = graph_.region(id);
      find_last_uses(body);
      if (flow_of(node) == Flow::Loop)
        for (ValueId carried : body.args) is_carried_[carried.index] = true;
      const auto end = static_cast<int>(body.nodes.size());
      std::vector<Buffer> buffers;
      std::vector<int64_t> change(static_cast<size_t>(end) + 2);
      std::vector<int64_t> inside(static_cast<size_t>(end) + 1);
      for (int at = 0; at < end; ++at) {
        allocate(body.nodes[at], at, buffers);
        inside[at] = inner_peak(graph_.node(body.nodes[at]));
      }
      for (const Buffer& buffer : buffers) {
        change[buffer.first] += buffer.held.bytes;
        change[std::min(buffer.last, end) + 1] -= buffer.held.bytes;
      }
      int64_t live = 0;
      for (int at = 0; at < end; ++at) {
        live += change[at];
        most = std::max(most, live + inside[at]);
      }
    }
    return most;
  }

  const Program& program_;
  const Instance& instance_;
  const Graph& graph_;
  const std::map<ValueId, ValueId> clamped_;
  std::vector<int> when_;         // by node: the position at which it runs
  std::vector<bool> is_early_;    // by node: that is before its own
  std::vector<int> there_;        // by value: from which position on it can be read
  std::vector<int> last_;         // by value: the position of the last kernel that reads it
  std::vector<bool> is_carried_;  // by value: it has the place of what a loop carries
  std::vector<Buffer> buffers_;
  int end_ = 0;
};

}  // namespace

bool is_passed_on(const Graph& graph, const Node& node, size_t number) {
  const std::optional<LoopRegions> loop = loop_of(node);
  if (!loop) return false;
  return graph.node(graph.terminator(loop->body)).operands[number] ==
         graph.region(loop->body).args[number];
}

std::vector<ValueId> results_apart(const Graph& graph, const Function& function) {
  const std::vector<ValueId> results = returned_values(graph, function.body);
  auto bytes = [&](ValueId value) {
    const Type& type = graph.type(value);
    return type.is_tensor() && type.has_static_shape() ? type.byte_count() : 0;
  };
  std::vector<bool> taken(results.size());
  std::multiset<int64_t> donated;
  for (size_t i = 0; i < function.arg_attrs.size(); ++i) {
    const AttrDict& attrs = function.arg_attrs[i];
    const int64_t result = attrs.get_int("tf.aliasing_output", -1);
    if (result >= 0 && static_cast<size_t>(result) < taken.size())
      taken[static_cast<size_t>(result)] = true;
    else if (is_donated_argument(attrs))
      donated.insert(bytes(graph.region(function.body).args[i]));
  }
  std::vector<ValueId> apart;
  for (size_t i = 0; i < results.size(); ++i) {
    if (taken[i]) continue;
    if (const auto place = donated.find(bytes(results[i])); place != donated.end()) {
      donated.erase(place);
      continue;
    }
    ValueId value = results[i];  // behind what only shows it
    for (NodeId maker = graph.value(value).producer; maker.valid();
         maker = graph.value(value).producer) {
      const std::optional<KernelUse> use = kernel_use(graph.node(maker));
      if (!use || use->writes[graph.value(value).index] > 0 || graph.node(maker).operands.empty())
        break;
      value = graph.node(maker).operands[0];
    }
    apart.push_back(value);
  }
  return apart;
}

namespace {

bool is_filled(const Graph& graph, ValueId value) {
  const NodeId maker = graph.value(value).producer;
  if (!maker.valid()) return false;
  const Node& node = graph.node(maker);
  return node.def->has(kConstantLike) ||
         (node.def->has(kRepeats) && num_elements(graph.operand_type(node, 0).shape) == 1);
}

bool has_big_shape(const Type& type) {
  constexpr int64_t kBig = 1 << 20;  // bytes
  return type.is_tensor() && type.has_static_shape() && type.byte_count() >= kBig;
}

}  // namespace

std::vector<std::pair<ValueId, NodeId>> filled_early(const Graph& graph, RegionId body) {
  std::vector<std::pair<ValueId, NodeId>> found;
  std::vector<std::pair<Type, NodeId>> firsts;  // by type: of loops, then of other ops
  auto first_of = [&](const Type& type, NodeId id) {
    for (const auto& [known, place] : firsts)
      if (known == type) return place;
    firsts.emplace_back(type, id);
    return id;
  };
  for (NodeId id : graph.region(body).nodes) {
    const Node& node = graph.node(id);
    const bool loops = flow_of(node) == Flow::Loop;
    if (loops)
      for (size_t i = 0; i < node.results.size(); ++i)
        if (has_big_shape(graph.type(node.results[i])) && is_filled(graph, node.operands[i]))
          found.emplace_back(node.results[i], first_of(graph.type(node.results[i]), id));
    if (!is<op::SelectAndScatter>(node)) continue;
    const ValueId source = node.operands[0];
    if (const NodeId maker = graph.value(source).producer; maker.valid())
      found.emplace_back(node.results[0], maker);
  }
  return found;
}

std::vector<ValueId> reordered_arguments(const Graph& graph, const Function& function) {
  std::vector<Shape> kernels;
  for (NodeId id : graph.region(function.body).nodes)
    if (const std::optional<KernelUse> use = kernel_use(graph.node(id)); use && use->reorders)
      kernels.push_back(graph.result_type(graph.node(id)).shape);
  std::vector<ValueId> found;
  if (kernels.empty()) return found;
  const std::vector<ValueId>& arguments = graph.region(function.body).args;
  std::vector<bool> is_other(graph.num_values());  // is read by other than elementwise ops
  for (NodeId id : graph.region(function.body).nodes)
    for (ValueId operand : graph.node(id).operands)
      if (!graph.node(id).def->has(kElementwise)) is_other[operand.index] = true;
  for (size_t i = 0; i < arguments.size() && i < function.arg_attrs.size(); ++i)
    if (is_donated_argument(function.arg_attrs[i]) && !is_other[arguments[i].index] &&
        std::find(kernels.begin(), kernels.end(), graph.type(arguments[i]).shape) != kernels.end())
      found.push_back(arguments[i]);
  return found;
}

int64_t workspace_bytes(const Node& node, int64_t devices) {
  const std::optional<KernelUse> use = kernel_use(node);
  if (!use) return 0;
  // That of a product has one size; others grow with their operands.
  const bool is_fixed = use->is_library && use->gaps == 1;
  return static_cast<int64_t>(use->workspace) / (is_fixed ? 1 : devices);
}

KernelMemory kernel_memory(const Program& program, const Instance& instance) {
  return Holder(program, instance).run();
}

}  // namespace cleave::analyze
