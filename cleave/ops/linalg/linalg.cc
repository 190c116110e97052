#include "cleave/kernels/linalg.h"

#include "cleave/kernels/fft.h"
#include "cleave/kernels/workspace.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/linalg/family.h"
#include "cleave/ops/linalg/linalg_attr.h"
#include "cleave/ops/rule_util.h"

namespace cleave {
namespace {

MatrixForm form_of(const Node& node) {
  if (!node.attrs.has("transpose_a")) return MatrixForm::Plain;
  const std::string_view text = node.attrs.get_string("transpose_a");
  if (text == "TRANSPOSE") return MatrixForm::Transposed;
  if (text == "ADJOINT") return MatrixForm::Adjoint;
  require(text == "NO_TRANSPOSE", node,
          "transpose_a '{}' is none of NO_TRANSPOSE, TRANSPOSE, ADJOINT", text);
  return MatrixForm::Plain;
}

}  // namespace

TriangularSolve triangular_solve_of(const Node& node) {
  return {node.attrs.get_bool("left_side", true), node.attrs.get_bool("lower", true),
          node.attrs.get_bool("unit_diagonal", false), form_of(node)};
}

FftKind fft_kind(const Node& node) {
  const std::string_view text = node.attrs.get_string("fft_type");
  if (text == "FFT") return FftKind::Forward;
  if (text == "IFFT") return FftKind::Inverse;
  if (text == "RFFT") return FftKind::RealForward;
  if (text == "IRFFT") return FftKind::RealInverse;
  fail(node, "fft_type '{}' is none of FFT, IFFT, RFFT, IRFFT", text);
}

namespace {

OpCost cubic_cost(const Graph& graph, const Node& node, double factor, double size) {
  OpCost cost;
  for (ValueId id : node.operands)
    cost.bytes_read += static_cast<double>(graph.type(id).byte_count());
  for (ValueId id : node.results)
    cost.bytes_written += static_cast<double>(graph.type(id).byte_count());
  const Type& result = graph.result_type(node);
  cost.flops = factor * static_cast<double>(num_elements(result.shape)) * size;
  return cost;
}

double matrix_size(const Type& type) { return static_cast<double>(type.shape.back()); }

// ---- cholesky

std::vector<Type> infer_cholesky(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  const Type& a = tensor_operand(graph, node, 0);
  require(a.unranked || (a.rank() >= 2 && compatible(a.shape[a.rank() - 2], a.shape[a.rank() - 1])),
          node, "takes square matrices, got {}", to_string(a));
  return {a};
}

OpShardingRule cholesky_rule(const Graph& graph, const Node& node) {
  const Shape& shape = graph.operand_type(node, 0).shape;
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < shape.size(); ++d)
    builder.same_dim(static_cast<int>(d), shape[d],
                     d + 2 < shape.size() ? FactorKind::PassThrough : FactorKind::NeedReplication);
  return builder.build();
}

OpCost cholesky_cost(const Graph& graph, const Node& node) {
  return cubic_cost(graph, node, 1.0 / 3, matrix_size(graph.operand_type(node, 0)));
}

std::vector<Array> eval_cholesky(EvalContext&, const Node& node, std::span<const Array> operands) {
  return {cholesky(operands[0], node.attrs.get_bool("lower", false))};
}

// ---- triangular_solve

bool left_side(const Node& node) { return node.attrs.get_bool("left_side", true); }

std::vector<Type> infer_triangular_solve(const Graph& graph, const Node& node) {
  require_operands(node, 2);
  const Type& a = tensor_operand(graph, node, 0);
  const Type& b = tensor_operand(graph, node, 1);
  if (a.unranked || b.unranked) return {b};
  const size_t rank = a.rank();
  require(rank >= 2 && rank == b.rank() && a.dtype == b.dtype, node,
          "a and b must be matrices of one rank and element type, got {}",
          operand_types_text(graph, node));
  require(compatible(a.shape[rank - 2], a.shape[rank - 1]), node,
          "a must hold square matrices, got {}", to_string(a));
  const size_t solved = left_side(node) ? rank - 2 : rank - 1;
  require(compatible(a.shape[rank - 1], b.shape[solved]), node,
          "dimension {} of b must match the size of a, got {}", solved,
          operand_types_text(graph, node));
  for (size_t d = 0; d + 2 < rank; ++d)
    require(compatible(a.shape[d], b.shape[d]), node, "batch dimensions must match, got {}",
            operand_types_text(graph, node));
  form_of(node);
  return {b};
}

OpShardingRule triangular_solve_rule(const Graph& graph, const Node& node) {
  const Shape& a = graph.operand_type(node, 0).shape;
  const Shape& b = graph.operand_type(node, 1).shape;
  RuleBuilder builder(graph, node);
  const int row = static_cast<int>(a.size()) - 2, col = row + 1;
  for (int d = 0; d < row; ++d) builder.same_dim(d, a[d]);
  const bool transposed = form_of(node) != MatrixForm::Plain;
  const auto kind = FactorKind::NeedReplication;
  // op(a) has a free index that b shares and a contracted one that x has.
  if (left_side(node)) {
    const int free = transposed ? col : row, contracted = transposed ? row : col;
    builder.factor({free, row}, {kNoDim}, a[free], kind)
        .factor({kNoDim, col}, {col}, b[col], kind)
        .factor({contracted, kNoDim}, {row}, a[contracted], kind);
  } else {
    const int free = transposed ? row : col, contracted = transposed ? col : row;
    builder.factor({kNoDim, row}, {row}, b[row], kind)
        .factor({free, col}, {kNoDim}, a[free], kind)
        .factor({contracted, kNoDim}, {col}, a[contracted], kind);
  }
  return builder.build();
}

// The solution is linear in b.
PartialTransfer triangular_solve_partial(const Graph&, const Node& node) {
  return rows_of_operand(node, 1, {ReduceOp::Sum, ReduceOp::Avg});
}

OpCost triangular_solve_cost(const Graph& graph, const Node& node) {
  return cubic_cost(graph, node, 1, matrix_size(graph.operand_type(node, 0)));
}

std::vector<Array> eval_triangular_solve(EvalContext&, const Node& node,
                                         std::span<const Array> operands) {
  return {triangular_solve(operands[0], operands[1], triangular_solve_of(node))};
}

// ---- fft

std::vector<Type> infer_fft(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  Type type = tensor_operand(graph, node, 0);
  const FftKind kind = fft_kind(node);
  const std::vector<int64_t> lengths = node.attrs.get_ints("fft_length");
  if (type.unranked) return infer_declared(graph, node);
  require(!lengths.empty() && lengths.size() <= 3 && lengths.size() <= type.rank(), node,
          "fft_length {} must name one to three dimensions of {}", ints_text(lengths),
          to_string(type));
  const bool real_in = kind == FftKind::RealForward;
  const bool real = type.dtype == DType::F32 || type.dtype == DType::F64;
  require(real_in ? real : is_complex(type.dtype), node, "takes {} elements, got {}",
          real_in ? "f32 or f64" : "complex", to_string(type));
  const size_t first = type.rank() - lengths.size();
  for (size_t i = 0; i < lengths.size(); ++i) {
    const bool last = i + 1 == lengths.size();
    if (kind == FftKind::RealForward || (kind == FftKind::RealInverse && !last))
      require(compatible(type.shape[first + i], lengths[i]), node,
              "fft_length {} must match the last dimensions of {}", ints_text(lengths),
              to_string(type));
  }
  const int64_t half = lengths.back() == 0 ? 0 : lengths.back() / 2 + 1;
  const bool wide = type.dtype == DType::F64 || type.dtype == DType::C128;
  if (kind == FftKind::RealForward) {
    type.dtype = wide ? DType::C128 : DType::C64;
    type.shape.back() = half;
  } else if (kind == FftKind::RealInverse) {
    require(compatible(type.shape.back(), half), node,
            "an inverse of length {} needs {} elements in the last dimension, got {}",
            lengths.back(), half, to_string(type));
    type.dtype = wide ? DType::F64 : DType::F32;
    type.shape.back() = lengths.back();
  }
  return {type};
}

OpShardingRule fft_rule(const Graph& graph, const Node& node) {
  const Shape& in = graph.operand_type(node, 0).shape;
  const Shape& out = graph.result_type(node).shape;
  const size_t batch = in.size() - node.attrs.get_ints("fft_length").size();
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < in.size(); ++d)
    builder.same_dim(static_cast<int>(d), in[d],
                     d < batch ? FactorKind::PassThrough : FactorKind::NeedReplication,
                     d >= batch && d + 1 == in.size() && in[d] != out[d]);
  return builder.build();
}

PartialTransfer fft_partial(const Graph&, const Node& node) {
  return rows_of_operand(node, 0, {ReduceOp::Sum, ReduceOp::Avg});
}

OpCost fft_cost(const Graph& graph, const Node& node) {
  double steps = 0;
  for (int64_t length : node.attrs.get_ints("fft_length"))
    for (int64_t n = length; n > 1; n /= 2) ++steps;
  return cubic_cost(graph, node, 5, steps);
}

// It is computed in complex numbers of 16 bytes.
int64_t workspace_of_fft(const Graph& graph, const Node& node, std::span<const Array> operands) {
  const bool is_to_real = fft_kind(node) == FftKind::RealInverse;
  const int64_t whole = is_to_real ? num_elements(graph.result_type(node).shape) : 0;
  return (operands[0].num_elements() + whole) * byte_size(DType::C128) +
         strided_operand_bytes(operands);
}

std::vector<Array> eval_fft(EvalContext&, const Node& node, std::span<const Array> operands) {
  return {fft(operands[0], fft_kind(node), node.attrs.get_ints("fft_length"))};
}

}  // namespace

void register_linalg_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.cholesky",
                .traits = kPure,
                .infer = infer_cholesky,
                .rule = cholesky_rule,
                .cost = cholesky_cost,
                .eval = eval_cholesky});
  registry.add({.name = "stablehlo.triangular_solve",
                .traits = kPure,
                .infer = infer_triangular_solve,
                .rule = triangular_solve_rule,
                .partial = triangular_solve_partial,
                .cost = triangular_solve_cost,
                .eval = eval_triangular_solve});
  registry.add({.name = "stablehlo.fft",
                .traits = kPure,
                .infer = infer_fft,
                .rule = fft_rule,
                .partial = fft_partial,
                .cost = fft_cost,
                .eval = eval_fft,
                .workspace = workspace_of_fft});
}

}  // namespace cleave
