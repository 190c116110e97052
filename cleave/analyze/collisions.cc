#include "cleave/analyze/collisions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "cleave/graph/cloner.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/op.h"
#include "cleave/runtime/interpreter.h"

namespace cleave::analyze {
namespace {

constexpr size_t kMostOps = 200;            // behind indices that are computed
constexpr int64_t kMostElements = 1 << 22;  // of one of them

// The ops behind a value if they are few, and nothing is behind them but constants and positions.
std::optional<std::set<NodeId>> closed_ops(const Graph& graph, ValueId value) {
  std::set<NodeId> ops;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const NodeId id = graph.value(open.back()).producer;
    open.pop_back();
    if (!id.valid()) return std::nullopt;
    if (!ops.insert(id).second) continue;
    const Node& node = graph.node(id);
    const bool is_plain = node.def->has(kElementwise) || node.def->has(kViewLike) ||
                          node.def->has(kRepeats) || node.def->has(kWindow) ||
                          node.def->has(kConstantLike) || is<op::Iota, op::Reshape>(node);
    const Type& type = graph.result_type(node);
    if (!is_plain || !node.regions.empty() || ops.size() > kMostOps || !type.has_static_shape() ||
        num_elements(type.shape) > kMostElements)
      return std::nullopt;
    open.insert(open.end(), node.operands.begin(), node.operands.end());
  }
  return ops;
}

std::optional<Array> computed(const Graph& graph, ValueId value) {
  const std::optional<std::set<NodeId>> ops = closed_ops(graph, value);
  if (!ops) return std::nullopt;
  Graph alone;
  Cloner clone(graph, alone);
  Function function;
  function.name = "indices";
  function.body = alone.add_region();
  function.result_types = {graph.type(value)};
  function.result_attrs.resize(1);
  // A region has its nodes in the order in which they run.
  for (NodeId id : graph.region(graph.node(graph.value(value).producer).parent).nodes)
    if (ops->contains(id)) clone.node(id, function.body);
  alone.append(function.body, alone.add_node("func.return", {clone.mapped(value)}, {}));
  alone.functions.push_back(std::move(function));
  return run_verified(alone, "indices", {})[0];
}

}  // namespace

double updates_of_one_place(const Graph& graph, const Node& scatter) {
  const Node& combines = graph.node(graph.region(scatter.regions[0]).nodes[0]);
  if (scatter.attrs.get_bool("unique_indices", false) || combines.def->has(kTerminator)) return 1;
  const WindowMap map = scatter_map(scatter);
  const Type &operand = graph.operand_type(scatter, 0), &indices = graph.operand_type(scatter, 1);
  const Type& updates = graph.operand_type(scatter, 2);
  int64_t count = 1;
  for (int64_t dim = 0; dim < static_cast<int64_t>(indices.rank()); ++dim)
    if (dim != map.index_vector_dim) count *= indices.shape[dim];
  if (count == 0 || num_elements(updates.shape) == 0) return 1;
  const double window =
      static_cast<double>(num_elements(updates.shape)) / static_cast<double>(count);
  const double places = static_cast<double>(num_elements(operand.shape)) / window;
  const double even = std::max(1.0, static_cast<double>(count) / places);
  const bool is_one = map.index_map.size() == 1 && map.indices_batching_dims.empty();
  if (!is_one || count < 2) return even;
  const std::optional<Array> known = computed(graph, scatter.operands[1]);
  if (!known) return even;
  const Array wide = convert(*known, DType::I64).contiguous();
  std::map<int64_t, double> times;
  double most = 1;
  for (int64_t i = 0; i < wide.num_elements(); ++i)
    most = std::max(most, ++times[wide.data<int64_t>()[i]]);
  return most;
}

}  // namespace cleave::analyze
