#include "cleave/compile/epilogue.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cleave/compile/fusion_writer.h"
#include "cleave/compile/matrix_view.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/loop.h"
#include "cleave/ops/convolution/conv_attr.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/op.h"
#include "cleave/rewrite/rewriter.h"
#include "cleave/rewrite/simplify.h"

namespace cleave {
namespace {

using Kind = EpilogueStep::Kind;
constexpr size_t kMostActivationNodes = 16;
constexpr size_t kMostSteps = 6;
constexpr int64_t kFewestElements = 256;

const Node* producer(const Graph& graph, ValueId value) {
  const NodeId id = graph.value(value).producer;
  return id.valid() ? &graph.node(id) : nullptr;
}

// The one element of a constant, perhaps spread.
std::optional<double> constant_value(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  while (node && is<op::BroadcastInDim>(*node)) node = producer(graph, node->operands[0]);
  if (!node || !is_splat_constant(*node)) return std::nullopt;
  return splat_value(node->attrs.get_literal("value"));
}

// ---- activations ----

double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_erf(double x) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); }
double silu(double x) { return x / (1 + std::exp(-x)); }

bool is_real_float(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

// A function of one variable, made of nodes, at some points.
class Samples {
 public:
  Samples(const Graph& graph, ValueId variable) : graph_(graph) {
    for (int i = -96; i <= 96; ++i) points_.push_back(static_cast<float>(i) / 8 + 0.01f);
    values_[variable.index] = points_;
  }
  bool add(const Node& node) {
    const ElementLoop loop = node.def->loop ? node.def->loop(graph_, node) : ElementLoop();
    if (!loop.loop || !is_real_float(loop.out)) return false;
    const auto n = static_cast<int64_t>(points_.size());
    const std::byte* in[kMaxLoopOperands] = {};
    std::vector<float> narrow[kMaxLoopOperands], out(points_.size()), raw(points_.size());
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (!is_real_float(loop.in[i])) return false;
      in[i] = reinterpret_cast<const std::byte*>(of(node.operands[i]).data());
      if (loop.in[i] == DType::F32) continue;
      narrow[i].resize(points_.size());
      auto* memory = reinterpret_cast<std::byte*>(narrow[i].data());
      convert_loop(DType::F32, loop.in[i])(&in[i], memory, n);
      in[i] = memory;
    }
    auto* result = reinterpret_cast<std::byte*>(out.data());
    if (loop.out == DType::F32) {
      loop.loop(in, result, n);
    } else {
      auto* memory = reinterpret_cast<std::byte*>(raw.data());
      loop.loop(in, memory, n);
      const std::byte* computed = memory;
      convert_loop(loop.out, DType::F32)(&computed, result, n);
    }
    values_[node.results[0].index] = std::move(out);
    return true;
  }
  // The largest difference from f, relative where the values are large.
  double error(ValueId value, double (*f)(double)) {
    const std::vector<float>& values = of(value);
    double largest = 0;
    for (size_t i = 0; i < points_.size(); ++i) {
      const double expected = f(static_cast<double>(points_[i]));
      const double error = std::abs(values[i] - expected) / (1 + std::abs(expected));
      if (!(error <= largest)) largest = std::isnan(error) ? INFINITY : error;
    }
    return largest;
  }

 private:
  const std::vector<float>& of(ValueId value) {
    auto it = values_.find(value.index);
    if (it == values_.end())
      it = values_
               .emplace(value.index,
                        std::vector<float>(
                            points_.size(),
                            static_cast<float>(constant_value(graph_, value).value_or(NAN))))
               .first;
    return it->second;
  }

  const Graph& graph_;
  std::vector<float> points_;
  std::map<uint32_t, std::vector<float>> values_;
};

std::optional<Kind> activation_of(Samples& samples, ValueId value, DType dtype) {
  // Constants of 16 bits are rounded, and so is what is computed.
  const double tolerance = dtype == DType::F32 ? 4e-6 : dtype == DType::F16 ? 1e-3 : 8e-3;
  std::pair<double, Kind> best{tolerance, Kind::Linear};
  auto offer = [&](Kind kind, double (*f)(double)) {
    const double error = samples.error(value, f);
    if (error <= best.first) best = {error, kind};
  };
  offer(Kind::GeluTanh, gelu_tanh);
  offer(Kind::GeluErf, gelu_erf);
  offer(Kind::Silu, silu);
  return best.second == Kind::Linear ? std::nullopt : std::optional(best.second);
}

// The first value behind which everything that is made of `value` alone comes together, and is a
// known function of it.
std::optional<EpilogueStep> activation(const Graph& graph, const UseMap& uses, ValueId value) {
  const DType dtype = graph.type(value).dtype;
  Samples samples(graph, value);
  std::set<uint32_t> inside = {value.index};
  std::map<uint32_t, size_t> unread;  // uses that are not inside
  auto count = [&](ValueId v) { unread[v.index] = uses.uses(v).size(); };
  count(value);
  EpilogueStep step;
  const std::vector<NodeId>& nodes =
      graph.region(graph.node(graph.value(value).producer).parent).nodes;
  auto at = std::find(nodes.begin(), nodes.end(), graph.value(value).producer);
  for (size_t seen = 0; at != nodes.end() && seen < 64; ++at, ++seen) {
    const Node& node = graph.node(*at);
    if (node.results.size() != 1 || !node.def->has(kSmooth)) continue;
    bool reads = false, fits = graph.result_type(node) == graph.type(value);
    for (ValueId operand : node.operands) {
      if (inside.count(operand.index))
        reads = true;
      else
        fits &= constant_value(graph, operand).has_value();
    }
    if (!reads || !fits) continue;
    if (step.nodes.size() == kMostActivationNodes || !samples.add(node)) return std::nullopt;
    for (ValueId operand : node.operands)
      if (inside.count(operand.index) && --unread[operand.index] == 0) unread.erase(operand.index);
    step.nodes.push_back(*at);
    step.result = node.results[0];
    inside.insert(step.result.index);
    if (unread.empty()) {
      if (const auto kind = activation_of(samples, step.result, dtype)) {
        step.kind = *kind;
        return step;
      }
    }
    count(step.result);
  }
  return std::nullopt;
}

// ---- single ops ----

// Whether the value has one element for each column of the product (each feature of a convolution),
// spread over its rows; gives what is spread.
std::optional<ValueId> columns_of(const Graph& graph, const Node& dot, ValueId value) {
  const Node* spread = producer(graph, value);
  if (!spread || !is<op::BroadcastInDim>(*spread)) return std::nullopt;
  const auto dims = spread->attrs.get_ints_or_empty("broadcast_dimensions");
  const Shape& shape = graph.operand_type(*spread, 0).shape;
  if (is<op::Convolution>(dot)) {
    const int64_t features = conv_dims(dot).output_feature;
    const bool fits = dims == std::vector<int64_t>{features} &&
                      shape[0] == graph.result_type(dot).shape[features];
    return fits ? std::optional(spread->operands[0]) : std::nullopt;
  }
  const size_t rank = graph.result_type(dot).rank();
  const DotDims product = dot_dims(dot);
  const size_t columns =
      graph.operand_type(dot, 1).rank() - product.rhs_batch.size() - product.rhs_contract.size();
  if (columns == 0 || dims.size() != columns) return std::nullopt;
  for (size_t i = 0; i < columns; ++i)
    if (dims[i] != static_cast<int64_t>(rank - columns + i) ||
        shape[i] != graph.result_type(dot).shape[rank - columns + i])
      return std::nullopt;
  return spread->operands[0];
}

std::optional<EpilogueStep> single_op(const Graph& graph, const UseMap& uses, const Node& dot,
                                      ValueId value) {
  const Use use = uses.uses(value)[0];
  const Node& node = graph.node(use.node);
  if (node.results.size() != 1 || graph.result_type(node) != graph.type(value)) return std::nullopt;
  EpilogueStep step;
  step.nodes = {use.node};
  step.result = node.results[0];
  if (node.operands.size() == 1) {
    if (is<op::Negate>(node))
      step.alpha = -1;
    else if (is<op::Tanh>(node))
      step.kind = Kind::Tanh;
    else if (is<op::Logistic>(node))
      step.kind = Kind::Logistic;
    else
      return std::nullopt;
    return step;
  }
  static const std::map<const OpDef*, Kind> kBinary = {
      {&def_of<op::Add>(), Kind::Add},           {&def_of<op::Subtract>(), Kind::Subtract},
      {&def_of<op::Multiply>(), Kind::Multiply}, {&def_of<op::Maximum>(), Kind::Maximum},
      {&def_of<op::Minimum>(), Kind::Minimum},
  };
  const auto it = kBinary.find(node.def);
  if (it == kBinary.end() || node.operands.size() != 2 || node.operands[0] == node.operands[1])
    return std::nullopt;
  step.kind = it->second;
  if (step.kind == Kind::Subtract && use.operand != 0) return std::nullopt;
  const ValueId other = node.operands[1 - use.operand];
  if (graph.type(other) != graph.type(value)) return std::nullopt;
  if (const auto c = constant_value(graph, other)) {
    if (is_clip(step)) {
      step.alpha = *c;
    } else if (step.kind == Kind::Multiply) {
      step.alpha = *c;
      step.kind = Kind::Linear;
    } else {
      step.beta = step.kind == Kind::Add ? *c : -*c;
      step.kind = Kind::Linear;
    }
    return step;
  }
  if (is_clip(step)) return std::nullopt;
  if (const auto columns = columns_of(graph, dot, other)) {
    step.operand = *columns;
    step.by_column = true;
    return step;
  }
  // A convolution is written in another layout first: what has its shape is left to a fusion.
  if (is<op::Convolution>(dot)) return std::nullopt;
  const Node* made = producer(graph, other);
  if (made && is_cheap_leaf(graph, *made)) return std::nullopt;
  step.operand = other;
  return step;
}

// ---- the pass ----

class RegionEpilogues {
 public:
  RegionEpilogues(Graph& graph, RegionId region, const UseMap& uses,
                  std::map<uint32_t, ValueId>& moved)
      : graph_(graph), region_(region), uses_(uses), moved_(moved) {}

  bool run() {
    const std::vector<NodeId> nodes = graph_.region(region_).nodes;
    for (size_t i = 0; i < nodes.size(); ++i) position_[nodes[i].index] = i;
    std::map<uint32_t, std::vector<NodeId>> chains;  // by dot
    for (NodeId id : nodes) {
      std::vector<NodeId> chain = chain_of(id);
      if (chain.size() > 1) chains[id.index] = std::move(chain);
    }
    if (chains.empty()) return false;
    std::vector<NodeId> list;
    std::set<uint32_t> gone;
    for (NodeId id : nodes) {
      const auto it = chains.find(id.index);
      if (it == chains.end()) {
        if (!gone.count(id.index)) list.push_back(id);
        continue;
      }
      for (NodeId member : it->second) gone.insert(member.index);
      const ValueId result = graph_.node(it->second.back()).results[0];
      list.push_back(write_fusion(graph_, region_, it->second, {result}));
      moved_[result.index] = graph_.node(list.back()).results[0];
    }
    graph_.region(region_).nodes = std::move(list);
    return true;
  }

 private:
  std::vector<NodeId> chain_of(NodeId id) {
    const Node& dot = graph_.node(id);
    if (!is_product(dot) || !has_static_tensor(graph_, dot.results[0])) return {};
    const Type& type = graph_.result_type(dot);
    if ((type.dtype != DType::F32 && type.dtype != DType::BF16 && type.dtype != DType::F16) ||
        graph_.operand_type(dot, 0).dtype != type.dtype ||
        graph_.operand_type(dot, 1).dtype != type.dtype ||
        num_elements(type.shape) < kFewestElements)
      return {};
    std::vector<NodeId> chain = {id};
    ValueId value = dot.results[0];
    bool clips = false, is_scaled = false;
    for (size_t steps = 0; steps < kMostSteps; ++steps) {
      const auto step = next_epilogue_step(graph_, uses_, dot, value);
      if (!step || !is_there(step->operand, id) || (clips && !is_clip(*step))) break;
      // oneDNN 2.6 gives the second of two the numbers of the first.
      const bool scales = step->kind == EpilogueStep::Kind::Linear;
      if (scales && is_scaled) break;
      is_scaled |= scales;
      clips = is_clip(*step);
      bool free = true;
      for (NodeId node : step->nodes)
        free &= graph_.node(node).parent == region_ && !taken_.count(node.index);
      if (!free) break;
      for (NodeId node : step->nodes) taken_.insert(node.index);
      chain.insert(chain.end(), step->nodes.begin(), step->nodes.end());
      value = step->result;
    }
    return chain;
  }

  // Whether the operand is known before the product is computed: the product stays in its place.
  bool is_there(ValueId operand, NodeId dot) const {
    if (!operand.valid()) return true;
    std::vector<ValueId> sources;
    leaf_sources(graph_, operand, sources);
    return std::all_of(sources.begin(), sources.end(), [&](ValueId source) {
      const NodeId made = graph_.value(source).producer;
      const auto it = made.valid() ? position_.find(made.index) : position_.end();
      // What a chain has taken is computed where its product stands.
      return it == position_.end() ||
             (it->second < position_.at(dot.index) || taken_.count(made.index));
    });
  }

  Graph& graph_;
  const RegionId region_;
  const UseMap& uses_;
  std::map<uint32_t, ValueId>& moved_;  // results of chains, to those of fusions
  std::map<uint32_t, size_t> position_;
  std::set<uint32_t> taken_;
};

}  // namespace

bool is_product(const Node& node) { return is<op::DotGeneral, op::Convolution>(node); }

std::optional<EpilogueStep> next_epilogue_step(const Graph& graph, const UseMap& uses,
                                               const Node& dot, ValueId value) {
  const auto readers = uses.uses(value);
  if (readers.empty()) return std::nullopt;
  for (const Use& use : readers)
    if (graph.node(use.node).parent != dot.parent) return std::nullopt;
  if (auto step = activation(graph, uses, value)) return step;
  return readers.size() == 1 ? single_op(graph, uses, dot, value) : std::nullopt;
}

bool fuse_epilogues(Graph& graph) {
  const UseMap uses(graph);
  std::map<uint32_t, ValueId> moved;
  bool changed = false;
  const auto regions = static_cast<uint32_t>(graph.num_regions());
  std::set<uint32_t> bodies;  // where ops run: functions, loops and branches
  for (const Function& function : graph.functions)
    if (function.body.valid()) bodies.insert(function.body.index);
  for (uint32_t r = 0; r < regions; ++r) {
    const NodeId owner = graph.region({r}).owner;
    if (owner.valid() && graph.node(owner).def->has(kDataFlow)) bodies.insert(r);
  }
  for (uint32_t r : bodies) changed |= RegionEpilogues(graph, {r}, uses, moved).run();
  if (!changed) return false;
  graph.walk([&](NodeId id) {
    for (ValueId& operand : graph.node(id).operands) {
      const auto it = moved.find(operand.index);
      // Inside of its own fusion, what is returned stays.
      if (it == moved.end()) continue;
      const NodeId fusion = graph.value(it->second).producer;
      if (graph.node(id).parent != graph.node(fusion).regions[0]) operand = it->second;
    }
  });
  remove_dead(graph);
  return true;
}

const Node* product_of_fusion(const Graph& graph, const Node& fusion) {
  if (!is<op::Fusion>(fusion)) return nullptr;
  for (NodeId id : graph.region(fusion.regions[0]).nodes)
    if (is_product(graph.node(id))) return &graph.node(id);
  return nullptr;
}

}  // namespace cleave
