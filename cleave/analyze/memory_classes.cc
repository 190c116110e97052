#include "cleave/analyze/memory_classes.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "cleave/graph/op_def.h"

namespace cleave::analyze {
namespace {

constexpr std::array<std::string_view, kNumMemoryClasses> kNames = {
    "parameters", "optimizer state", "gradients", "inputs", "activations", "temporaries"};

// Keeps the value but for its layout, names and precision.
bool is_rename(const Node& node) {
  return is_transfer(node) || flow_of(node) == Flow::Barrier || node.def->has(kRelabels);
}

bool is_update(const Graph& graph, const Node& node, const Shape& shape) {
  if (is_rename(node)) return true;
  return node.def->has(kElementwise) && graph.result_type(node).shape == shape;
}

bool has_word(const std::string& text, std::initializer_list<std::string_view> words) {
  for (std::string_view word : words)
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      const size_t end = at + word.size();
      const auto is_letter = [&](size_t i) {
        return i < text.size() && std::isalpha(static_cast<unsigned char>(text[i]));
      };
      if ((at == 0 || !is_letter(at - 1)) && !is_letter(end)) return true;
    }
  return false;
}

class Classifier {
 public:
  explicit Classifier(const Program& program)
      : program_(program),
        graph_(program.graph),
        entry_(program.entry_function()),
        args_(graph_.region(entry_.body).args),
        uses_(graph_) {
    result_.nodes.assign(graph_.num_nodes(), MemoryClass::Activations);
    result_.arguments.assign(args_.size(), MemoryClass::Inputs);
  }

  MemoryClasses run() {
    for (uint32_t i = 0; i < graph_.num_nodes(); ++i)
      if (is_transfer(graph_.node({i}))) result_.nodes[i] = MemoryClass::Temporaries;
    find_states();
    for (size_t i = 0; i < args_.size(); ++i)
      if (successor_[i].valid()) result_.arguments[i] = class_of_state(i);
    for (size_t i = 0; i < args_.size(); ++i) {
      const MemoryClass memory_class = result_.arguments[i];
      if (!successor_[i].valid()) continue;
      mark_gradients(i);
      const NodeId end = graph_.value(successor_[i]).producer;
      if (end.valid()) result_.nodes[end.index] = memory_class;
    }
    return std::move(result_);
  }

 private:
  const Node* producer(ValueId value) const {
    const NodeId id = graph_.value(value).producer;
    return id.valid() ? &graph_.node(id) : nullptr;
  }

  // Everything that a value is computed from by elementwise ops on its shape.
  std::vector<ValueId> update_cone(ValueId value) const {
    const Shape& shape = graph_.type(value).shape;
    std::vector<ValueId> cone{value};
    std::vector<bool> seen(graph_.num_values());
    seen[value.index] = true;
    for (size_t at = 0; at < cone.size(); ++at) {
      const Node* node = producer(cone[at]);
      if (!node || !node->regions.empty() || !is_update(graph_, *node, shape)) continue;
      for (ValueId operand : node->operands)
        if (!seen[operand.index]) {
          seen[operand.index] = true;
          cone.push_back(operand);
        }
    }
    return cone;
  }

  void find_states() {
    const Node& end = graph_.node(graph_.terminator(entry_.body));
    successor_.assign(args_.size(), ValueId{});
    std::vector<bool> taken(end.operands.size());
    for (size_t i = 0; i < args_.size() && i < entry_.arg_attrs.size(); ++i)
      if (const Attribute* attr = entry_.arg_attrs[i].find("tf.aliasing_output")) {
        (void)attr;
        const int64_t result = entry_.arg_attrs[i].get_int("tf.aliasing_output");
        if (result < 0 || result >= static_cast<int64_t>(end.operands.size())) continue;
        successor_[i] = end.operands[result];
        taken[result] = true;
      }
    for (size_t r = 0; r < end.operands.size(); ++r) {
      if (taken[r] || !graph_.type(end.operands[r]).is_tensor()) continue;
      const Type& type = graph_.type(end.operands[r]);
      // The earliest argument that is not yet replaced: states are returned in their order.
      size_t best = SIZE_MAX;
      for (ValueId value : update_cone(end.operands[r])) {
        const Value& v = graph_.value(value);
        if (v.producer.valid() || v.region != entry_.body || !(v.type == type)) continue;
        if (!successor_[v.index].valid()) best = std::min<size_t>(best, v.index);
      }
      if (best != SIZE_MAX && end.operands[r] != args_[best]) successor_[best] = end.operands[r];
    }
  }

  MemoryClass class_of_state(size_t i) const {
    std::string hint = graph_.value(args_[i]).name;
    if (i < entry_.arg_attrs.size())
      for (const NamedAttribute& attr : entry_.arg_attrs[i].entries())
        if (const auto* text = attr.value.as<StringAttr>()) hint += " " + text->value;
    std::transform(hint.begin(), hint.end(), hint.begin(), [](char c) { return std::tolower(c); });
    if (has_word(hint, {"opt", "optimizer", "mu", "nu", "momentum", "moment", "adam", "exp_avg"}) ||
        hint.find("opt_state") != std::string::npos)
      return MemoryClass::OptimizerState;
    if (has_word(hint, {"params", "param", "weights", "weight"})) return MemoryClass::Parameters;
    if (num_elements(graph_.type(args_[i]).shape) <= 1) return MemoryClass::OptimizerState;
    return meets_data(args_[i]) ? MemoryClass::Parameters : MemoryClass::OptimizerState;
  }

  // Some op but elementwise ones on its shape takes it.
  bool meets_data(ValueId value) const {
    const Shape& shape = graph_.type(value).shape;
    std::vector<ValueId> reached{value};
    for (size_t at = 0; at < reached.size(); ++at)
      for (const Use& use : uses_.uses(reached[at])) {
        const Node& node = graph_.node(use.node);
        if (node.def->has(kTerminator)) continue;
        if (is_rename(node)) {
          if (reached.size() < 64) reached.push_back(node.results[0]);
        } else if (!is_update(graph_, node, shape)) {
          return true;
        }
      }
    return false;
  }

  void mark_gradients(size_t i) {
    const Shape& shape = graph_.type(args_[i]).shape;
    for (ValueId value : update_cone(successor_[i])) {
      const NodeId id = graph_.value(value).producer;
      if (!id.valid() || graph_.type(value).shape != shape || shape.empty()) continue;
      const Node& node = graph_.node(id);
      if (node.def->has(kConstantLike) || node.def->has(kRepeats)) continue;
      if (!is_update(graph_, node, shape) || is_transfer(node))
        result_.nodes[id.index] = MemoryClass::Gradients;
    }
  }

  const Program& program_;
  const Graph& graph_;
  const Function& entry_;
  const std::vector<ValueId>& args_;
  const UseMap uses_;
  std::vector<ValueId> successor_;  // by argument: the result that replaces it
  MemoryClasses result_;
};

}  // namespace

std::string_view name(MemoryClass memory_class) {
  return kNames[static_cast<size_t>(memory_class)];
}

MemoryClasses memory_classes(const Program& program) { return Classifier(program).run(); }

}  // namespace cleave::analyze
