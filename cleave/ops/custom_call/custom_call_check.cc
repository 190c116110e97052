#include "cleave/ops/custom_call/custom_call_check.h"

#include <fmt/format.h>

#include "cleave/graph/scalar_code.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/ops/custom_call/custom_call.h"
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

// Whether a function compares two pairs of a value and a counter: (a, b, i, j) -> i1.
bool is_top_k_comparator(const Graph& graph, const Node& node, const Function& function) {
  if (!function.body.valid() || function.arg_types.size() != 4 ||
      function.result_types != std::vector{Type::tensor(DType::Bool, {})})
    return false;
  for (size_t i = 0; i < 4; ++i) {
    const Type& arg = function.arg_types[i];
    if (!arg.is_tensor() || arg.rank() != 0 || arg.dtype != graph.operand_type(node, i / 2).dtype)
      return false;
  }
  return true;
}

const Function* called_computation(const Graph& graph, const Node& node) {
  const std::vector<std::string> names = functions_named_by(node);
  return names.size() == 1 ? graph.find_function(names[0]) : nullptr;
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

const Function* top_k_comparator(const Graph& graph, const Node& node) {
  if (functions_named_by(node).empty()) return nullptr;
  const Function* function = called_computation(graph, node);
  require(function && is_top_k_comparator(graph, node, *function), node,
          "called_computations must name one function with a body that compares two values and "
          "their counters: ({0}, {0}, {1}, {1}) -> i1 for scalars of the operands' types",
          name(graph.operand_type(node, 0).dtype), name(graph.operand_type(node, 1).dtype));
  return function;
}

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
  // Graphs that hold one op for its price have no functions.
  if (is_approx_top_k(target) && node.operands.size() == 4 && called_computation(graph, node))
    top_k_comparator(graph, node);
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

void check_shape_assertion(const Node& node, std::span<const Array> operands) {
  bool fits = !operands.empty() && node.results.empty() && operands[0].dtype() == DType::Bool;
  for (const Array& operand : operands) fits &= operand.rank() == 0;
  require(fits, node, "@shape_assertion takes a condition and the sizes that its message names");
  if (*operands[0].contiguous().data<uint8_t>()) return;
  std::string text(node.attrs.get_string("error_message"));
  for (size_t i = 1; i < operands.size(); ++i) {
    const std::string mark = fmt::format("{{{}}}", i - 1);
    const int64_t size = *convert(operands[i], DType::I64).data<int64_t>();
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos;)
      text.replace(at, mark.size(), std::to_string(size));
  }
  fail(node, "{}",
       text.empty() ? "the sizes are not those that the module was exported for" : text);
}

}  // namespace cleave
