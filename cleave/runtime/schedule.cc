#include "cleave/runtime/schedule.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/ops/identity.h"
#include "cleave/runtime/narrow_eval.h"

namespace cleave {
namespace {

constexpr int64_t kLargestKeptConstant = 1 << 16;  // bytes

bool all_scalars(const Graph& graph, const std::vector<ValueId>& values) {
  for (ValueId value : values) {
    const Type& type = graph.type(value);
    if (!type.is_tensor() || type.unranked || type.rank() != 0) return false;
  }
  return true;
}

// Elements that are known by name alone, such as quantized ones: their size is not known either.
bool has_opaque_elements(const Graph& graph, const Node& node) {
  auto is_opaque = [&](ValueId value) {
    return graph.type(value).is_tensor() && graph.type(value).dtype == DType::Other;
  };
  return std::any_of(node.operands.begin(), node.operands.end(), is_opaque) ||
         std::any_of(node.results.begin(), node.results.end(), is_opaque);
}

bool has_dynamic_operand(const Graph& graph, const Node& node) {
  return std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId value) {
    return graph.type(value).is_tensor() && !graph.type(value).has_static_shape();
  });
}

bool is_small_constant(const Graph& graph, const Node& node) {
  if (!node.def->has(kConstantLike) || !node.operands.empty()) return false;
  return node.results.size() == 1 && !has_opaque_elements(graph, node) &&
         graph.result_type(node).has_static_shape() &&
         graph.result_type(node).byte_count() <= kLargestKeptConstant;
}

}  // namespace

class Schedule::Builder {
 public:
  Builder(const Graph& graph, Schedule& schedule)
      : graph_(graph),
        schedule_(schedule),
        position_(graph.num_regions(), 0),
        last_use_(graph.num_values(), kUnused),
        captured_(graph.num_values(), kUnused),
        elementwise_(graph.num_regions(), Answer::Unknown) {}

  void build() {
    schedule_.regions_.resize(graph_.num_regions());
    for (const Function& function : graph_.functions)
      if (function.body.valid()) find_last_uses(function.body);
    for (const Function& function : graph_.functions)
      if (function.body.valid()) add_steps(function.body);
    for (uint32_t i = 0; i < graph_.num_regions(); ++i)
      schedule_.regions_[i].elementwise = is_elementwise({i});
  }

 private:
  static constexpr uint32_t kUnused = UINT32_MAX;
  enum class Answer : uint8_t { Unknown, Asking, Yes, No };

  RegionId home(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.producer.valid() ? graph_.node(value.producer).parent : value.region;
  }

  // In the region where a value lives, the position of the last node that reads it, itself or in a
  // region inside it.
  void find_last_uses(RegionId id) {
    const std::vector<NodeId>& nodes = graph_.region(id).nodes;
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      position_[id.index] = i;
      const Node& node = graph_.node(nodes[i]);
      for (ValueId operand : node.operands) {
        const RegionId where = home(operand);
        last_use_[operand.index] = position_[where.index];
        if (where != id) captured_[operand.index] = position_[where.index];
      }
      for (RegionId inner : node.regions) find_last_uses(inner);
    }
  }

  void add_steps(RegionId id) {
    const Region& region = graph_.region(id);
    RegionSchedule& schedule = schedule_.regions_[id.index];
    std::vector<std::vector<uint32_t>> frees(region.nodes.size());
    for (ValueId arg : region.args) {
      const uint32_t last = last_use_[arg.index];
      schedule.args.push_back(last == kUnused ? kUnused : arg.index);
      if (last != kUnused && captured_[arg.index] == last) frees[last].push_back(arg.index);
    }
    for (uint32_t i = 0; i < region.nodes.size(); ++i) {
      const Node& node = graph_.node(region.nodes[i]);
      Step step = make_step(region.nodes[i]);
      step.first_operand = static_cast<uint32_t>(schedule_.operands_.size());
      step.num_operands = static_cast<uint32_t>(node.operands.size());
      for (size_t k = 0; k < node.operands.size(); ++k)
        schedule_.operands_.push_back({node.operands[k].index, is_last(id, i, node, k)});
      for (ValueId result : node.results) {
        if (step.kind == Step::Kind::Constant) continue;
        const uint32_t last = last_use_[result.index];
        if (last == kUnused)
          frees[i].push_back(result.index);
        else if (captured_[result.index] == last)
          frees[last].push_back(result.index);
      }
      schedule.steps.push_back(step);
    }
    for (uint32_t i = 0; i < region.nodes.size(); ++i) {
      Step& step = schedule.steps[i];
      step.first_free = static_cast<uint32_t>(schedule_.frees_.size());
      step.num_frees = static_cast<uint32_t>(frees[i].size());
      schedule_.frees_.insert(schedule_.frees_.end(), frees[i].begin(), frees[i].end());
    }
    for (NodeId node : region.nodes)
      for (RegionId inner : graph_.node(node).regions) add_steps(inner);
  }

  Step make_step(NodeId id) const {
    const Node& node = graph_.node(id);
    Step step;
    step.node = id;
    if (has_narrow_elements(graph_, node))
      step.eval = narrow_eval(graph_, node);
    else if (!has_opaque_elements(graph_, node))
      step.eval = node.def->eval;
    step.dynamic = node.def->infer && has_dynamic_operand(graph_, node);
    if (node.def->has(kTerminator)) {
      step.kind = Step::Kind::Return;
    } else if (is_small_constant(graph_, node)) {
      step.kind = Step::Kind::Constant;
    } else if (const Function* function = callee(graph_, node);
               function && function->body.valid()) {
      step.kind = Step::Kind::Call;
      step.callee = function->body;
    }
    return step;
  }

  // Operand k of the node at `position` is the last to read its value, which lives in this region.
  bool is_last(RegionId region, uint32_t position, const Node& node, size_t k) const {
    const ValueId value = node.operands[k];
    if (home(value) != region || last_use_[value.index] != position) return false;
    if (captured_[value.index] == position) return false;
    const Value& v = graph_.value(value);
    if (v.producer.valid() && is_small_constant(graph_, graph_.node(v.producer))) return false;
    for (size_t j = k + 1; j < node.operands.size(); ++j)
      if (node.operands[j] == value) return false;
    return true;
  }

  bool is_elementwise(RegionId id) {
    Answer& answer = elementwise_[id.index];
    if (answer == Answer::Unknown) {
      answer = Answer::Asking;  // a recursive call is not
      const bool yes = compute_elementwise(id);
      elementwise_[id.index] = yes ? Answer::Yes : Answer::No;
    }
    return elementwise_[id.index] == Answer::Yes;
  }

  bool compute_elementwise(RegionId id) {
    const Region& region = graph_.region(id);
    if (region.nodes.empty() || !all_scalars(graph_, region.args)) return false;
    for (const Step& step : schedule_.regions_[id.index].steps) {
      const Node& node = graph_.node(step.node);
      if (!all_scalars(graph_, node.operands) || !all_scalars(graph_, node.results)) return false;
      switch (step.kind) {
        case Step::Kind::Eval:
          if (!step.eval) return false;
          if (!node.def->has(kElementwise) && !is_identity_op(node)) return false;
          break;
        case Step::Kind::Call:
          if (!is_elementwise(step.callee)) return false;
          break;
        case Step::Kind::Constant:
        case Step::Kind::Return:
          break;
      }
    }
    return true;
  }

  const Graph& graph_;
  Schedule& schedule_;
  std::vector<uint32_t> position_;  // by region, while walking
  std::vector<uint32_t> last_use_;  // by value: a position in the region where it lives
  std::vector<uint32_t>
      captured_;  // by value: the last such position that reads it from an inner region
  std::vector<Answer> elementwise_;
};

Schedule::Schedule(const Graph& graph) { Builder(graph, *this).build(); }

}  // namespace cleave
