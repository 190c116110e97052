#include "cleave/ops/custom_call/linalg_call_check.h"

#include <algorithm>
#include <array>

#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

// What an operand is beside the batch dimensions: m and n are the sizes of operand 0.
enum class Form : uint8_t {
  Matrix,   // {..., m, n}
  Square,   // {..., m, m}
  Pivots,   // {..., n} of i32
  Tau,      // {..., k}, k at most as large as m and n
  Right,    // a matrix with m rows, or columns
  Band,     // {..., m}: of a tridiagonal matrix
  Columns,  // {..., m, any}: right sides of a tridiagonal matrix
};

struct CheckedRoutine {
  std::string_view name;
  std::vector<Form> operands;
};

const std::vector<CheckedRoutine>& checked_routines() {
  static const std::vector<CheckedRoutine> table = {
      {"potrf", {Form::Square}},
      {"getrf", {Form::Matrix}},
      {"geqrf", {Form::Matrix}},
      {"geqp3", {Form::Matrix, Form::Pivots}},
      {"orgqr", {Form::Matrix, Form::Tau}},
      {"ormqr", {Form::Matrix, Form::Tau, Form::Right}},
      {"gesdd", {Form::Matrix}},
      {"gpu_gesvd", {Form::Matrix}},
      {"gpu_gesvdj", {Form::Matrix}},
      {"syevd", {Form::Square}},
      {"geev", {Form::Square}},
      {"complex_geev", {Form::Square}},
      {"gees", {Form::Square}},
      {"complex_gees", {Form::Square}},
      {"gehrd", {Form::Square}},
      {"sytrd", {Form::Square}},
      {"gtsv", {Form::Band, Form::Band, Form::Band, Form::Columns}},
      {"gtsv2", {Form::Band, Form::Band, Form::Band, Form::Columns}},
      {"trsm", {Form::Square, Form::Right}},
      {"Qr", {Form::Matrix}},
      {"QrDecompositionBlock", {Form::Matrix}},
      {"ProductOfElementaryHouseholderReflectors", {Form::Matrix, Form::Tau}},
      {"Eigh", {Form::Square}},
      {"LuDecomposition", {Form::Matrix}},
      {"Cholesky", {Form::Square}},
  };
  return table;
}

size_t rank_of(Form form) {
  return form == Form::Pivots || form == Form::Tau || form == Form::Band ? 1 : 2;
}

std::string types_text(std::span<const Array> operands) {
  std::string text;
  for (const Array& operand : operands)
    text += (text.empty() ? "" : ", ") + to_string(Type::tensor(operand.dtype(), operand.shape()));
  return text;
}

bool fits(Form form, const Array& operand, const Array& first) {
  const Shape& shape = operand.shape();
  const size_t r = shape.size(), first_rank = first.rank();
  const int64_t n = first.shape().back();
  const int64_t m = first_rank >= 2 ? first.shape()[first_rank - 2] : n;
  switch (form) {
    case Form::Matrix:
      return true;
    case Form::Square:
      return shape[r - 2] == shape[r - 1];
    case Form::Pivots:
      return operand.dtype() == DType::I32 && shape.back() == n;
    case Form::Tau:
      return shape.back() <= std::min(m, n);
    case Form::Right:
      return shape[r - 2] == m || shape[r - 1] == m;
    case Form::Band:
      return shape.back() == n;
    case Form::Columns:
      return shape[r - 2] == n;
  }
  return false;
}

}  // namespace

void check_linalg_operands(const Node& node, std::string_view routine,
                           std::span<const Array> operands) {
  const auto it = std::find_if(checked_routines().begin(), checked_routines().end(),
                               [&](const CheckedRoutine& known) { return known.name == routine; });
  if (it == checked_routines().end()) return;
  const std::vector<Form>& forms = it->operands;
  require(operands.size() >= forms.size(), node, "{} takes {} operand(s), got {}", routine,
          forms.size(), operands.size());
  operands = operands.first(forms.size());
  for (const Array& operand : operands)
    for (int64_t size : operand.shape())
      require(size <= INT32_MAX, node, "{} takes no matrices as large as {}", routine,
              types_text(operands));
  for (size_t i = 0; i < forms.size(); ++i) {
    bool good = operands[i].rank() >= rank_of(forms[i]) && operands[0].rank() >= rank_of(forms[0]);
    if (good) {
      const Shape& shape = operands[i].shape();
      const Shape& first = operands[0].shape();
      const size_t batch = shape.size() - rank_of(forms[i]);
      good =
          batch == first.size() - rank_of(forms[0]) &&
          std::equal(shape.begin(), shape.begin() + static_cast<int64_t>(batch), first.begin()) &&
          (forms[i] == Form::Pivots || operands[i].dtype() == operands[0].dtype()) &&
          fits(forms[i], operands[i], operands[0]);
    }
    require(good, node, "operand {} of {} does not fit: {}", i, routine, types_text(operands));
  }
}

void check_linalg_letter(const Node& node, const char* name, char letter, std::string_view known) {
  require(known.find(letter) != std::string_view::npos, node, "'{}' is {}, and none of {}", name,
          static_cast<int>(letter), known);
}

}  // namespace cleave
