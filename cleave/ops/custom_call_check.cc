#include "cleave/ops/custom_call_check.h"

#include "cleave/ops/custom_call.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

// A vector or matrices with dimensions before them: `rank` + `more` is what each must have.
struct Signature {
  std::string_view target;
  std::vector<int> operands;  // ranks beside that of operand 0
  std::vector<int> results;
  size_t least_rank;
};

const std::vector<Signature>& signatures() {
  static const std::vector<Signature> table = {
      {"Eigh", {0}, {0, -1}, 2},
      {"Qr", {0}, {0, -1}, 2},
      {"QrDecompositionBlock", {0}, {0, -1}, 2},
      {"ProductOfElementaryHouseholderReflectors", {0, -1}, {0}, 2},
      {"mhlo.topk", {0}, {0, 0}, 1},
      {"mhlo.erf", {0}, {0}, 0},
      {"X64SplitLow", {0}, {0}, 0},
      {"X64SplitHigh", {0}, {0}, 0},
      {"X64Combine", {0, 0}, {0}, 0},
  };
  return table;
}

bool is_approx_top_k(std::string_view target) {
  return target == "ApproxTopK" || target == "PartialReduce";
}

std::string result_types_text(const Graph& graph, const Node& node) {
  std::string text;
  for (ValueId id : node.results) text += (text.empty() ? "" : ", ") + to_string(graph.type(id));
  return text;
}

bool has_ranks(const Graph& graph, const std::vector<ValueId>& values,
               const std::vector<int>& ranks, int first) {
  if (values.size() != ranks.size()) return false;
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& type = graph.type(values[i]);
    if (!type.is_tensor()) return false;
    if (!type.unranked && static_cast<int>(type.rank()) != first + ranks[i]) return false;
  }
  return true;
}

// Operand and counters of one shape and two initial scalars; all dimensions of the results but one
// are those of the operand.
bool fits_top_k(const Graph& graph, const Node& node) {
  if (node.operands.size() != 4 || node.results.size() != 2) return true;  // another variant
  const Type& in = graph.operand_type(node, 0);
  const Type& out = graph.result_type(node);
  const bool tensors = in.is_tensor() && out.is_tensor() && in.rank() >= 1;
  if (!tensors || !compatible(in.shape, graph.operand_type(node, 1).shape) ||
      graph.operand_type(node, 2).rank() != 0 || graph.operand_type(node, 3).rank() != 0 ||
      graph.result_type(node, 1).shape != out.shape || in.rank() != out.rank())
    return false;
  for (size_t d = 0; d < in.rank(); ++d)
    if (!is_dynamic(in.shape[d]) && !is_dynamic(out.shape[d]) && out.shape[d] > in.shape[d])
      return false;
  return true;
}

}  // namespace

void verify_custom_call(const Graph& graph, const Node& node) {
  verify_call_attributes(graph, node);
  const std::string_view target = node.attrs.get_string("call_target_name");
  bool fits = !is_approx_top_k(target) || fits_top_k(graph, node);
  for (const Signature& known : signatures()) {
    if (known.target != target) continue;
    if (node.operands.empty() || !graph.operand_type(node, 0).is_tensor()) {
      fits = false;
      continue;
    }
    const Type& first = graph.operand_type(node, 0);
    const int rank = static_cast<int>(first.rank());
    fits &= first.unranked || (first.rank() >= known.least_rank &&
                               has_ranks(graph, node.operands, known.operands, rank) &&
                               has_ranks(graph, node.results, known.results, rank));
  }
  require(fits, node, "@{} does not take ({}) and give ({})", target,
          operand_types_text(graph, node), result_types_text(graph, node));
  if (is_linalg_call(target)) verify_linalg_call(graph, node, target);
}

void check_call_operands(const Graph& graph, const Node& node, std::span<const Array> operands) {
  const std::string_view target = node.attrs.get_string("call_target_name");
  const auto same = [&](const Array& array, const Type& type) {
    return type.is_tensor() && array.dtype() == type.dtype &&
           (type.unranked || compatible(array.shape(), type.shape));
  };
  bool fits = true;
  if (is_identity_call(target)) {
    fits = operands.size() == node.results.size();
    for (size_t i = 0; fits && i < operands.size(); ++i)
      fits = same(operands[i], graph.result_type(node, i));
  } else if (target == "mhlo.topk" || (is_approx_top_k(target) && operands.size() == 4)) {
    const Shape& in = operands[0].shape();
    const Shape& out = graph.result_type(node).shape;
    fits = node.results.size() == 2 && in.size() == out.size() && !in.empty() &&
           graph.result_type(node, 1).shape == out;
    for (size_t d = 0; fits && d < in.size(); ++d)
      fits = out[d] >= 0 &&
             (target == "mhlo.topk" && d + 1 < in.size() ? out[d] == in[d] : out[d] <= in[d]);
    if (is_approx_top_k(target)) fits &= operands[1].shape() == in;
  } else if (target == "X64Combine") {
    fits = operands.size() == 2 && operands[0].shape() == operands[1].shape();
  } else if (target == "mhlo.erf" || target.starts_with("X64Split")) {
    fits = operands.size() == 1;
  }
  require(fits, node, "@{} cannot be run on ({}) to give ({})", target,
          operand_types_text(graph, node), result_types_text(graph, node));
}

}  // namespace cleave
