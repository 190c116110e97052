#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/linalg.h"
#include "cleave/ops/custom_call/custom_call.h"
#include "cleave/ops/custom_call/linalg_call_check.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

using Operands = std::span<const Array>;

// The parameters that JAX writes into mhlo.backend_config. For CPUs, letters are codes (76 is 'L');
// for GPUs, they are flags (lower = true).
class Config {
 public:
  Config(const Graph& graph, const Node& node) : graph_(graph), node_(node) {
    const Attribute* attribute = node.attrs.find("mhlo.backend_config");
    const DictAttr* dict = attribute ? attribute->as<DictAttr>() : nullptr;
    if (dict) dict_ = &dict->dict;
  }
  bool has(const char* name) const { return dict_ && dict_->has(name); }
  int64_t number(const char* name) const {
    require(has(name), node_, "mhlo.backend_config needs '{}'", name);
    return dict_->get_int(name);
  }
  char letter(const char* name, std::string_view known) const {
    const auto value = static_cast<char>(number(name));
    check_linalg_letter(node_, name, value, known);
    return value;
  }
  char uplo() const {
    if (has("lower")) return flag("lower") ? 'L' : 'U';
    return letter("uplo", "LU");
  }
  char vectors(const char* cpu, const char* gpu) const {
    if (has(gpu)) return flag(gpu) ? 'V' : 'N';
    return letter(cpu, "NV");
  }
  void check(bool good, const char* what) const { require(good, node_, "{}", what); }
  const Type& result(size_t i) const { return graph_.result_type(node_, i); }
  bool flag(const char* name) const { return dict_ && dict_->get_bool(name, false); }

 private:
  const Graph& graph_;
  const Node& node_;
  const AttrDict* dict_ = nullptr;
};

using Call = std::vector<Array> (*)(const Config&, Operands);

std::vector<Array> eigh(Operands x) {
  const std::vector<Array> parts = lapack_syevd(x[0], 'V', 'L');
  return {parts[0], parts[1]};
}

std::vector<Array> lu(Operands x) {
  const std::vector<Array> parts = lapack_getrf(x[0]);
  const Array one = Array::scalar<int32_t>(DType::I32, 1);
  const Array from_zero = binary(BinaryOp::Subtract, parts[1], splat(one, parts[1].shape()));
  return {parts[0], from_zero, pivots_to_permutation(parts[1], x[0].shape()[x[0].rank() - 2])};
}

// JAX's pivots count from 0, LAPACK's from 1.
std::vector<Array> permutation(const Config& c, Operands x) {
  const int64_t size = c.result(0).shape.back();
  const Array pivots = x[0].contiguous();
  for (int64_t i = 0; i < pivots.num_elements(); ++i)
    if (const int pivot = pivots.data<int32_t>()[i]; pivot < 0 || pivot >= size)
      throw_user("a pivot of a permutation of {} is {}", size, pivot);
  const Array one = Array::scalar<int32_t>(DType::I32, 1);
  return {pivots_to_permutation(binary(BinaryOp::Add, pivots, splat(one, pivots.shape())), size)};
}

std::vector<Array> svd(const Config& c, Operands x) {
  // Where no vectors are asked for, their declared shape stays.
  const bool square = c.result(2).rank() == x[0].rank() &&
                      c.result(2).shape.back() == x[0].shape()[x[0].rank() - 2];
  return lapack_gesdd(x[0], c.letter("mode", "ASN"), square);
}

// {a, s, u, vt, info}; {a, s, vt, u, info} if `transposed`. Without vectors, those are scalars.
std::vector<Array> gpu_svd(const Config& c, Operands x) {
  const bool vectors = c.flag("compute_uv");
  std::vector<Array> parts = lapack_gesdd(x[0], !vectors                  ? 'N'
                                                : c.flag("full_matrices") ? 'A'
                                                                          : 'S');
  if (c.flag("transposed")) std::swap(parts[2], parts[3]);
  if (!vectors)
    for (size_t i : {2, 3}) parts[i] = Array::zeros(x[0].dtype(), c.result(i).shape);
  return parts;
}

// {a, s, u, v, info}: not v's adjoint, and always with vectors.
std::vector<Array> gpu_svd_jacobi(const Config& c, Operands x) {
  std::vector<Array> parts = lapack_gesdd(x[0], c.flag("full_matrices") ? 'A' : 'S');
  Shape swapped(x[0].rank());
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped[swapped.size() - 2], swapped.back());
  parts[3] = parts[3].transpose(swapped).contiguous();
  if (is_complex(parts[3].dtype())) {
    const Array imaginary = unary(UnaryOp::Negate, unary(UnaryOp::Imag, parts[3]));
    parts[3] = binary(BinaryOp::Complex, unary(UnaryOp::Real, parts[3]), imaginary);
  }
  return parts;
}

std::vector<Array> geev(const Config& c, Operands x) {
  return lapack_geev(x[0], c.vectors("compute_left", "left"), c.vectors("compute_right", "right"));
}

std::vector<Array> solve_triangular(const Config& c, Operands x) {
  const char form = c.letter("trans_x", "NTC");
  const bool left = c.letter("side", "LR") == 'L';
  c.check(x[1].shape()[x[1].rank() - (left ? 2 : 1)] == x[0].shape().back(),
          "the right sides do not fit the matrix");
  return {triangular_solve(x[0], x[1],
                           {left, c.letter("uplo", "LU") == 'L', c.letter("diag", "NU") == 'U',
                            form == 'N'   ? MatrixForm::Plain
                            : form == 'T' ? MatrixForm::Transposed
                                          : MatrixForm::Adjoint})};
}

std::vector<Array> schur(const Config& c, Operands x) {
  c.letter("sort", "N");  // sorting by a function of the process that traced cannot be had
  return lapack_gees(x[0], c.letter("mode", "NV"));
}

struct Routine {
  Call call;
  std::vector<size_t> ranks;  // of the operands, without the batch
  size_t results;
  bool square = false;  // the first operand
};

const std::map<std::string_view, Routine>& routines() {
  static const Call qr = [](const Config&, Operands x) { return lapack_geqrf(x[0]); };
  static const Call q = [](const Config&, Operands x) { return lapack_orgqr(x[0], x[1]); };
  static const std::map<std::string_view, Routine> table{
      {"potrf",
       {[](const Config& c, Operands x) { return lapack_potrf(x[0], c.uplo()); }, {2}, 2, true}},
      {"getrf", {[](const Config&, Operands x) { return lapack_getrf(x[0]); }, {2}, 3}},
      {"geqrf", {qr, {2}, 2}},
      {"geqp3", {[](const Config&, Operands x) { return lapack_geqp3(x[0], x[1]); }, {2, 1}, 3}},
      {"orgqr", {q, {2, 1}, 1}},
      {"ormqr",
       {[](const Config& c, Operands x) {
          const bool left = c.flag("left");
          c.check(x[2].shape()[x[2].rank() - (left ? 2 : 1)] == x[0].shape()[x[0].rank() - 2],
                  "the matrix does not fit the reflectors");
          return lapack_ormqr(x[0], x[1], x[2], left, c.flag("transpose"));
        },
        {2, 1, 2},
        1}},
      {"gesdd", {svd, {2}, 5}},
      {"gpu_gesvd", {gpu_svd, {2}, 5}},
      {"gpu_gesvdj", {gpu_svd_jacobi, {2}, 5}},
      {"syevd",
       {[](const Config& c, Operands x) {
          return lapack_syevd(x[0], c.has("mode") ? c.letter("mode", "NV") : 'V', c.uplo());
        },
        {2},
        3,
        true}},
      {"geev", {geev, {2}, 5, true}},
      {"complex_geev", {geev, {2}, 4, true}},
      {"gees", {schur, {2}, 6, true}},
      {"complex_gees", {schur, {2}, 5, true}},
      {"gehrd",
       {[](const Config& c, Operands x) {
          const int64_t low = c.number("low"), high = c.number("high"), n = x[0].shape().back();
          c.check((n == 0 && low == 1 && high == 0) || (low >= 1 && low <= high && high <= n),
                  "'low' and 'high' are outside of the matrix");
          return lapack_gehrd(x[0], static_cast<int>(low), static_cast<int>(high));
        },
        {2},
        3,
        true}},
      {"sytrd",
       {[](const Config& c, Operands x) { return lapack_sytrd(x[0], c.uplo()); }, {2}, 5, true}},
      {"gtsv",
       {[](const Config&, Operands x) { return lapack_gtsv(x[0], x[1], x[2], x[3]); },
        {1, 1, 1, 2},
        5}},
      {"gtsv2",
       {[](const Config&, Operands x) {
          return std::vector{lapack_gtsv(x[0], x[1], x[2], x[3])[3]};
        },
        {1, 1, 1, 2},
        1}},
      {"lu_pivots_to_permutation", {permutation, {1}, 1}},
      {"trsm", {solve_triangular, {2, 2}, 1, true}},
      {"Qr", {qr, {2}, 2}},
      {"QrDecompositionBlock", {qr, {2}, 2}},
      {"ProductOfElementaryHouseholderReflectors", {q, {2, 1}, 1}},
      {"Eigh", {[](const Config&, Operands x) { return eigh(x); }, {2}, 2, true}},
      {"LuDecomposition", {[](const Config&, Operands x) { return lu(x); }, {2}, 3}},
      {"Cholesky",
       {[](const Config&, Operands x) { return std::vector{cholesky(x[0], true)}; }, {2}, 1, true}},
  };
  return table;
}

// "lapack_spotrf_ffi" -> "spotrf" for a prefix "lapack_" and a suffix "_ffi".
std::optional<std::string_view> between(std::string_view text, std::string_view prefix,
                                        std::string_view suffix) {
  if (!text.starts_with(prefix) || !text.ends_with(suffix) ||
      text.size() <= prefix.size() + suffix.size())
    return std::nullopt;
  return text.substr(prefix.size(), text.size() - prefix.size() - suffix.size());
}

std::string_view gpu_routine(std::string_view name) {
  if (name == "gesvd" || name == "gesdd") return "gpu_gesvd";
  if (name == "gesvdj" || name == "gesvdp") return "gpu_gesvdj";
  if (name == "geev") return {};  // its vectors are packed in another way
  return name;
}

}  // namespace

std::string_view linalg_routine(std::string_view target) {
  if (const auto name = between(target, "lapack_", "_ffi")) {
    const std::string_view routine = name->substr(1);  // without the letter of its type
    if (routine == "unmqr") return "ormqr";
    if (routine == "ungqr") return "orgqr";
    if (routine == "heevd") return "syevd";
    if (routine == "hetrd") return "sytrd";
    if (routine == "gesvd") return "gesdd";
    const bool complex = name->front() == 'c' || name->front() == 'z';
    if (routine == "geev" && complex) return "complex_geev";
    if (routine == "gees" && complex) return "complex_gees";
    return routine;
  }
  for (const std::string_view vendor : {"cu", "hip"}) {
    if (!target.starts_with(vendor)) continue;
    const std::string_view rest = target.substr(vendor.size());
    if (const auto name = between(rest, "solver_", "_ffi")) return gpu_routine(*name);
    if (rest == "sparse_gtsv2_ffi") return "gtsv2";
    if (rest == "hybrid_eig_real") return "geev";
    if (rest == "hybrid_eig_comp") return "complex_geev";
    if (rest == "hybrid_geqp3") return "geqp3";
    if (rest == "_lu_pivots_to_permutation") return "lu_pivots_to_permutation";
  }
  return target.starts_with("lapack_") ? std::string_view() : target;
}

bool is_linalg_call(std::string_view target) { return routines().contains(linalg_routine(target)); }

void verify_linalg_call(const Graph& graph, const Node& node, std::string_view target) {
  const Routine& routine = routines().at(linalg_routine(target));
  require(node.operands.size() == routine.ranks.size() && node.results.size() == routine.results,
          node, "@{} takes {} operands and gives {} results, not {} and {}", target,
          routine.ranks.size(), routine.results, node.operands.size(), node.results.size());
  const Type& first = graph.operand_type(node, 0);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Type& type = graph.operand_type(node, i);
    if (!type.is_tensor() || type.unranked) return;
    require(type.rank() >= routine.ranks[i] &&
                type.rank() - routine.ranks[i] == first.rank() - routine.ranks[0],
            node, "operand {} of @{} is {}: {} dimensions after the batch are needed", i, target,
            to_string(type), routine.ranks[i]);
    for (size_t d = 0; d + routine.ranks[i] < type.rank(); ++d)
      require(type.shape[d] == first.shape[d], node, "@{}: the batches of {} and {} differ", target,
              to_string(first), to_string(type));
  }
  if (routine.square)
    require(first.shape[first.rank() - 1] == first.shape[first.rank() - 2], node,
            "@{} needs square matrices, not {}", target, to_string(first));
}

std::vector<Array> eval_linalg_call(const Graph& graph, const Node& node, std::string_view target,
                                    Operands operands) {
  verify_linalg_call(graph, node, target);
  check_linalg_operands(node, linalg_routine(target), operands);
  std::vector<Array> results =
      routines().at(linalg_routine(target)).call(Config(graph, node), operands);
  for (size_t i = 0; i < results.size(); ++i) {
    const Type& declared = graph.result_type(node, i);
    const bool same = !declared.has_static_shape() || (declared.dtype == results[i].dtype() &&
                                                       declared.shape == results[i].shape());
    require(same, node, "@{}: result {} is {}, and {} was declared", target, i,
            to_string(Type::tensor(results[i].dtype(), results[i].shape())), to_string(declared));
  }
  return results;
}

bool is_linalg_batch_dim(const Graph& graph, const Node& node, size_t tensor, size_t dim) {
  const std::string_view routine = linalg_routine(node.attrs.get_string("call_target_name"));
  const size_t matrix_dims = routines().at(routine).ranks[0];
  const size_t first = graph.operand_type(node, 0).rank();
  if (dim + matrix_dims < first) return true;
  if (routine != "trsm" || tensor == 0) return false;
  return dim + 1 == first - (Config(graph, node).letter("side", "LR") == 'L' ? 0 : 1);
}

size_t linalg_matrix_dims(std::string_view target) {
  return routines().at(linalg_routine(target)).ranks[0];
}

OpShardingRule matrix_call_rule(const std::vector<Shape>& operands,
                                const std::vector<Shape>& results, size_t batch) {
  auto ranks = [](const std::vector<Shape>& shapes) {
    std::vector<size_t> sizes;
    for (const Shape& shape : shapes) sizes.push_back(shape.size());
    return sizes;
  };
  RuleBuilder builder(ranks(operands), ranks(results));
  for (size_t d = 0; d < batch; ++d) builder.same_dim(static_cast<int>(d), operands[0][d]);
  auto add = [&](const std::vector<Shape>& shapes, bool are_operands) {
    for (size_t t = 0; t < shapes.size(); ++t)
      for (size_t d = batch; d < shapes[t].size(); ++d) {
        std::vector<int> in(operands.size(), kNoDim), out(results.size(), kNoDim);
        (are_operands ? in : out)[t] = static_cast<int>(d);
        builder.factor(in, out, shapes[t][d], FactorKind::NeedReplication);
      }
  };
  add(operands, true);
  add(results, false);
  return builder.build();
}

}  // namespace cleave
