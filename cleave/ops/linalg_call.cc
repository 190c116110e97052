#include <algorithm>
#include <map>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/linalg.h"
#include "cleave/ops/custom_call.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

using Operands = std::span<const Array>;

// The parameters that JAX writes into mhlo.backend_config; letters are codes (76 is 'L').
class Config {
 public:
  Config(const Graph& graph, const Node& node) : graph_(graph), node_(node) {
    const Attribute* attribute = node.attrs.find("mhlo.backend_config");
    const DictAttr* dict = attribute ? attribute->as<DictAttr>() : nullptr;
    if (dict) dict_ = &dict->dict;
  }
  int64_t number(const char* name) const {
    require(dict_ && dict_->has(name), node_, "mhlo.backend_config needs '{}'", name);
    return dict_->get_int(name);
  }
  char letter(const char* name) const { return static_cast<char>(number(name)); }
  const Shape& result_shape(size_t i) const { return graph_.result_type(node_, i).shape; }
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

const std::map<std::string_view, Call>& calls() {
  static const std::map<std::string_view, Call> table{
      {"potrf", [](const Config& c, Operands x) { return lapack_potrf(x[0], c.letter("uplo")); }},
      {"getrf", [](const Config&, Operands x) { return lapack_getrf(x[0]); }},
      {"geqrf", [](const Config&, Operands x) { return lapack_geqrf(x[0]); }},
      {"geqp3", [](const Config&, Operands x) { return lapack_geqp3(x[0], x[1]); }},
      {"orgqr", [](const Config&, Operands x) { return lapack_orgqr(x[0], x[1]); }},
      {"ungqr", [](const Config&, Operands x) { return lapack_orgqr(x[0], x[1]); }},
      {"ormqr",
       [](const Config& c, Operands x) {
         return lapack_ormqr(x[0], x[1], x[2], c.flag("left"), c.flag("transpose"));
       }},
      {"gesdd",
       [](const Config& c, Operands x) {
         // Where no vectors are asked for, their declared shape stays.
         const bool square = c.result_shape(2).back() == x[0].shape()[x[0].rank() - 2];
         return lapack_gesdd(x[0], c.letter("mode"), square);
       }},
      {"syevd", [](const Config& c,
                   Operands x) { return lapack_syevd(x[0], c.letter("mode"), c.letter("uplo")); }},
      {"geev",
       [](const Config& c, Operands x) {
         return lapack_geev(x[0], c.letter("compute_left"), c.letter("compute_right"));
       }},
      {"gehrd",
       [](const Config& c, Operands x) {
         return lapack_gehrd(x[0], static_cast<int>(c.number("low")),
                             static_cast<int>(c.number("high")));
       }},
      {"sytrd", [](const Config& c, Operands x) { return lapack_sytrd(x[0], c.letter("uplo")); }},
      {"gtsv", [](const Config&, Operands x) { return lapack_gtsv(x[0], x[1], x[2], x[3]); }},
      {"trsm",
       [](const Config& c, Operands x) {
         const char form = c.letter("trans_x");
         return std::vector{triangular_solve(
             x[0], x[1],
             {c.letter("side") == 'L', c.letter("uplo") == 'L', c.letter("diag") == 'U',
              form == 'N'   ? MatrixForm::Plain
              : form == 'T' ? MatrixForm::Transposed
                            : MatrixForm::Adjoint})};
       }},
      {"Qr", [](const Config&, Operands x) { return lapack_geqrf(x[0]); }},
      {"QrDecompositionBlock", [](const Config&, Operands x) { return lapack_geqrf(x[0]); }},
      {"ProductOfElementaryHouseholderReflectors",
       [](const Config&, Operands x) { return lapack_orgqr(x[0], x[1]); }},
      {"Eigh", [](const Config&, Operands x) { return eigh(x); }},
      {"LuDecomposition", [](const Config&, Operands x) { return lu(x); }},
      {"Cholesky", [](const Config&, Operands x) { return std::vector{cholesky(x[0], true)}; }},
  };
  return table;
}

// "lapack_spotrf_ffi" -> "potrf"; complex names are those of the real routines: "unmqr" -> "ormqr".
std::string_view routine_of(std::string_view target) {
  constexpr std::string_view prefix = "lapack_", suffix = "_ffi";
  if (target.starts_with(prefix) && target.ends_with(suffix) &&
      target.size() > prefix.size() + suffix.size() + 1)
    target = target.substr(prefix.size() + 1, target.size() - prefix.size() - suffix.size() - 1);
  else if (target.starts_with(prefix))
    return {};
  if (target == "unmqr") return "ormqr";
  if (target == "heevd") return "syevd";
  if (target == "hetrd") return "sytrd";
  return target;
}

}  // namespace

bool is_linalg_call(std::string_view target) { return calls().contains(routine_of(target)); }

std::vector<Array> eval_linalg_call(const Graph& graph, const Node& node, std::string_view target,
                                    Operands operands) {
  return calls().at(routine_of(target))(Config(graph, node), operands);
}

bool is_linalg_batch_dim(const Graph& graph, const Node& node, size_t tensor, size_t dim) {
  const std::string_view routine = routine_of(node.attrs.get_string("call_target_name"));
  const size_t matrix_dims = routine == "gtsv" ? 1 : 2;  // which begins with a diagonal
  const size_t first = graph.operand_type(node, 0).rank();
  if (dim + matrix_dims < first) return true;
  if (routine != "trsm" || tensor == 0) return false;
  return dim + 1 == first - (Config(graph, node).letter("side") == 'L' ? 0 : 1);
}

}  // namespace cleave
