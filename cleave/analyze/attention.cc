#include "cleave/analyze/attention.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "cleave/graph/op_def.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/op.h"

namespace cleave::analyze {
namespace {

int64_t element_count(const Graph& graph, ValueId value) {
  const Type& type = graph.type(value);
  return type.is_tensor() && type.has_static_shape() ? num_elements(type.shape) : 0;
}

bool is_view(const Node& node) { return is<op::Reshape, op::Transpose>(node); }

// Ops on values that a kernel makes for itself: positions and what follows from them.
bool is_made_of_nothing(const Node& node) {
  return node.def->has(kConstantLike) || is<op::Iota>(node);
}

bool is_exponential(const Node& node) { return is<op::Exponential>(node); }

// Values that follow from positions and constants alone, such as a mask. Layers may share them.
class Positions {
 public:
  explicit Positions(const Graph& graph) : graph_(graph), known_(graph.num_values()) {}
  bool operator()(ValueId value) {
    char& known = known_[value.index];
    if (known == 0) known = follows(value) ? 2 : 1;
    return known == 2;
  }

 private:
  bool follows(ValueId value) {
    const NodeId producer = graph_.value(value).producer;
    if (!producer.valid()) return false;
    const Node& node = graph_.node(producer);
    if (is_made_of_nothing(node)) return true;
    if (!node.def->has(kElementwise) && !is_view(node) && !is<op::BroadcastInDim>(node))
      return false;
    return std::all_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId operand) { return (*this)(operand); });
  }
  const Graph& graph_;
  std::vector<char> known_;  // by value: 1 no, 2 yes
};

// Everything that is connected with one exponential by values of the size of the scores, or of
// their rows.
class Gatherer {
 public:
  Gatherer(const Graph& graph, RegionId region, const std::vector<std::vector<NodeId>>& users,
           Positions& positions, NodeId exponential)
      : graph_(graph),
        region_(region),
        users_(users),
        positions_(positions),
        exponential_(exponential) {
    size_ = element_count(graph, graph.node(exponential).operands[0]);
  }

  // False if the values get anywhere that a kernel of attention does not take them.
  bool run() {
    reach(graph_.node(exponential_).operands[0]);
    while (!waiting_.empty()) {
      const ValueId value = waiting_.back();
      waiting_.pop_back();
      if (!follow(value)) return false;
    }
    return true;
  }

  std::set<NodeId> inner, products;
  std::set<ValueId> values;  // of the size of the scores
  std::set<ValueId> rows;    // results of reductions, and what follows from them

 private:
  void reach(ValueId value) {
    const bool is_whole = element_count(graph_, value) == size_;
    if ((is_whole ? values : rows).insert(value).second) waiting_.push_back(value);
  }

  bool follow(ValueId value) {
    const bool is_whole = values.contains(value);
    const NodeId producer = graph_.value(value).producer;
    const bool is_near = producer.valid() && graph_.node(producer).parent == region_;
    const bool is_product = is_near && dot_dims_of(graph_, graph_.node(producer)).has_value();
    if (is_product && is_whole) products.insert(producer);
    if (!is_product && is_near && is_member(graph_.node(producer))) enter(producer);
    if (!is_product && !inner.contains(producer)) {  // it comes from outside, and is read
      (is_whole ? values : rows).erase(value);
      return true;
    }
    if (positions_(value)) return true;  // other layers may use it too
    for (NodeId user : users_[value.index])
      if (!used_by(user, is_whole)) return false;
    return true;
  }

  bool used_by(NodeId id, bool is_whole) {
    const Node& node = graph_.node(id);
    if (dot_dims_of(graph_, node)) {
      if (is_whole) products.insert(id);
      return true;  // a row that leaves is small
    }
    if (!is_member(node) || (!is_whole && !stays(node))) return !is_whole;
    enter(id);
    return true;
  }

  // Whether an op on rows leads to rows or back to the scores.
  bool stays(const Node& node) const {
    const int64_t rows_of = element_count(graph_, node.results[0]);
    return rows_of == size_ || is<op::Reshape, op::Convert>(node) || node.def->has(kRepeats) ||
           node.def->has(kElementwise);
  }

  bool is_member(const Node& node) const {
    return node.results.size() == 1 && graph_.type(node.results[0]).is_tensor() &&
           (node.def->has(kElementwise) || is_view(node) || is_made_of_nothing(node) ||
            is<op::Reduce, op::Softmax>(node) || node.def->has(kRepeats));
  }

  // An op of the kernel: its result and its operands are inside as well, unless they are numbers or
  // smaller than a row of scores.
  void enter(NodeId id) {
    if (!inner.insert(id).second) return;
    const Node& node = graph_.node(id);
    reach(node.results[0]);
    for (ValueId operand : node.operands)
      if (element_count(graph_, operand) == size_ || is_row(operand)) reach(operand);
  }

  // What came from a reduction of the scores.
  bool is_row(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    if (!producer.valid()) return false;
    const Node& node = graph_.node(producer);
    if (is<op::Reduce>(node)) return element_count(graph_, node.operands[0]) == size_;
    if (is_made_of_nothing(node) || element_count(graph_, value) >= size_) return false;
    if (!node.def->has(kElementwise) && !is<op::Reshape, op::BroadcastInDim>(node)) return false;
    return std::any_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId operand) { return is_row(operand); });
  }

  const Graph& graph_;
  RegionId region_;
  const std::vector<std::vector<NodeId>>& users_;
  Positions& positions_;
  NodeId exponential_;
  int64_t size_ = 0;
  std::vector<ValueId> waiting_;
};

// Gives products their roles. Dimensions of values inside are labelled: b for batch, q and k for
// what came from the two sides of the scores.
class TensorClassifier {
 public:
  TensorClassifier(const Graph& graph, const Gatherer& all, Positions& positions,
                   NodeId exponential)
      : graph_(graph), all_(all), positions_(positions), exponential_(exponential) {}

  std::optional<Attention> run(const std::vector<NodeId>& order) {
    if (!find_sources()) return std::nullopt;
    label(graph_.node(scores_).results[0], labels_of_scores());
    for (NodeId id : order) {
      if (all_.inner.contains(id)) spread(graph_.node(id));
      if (all_.products.contains(id) && !assign(id)) return std::nullopt;
    }
    if (keys_.empty() || !is_complete()) return std::nullopt;
    return finish(order);
  }

 private:
  bool is_inside(ValueId value) const { return all_.values.contains(value); }

  // The scores lead to the exponential; the gradient of the probabilities does not.
  bool find_sources() {
    std::set<NodeId> before;
    std::vector<NodeId> waiting = {exponential_};
    while (!waiting.empty()) {
      const NodeId id = waiting.back();
      waiting.pop_back();
      if (!before.insert(id).second || all_.products.contains(id)) continue;
      for (ValueId operand : graph_.node(id).operands) {
        const NodeId producer = graph_.value(operand).producer;
        if (producer.valid() && (all_.inner.contains(producer) || all_.products.contains(producer)))
          waiting.push_back(producer);
      }
    }
    for (NodeId id : all_.products) {
      if (!is_inside(graph_.node(id).results[0])) continue;
      if (before.contains(id)) {
        if (scores_.valid()) return false;
        scores_ = id;
      } else {
        if (gradient_.valid()) return false;
        gradient_ = id;
      }
    }
    return scores_.valid() && !dot_dims_of(graph_, graph_.node(scores_))->lhs_batch.empty();
  }

  std::string labels_of_scores() const {
    const Node& node = graph_.node(scores_);
    const DotDims dims = *dot_dims_of(graph_, node);
    const size_t lhs = graph_.operand_type(node, 0).shape.size();
    std::string labels(dims.lhs_batch.size(), 'b');
    labels.append(lhs - dims.lhs_batch.size() - dims.lhs_contract.size(), 'q');
    labels.append(graph_.result_type(node).shape.size() - labels.size(), 'k');
    return labels;
  }

  void label(ValueId value, std::string labels) { labels_.try_emplace(value, std::move(labels)); }

  void spread(const Node& node) {
    const ValueId result = node.results[0];
    for (ValueId operand : node.operands) {
      const auto found = labels_.find(operand);
      const bool needs = depends_.contains(operand) || graph_.value(operand).producer == gradient_;
      if (needs && gradient_.valid()) depends_.insert(result);
      if (found == labels_.end() || !is_inside(result)) continue;
      const std::string& have = found->second;
      const Shape& to = graph_.type(result).shape;
      if (is<op::Transpose>(node)) {
        std::string moved;
        for (int64_t dim : node.attrs.get_ints_or_empty("permutation")) moved += have[dim];
        label(result, moved);
      } else if (is<op::Reshape>(node)) {
        label(result, reshaped(have, graph_.type(operand).shape, to));
      } else if (have.size() == to.size()) {
        label(result, have);
      }
    }
    if (!is<op::Reduce, op::Softmax>(node)) return;
    const auto found = labels_.find(node.operands[0]);
    if (found == labels_.end()) return;
    if (is<op::Softmax>(node)) keys_ = found->second.back();
    for (int64_t dim : node.attrs.get_ints_or_empty("dimensions"))
      if (keys_.empty()) keys_ = found->second[dim];
  }

  // Dimensions from the right as long as their sizes agree; what is left is split or joined batch.
  static std::string reshaped(const std::string& have, const Shape& from, const Shape& to) {
    std::string labels(to.size(), 'b');
    for (size_t i = 1; i <= std::min(from.size(), to.size()); ++i) {
      if (from[from.size() - i] != to[to.size() - i]) break;
      labels[to.size() - i] = have[have.size() - i];
    }
    return labels;
  }

  bool assign(NodeId id) {
    const Node& node = graph_.node(id);
    if (id == scores_) return add(id, AttentionRole::Scores);
    if (id == gradient_) return add(id, AttentionRole::GradProbabilities);
    const DotDims dims = *dot_dims_of(graph_, node);
    const bool is_left = is_inside(node.operands[0]);
    if (is_left == is_inside(node.operands[1])) return false;
    const ValueId operand = node.operands[is_left ? 0 : 1];
    const auto found = labels_.find(operand);
    const auto& contract = is_left ? dims.lhs_contract : dims.rhs_contract;
    if (found == labels_.end() || contract.empty() || keys_.empty()) return false;
    const bool over_keys = std::all_of(contract.begin(), contract.end(),
                                       [&](int64_t dim) { return found->second[dim] == keys_[0]; });
    if (depends_.contains(operand) || graph_.value(operand).producer == gradient_)
      return add(id, over_keys ? AttentionRole::GradQueries : AttentionRole::GradKeys);
    return add(id, over_keys ? AttentionRole::Values : AttentionRole::GradValues);
  }

  bool add(NodeId id, AttentionRole role) {
    if (made_.has(role)) return false;
    made_.products.push_back({id, role, 1});
    return true;
  }

  // A forward part, or whatever of a derivative is needed.
  bool is_complete() const {
    return made_.has_forward() || (made_.has_backward() && (made_.has(AttentionRole::GradQueries) ||
                                                            made_.has(AttentionRole::GradKeys)));
  }

  // A choice between scores and a constant by an order of positions, or a sum with such a choice.
  bool is_causal() const {
    return std::any_of(all_.inner.begin(), all_.inner.end(), [&](NodeId id) {
      const Node& node = graph_.node(id);
      if (is<op::Select>(node) && is_mask(node.operands[0])) return true;
      return is<op::Compare>(node) && is_order(node) && is_position(node.operands[0]) &&
             is_position(node.operands[1]);
    });
  }
  // A mask of the positions of one sequence, made before it is spread over all heads.
  bool is_mask(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    if (!producer.valid()) return false;
    const Node& node = graph_.node(producer);
    if (is<op::Compare>(node))
      return is_order(node) && is_position(node.operands[0]) && is_position(node.operands[1]);
    return (is<op::BroadcastInDim>(node) || is_view(node)) && is_mask(node.operands[0]);
  }
  static bool is_order(const Node& node) {
    const std::string direction(node.attrs.get_string("comparison_direction"));
    return direction != "EQ" && direction != "NE";
  }
  bool is_position(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    if (!producer.valid()) return false;
    const Node& node = graph_.node(producer);
    if (is<op::Iota>(node)) return true;
    const bool passes = node.def->has(kElementwise) || is<op::BroadcastInDim, op::Reshape>(node);
    return passes && std::any_of(node.operands.begin(), node.operands.end(),
                                 [&](ValueId operand) { return is_position(operand); });
  }

  Attention finish(const std::vector<NodeId>& order) {
    made_.is_causal = is_causal();
    const double share = made_.is_causal ? 0.5 : 1;
    const bool again = made_.has_forward() && made_.has_backward();
    for (AttentionProduct& product : made_.products)
      product.share = product.role == AttentionRole::Scores && again ? 2 * share : share;
    std::set<ValueId> read;
    for (NodeId id : order) {
      const bool is_product = all_.products.contains(id);
      if (!is_product && !all_.inner.contains(id)) continue;
      const Node& node = graph_.node(id);
      if (!is_product) made_.inner.push_back(id);
      for (ValueId operand : node.operands) {
        const NodeId producer = graph_.value(operand).producer;
        const bool made = positions_(operand) || is_inside(operand) ||
                          (producer.valid() && all_.inner.contains(producer));
        if (!made && read.insert(operand).second) made_.reads.push_back(operand);
      }
      if (is_inside(node.results[0]))
        made_.unwritten.push_back(node.results[0]);
      else if (is_product)
        made_.writes.push_back(node.results[0]);
    }
    return std::move(made_);
  }

  const Graph& graph_;
  const Gatherer& all_;
  Positions& positions_;
  NodeId exponential_, scores_, gradient_;
  std::map<ValueId, std::string> labels_;
  std::set<ValueId> depends_;  // on the gradient of the probabilities
  std::string keys_;           // the label of the dimension that is normalized
  Attention made_;
};

}  // namespace

std::string_view name(AttentionRole role) {
  switch (role) {
    case AttentionRole::Scores:
      return "scores";
    case AttentionRole::Values:
      return "values";
    case AttentionRole::GradProbabilities:
      return "gradient of probabilities";
    case AttentionRole::GradValues:
      return "gradient of values";
    case AttentionRole::GradQueries:
      return "gradient of queries";
    case AttentionRole::GradKeys:
      return "gradient of keys";
  }
  return "";
}

double share_of_tiles(const Graph& graph, const Attention& attention) {
  constexpr double kMoreKeys = 512;
  if (!attention.is_causal || attention.unwritten.empty()) return 1;
  const auto keys = static_cast<double>(graph.type(attention.unwritten[0]).shape.back());
  return std::min(2.0, 1 + kMoreKeys / keys);
}

std::vector<Attention> find_attention(const Graph& graph, RegionId region) {
  const std::vector<NodeId>& order = graph.region(region).nodes;
  std::vector<std::vector<NodeId>> users(graph.num_values());
  for (NodeId id : order)
    for (ValueId operand : graph.node(id).operands) users[operand.index].push_back(id);
  Positions positions(graph);
  std::vector<Attention> found;
  std::set<NodeId> seen, inside;
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (!(is_exponential(node) || is<op::Softmax>(node)) || seen.contains(id)) continue;
    if (graph.type(node.results[0]).shape.size() < 3) continue;
    Gatherer all(graph, region, users, positions, id);
    const bool closed = all.run();
    seen.insert(all.inner.begin(), all.inner.end());
    std::optional<Attention> made;
    if (closed) made = TensorClassifier(graph, all, positions, id).run(order);
    if (!made) continue;
    inside.insert(made->inner.begin(), made->inner.end());
    found.push_back(std::move(*made));
  }
  // A mask that anything else uses is written.
  for (Attention& each : found) {
    auto leaves = [&](ValueId value) {
      return positions(value) && !std::all_of(users[value.index].begin(), users[value.index].end(),
                                              [&](NodeId user) { return inside.contains(user); });
    };
    std::erase_if(each.inner, [&](NodeId id) { return leaves(graph.node(id).results[0]); });
    std::erase_if(each.unwritten, leaves);
  }
  return found;
}

}  // namespace cleave::analyze
