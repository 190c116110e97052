#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "cleave/discover/emit.h"
#include "cleave/discover/emit_dtensor.h"
#include "cleave/discover/synthesize.h"

namespace cleave {
namespace {

using namespace dtensor_text;
using Kind = PlacePattern::Kind;

bool is_trivial(const DiscoveredRule& rule) {
  return rule.placement.kind == Kind::Replicate &&
         std::all_of(rule.operands.begin(), rule.operands.end(),
                     [](const PlacePattern& p) { return p.kind == Kind::Replicate; });
}

// What PyTorch calls an operator of the library. An operator that is not listed is taken by its own
// name.
struct AtenOp {
  std::string overload;  // torch.ops.aten.OVERLOAD
  std::string function;  // torch.FUNCTION
  bool guessed = false;  // or with other arguments
};

AtenOp aten_op(const std::string& name) {
  static const std::map<std::string, AtenOp> table = {
      {"add", {"add.Tensor", "add"}},
      {"sub", {"sub.Tensor", "sub"}},
      {"mul", {"mul.Tensor", "mul"}},
      {"div", {"div.Tensor", "div"}},
      {"eq", {"eq.Tensor", "eq"}},
      {"lt", {"lt.Tensor", "lt"}},
      {"where", {"where.self", "where"}},
      {"sum", {"sum.dim_IntList", "sum"}},
      {"mean", {"mean.dim", "mean"}},
      {"prod", {"prod.dim_int", "prod"}},
      {"matmul", {"mm.default", "mm"}},
      {"transpose", {"t.default", "t"}},
      {"cross", {"linalg_cross.default", "linalg.cross"}},
      {"softmax", {"_softmax.default", "softmax"}},
      {"log_softmax", {"_log_softmax.default", "log_softmax"}},
      {"bucketize", {"bucketize.Tensor", "bucketize"}},
      {"embedding", {"embedding.default", "embedding"}},
      {"add_scalar", {"add.Scalar", "add", true}},
      {"mul_scalar", {"mul.Scalar", "mul", true}},
      {"max_with_index", {"max.dim", "max"}},
      {"var", {"var.dim", "var"}},
      {"norm", {"linalg_vector_norm.default", "linalg.vector_norm", true}},
      {"cast", {"_to_copy.default", "_to_copy", true}},
  };
  const auto it = table.find(name);
  if (it != table.end()) return it->second;
  static const std::set<std::string> same = {
      "abs",   "neg",     "exp",    "sigmoid",   "tanh", "sin",    "cos",      "sign",    "floor",
      "ceil",  "log",     "sqrt",   "rsqrt",     "relu", "square", "isfinite", "maximum", "bmm",
      "atan2", "minimum", "cumsum", "logsumexp", "amax", "amin",   "argmax",   "flip"};
  return {identifier(name) + ".default", identifier(name), !same.contains(name)};
}

bool is_needed(const Discovery& discovery, const std::string& name) {
  return std::find(discovery.attributes.begin(), discovery.attributes.end(), name) !=
         discovery.attributes.end();
}

// A literal that stands for an argument that a call may leave out.
std::string python_default(const AttrValue& like) {
  return std::holds_alternative<bool>(like) ? "False" : "None";
}

// Conditions count dimensions from the front.
std::string from_front(const Discovery& discovery, const std::string& name,
                       const AttrValue& value) {
  if (std::find(discovery.dim_attrs.begin(), discovery.dim_attrs.end(), name) ==
      discovery.dim_attrs.end())
    return "";
  if (std::holds_alternative<std::vector<int64_t>>(value))
    return fmt::format("    {0} = [k % len(args_schema[0].shape) for k in {0}]\n", name);
  if (!std::holds_alternative<int64_t>(value)) return "";
  return fmt::format(
      "    {0} = {0}[0] if isinstance({0}, (list, tuple)) else {0}\n"
      "    {0} = (-1 if {0} is None else {0}) % len(args_schema[0].shape)\n",
      name);
}

// Rows of CASES.
std::string test_cases(const Discovery& discovery, const SampleDecisions& sample) {
  std::string tensors, values, rows;
  for (const TensorDesc& desc : sample.sample.operands) {
    std::string shape;
    for (int64_t size : desc.shape) shape += std::to_string(size) + ", ";
    tensors += fmt::format("{}(({}), {})", tensors.empty() ? "" : ", ", shape, dtype(desc.dtype));
  }
  for (const auto& [name, value] : sample.sample.attrs)
    values += fmt::format("{}\"{}\": {}", values.empty() ? "" : ", ", name, literal(value));
  for (const Decision& d : sample.decisions) {
    const Combination& c = d.combination;
    if (!d.verdict.valid() || c.result != 0 || is_implied(sample, c)) continue;
    if (!has_row(discovery, sample, c)) continue;
    std::string operands;
    for (const Placement& p : c.operands) operands += (operands.empty() ? "" : ", ") + placement(p);
    const auto results = results_beside(sample, c, discovery.num_results);
    if (!results) continue;
    rows += fmt::format("    ([{}], {{{}}}, [{}], [{}]),\n", tensors, values, operands, *results);
  }
  return rows;
}

}  // namespace

std::string emit_dtensor(const Discovery& discovery) {
  const size_t n = discovery.num_operands;
  std::string schema;
  if (!discovery.attributes.empty()) {
    std::string keys;
    for (const std::string& name : discovery.attributes)
      keys += fmt::format("{}\"{}\"", keys.empty() ? "" : ", ", name);
    schema = fmt::format(
        "    schema_info=RuntimeSchemaInfo(static_argnum={}, static_kwargkey=[{}]),\n", n, keys);
  }
  std::string text =
      "import torch\n"
      "from torch.distributed.tensor._op_schema import RuntimeSchemaInfo\n"
      "from torch.distributed.tensor._ops.single_dim_strategy import (\n"
      "    _ShardingPlaceholder,\n"
      "    register_single_dim_strategy,\n"
      ")\n"
      "from torch.distributed.tensor.placement_types import Partial, Replicate\n\n\n";
  const AtenOp aten = aten_op(discovery.op);
  if (aten.guessed)
    text +=
        "# Not known by this name and with these arguments in PyTorch: set the overload, and "
        "where its arguments stand.\n";
  text += fmt::format(
      "@register_single_dim_strategy(\n    torch.ops.aten.{},\n{}    allow_uneven_sharding=True,\n"
      ")\n",
      aten.overload, schema);
  text += fmt::format("def {}_single_dim_strategy(op, args_schema, kwargs_schema):\n",
                      identifier(discovery.op));
  text += fmt::format("    # {} combinations decided; each row below held in every test.\n",
                      discovery.combinations);
  size_t position = n;
  for (const auto& [name, value] : discovery.samples.front().sample.attrs) {
    if (is_needed(discovery, name)) {
      text += fmt::format(
          "    {0} = args_schema[{1}] if len(args_schema) > {1} else kwargs_schema.get(\"{0}\", "
          "{2})\n",
          name, position, python_default(value));
      text += from_front(discovery, name, value);
    }
    ++position;
  }
  std::vector<std::string> metas;
  for (size_t i = 0; i < n; ++i) metas.push_back(fmt::format("args_schema[{}]", i));
  text += "    rows = []\n";
  for (const DiscoveredRule& rule : discovery.rules) {
    if (rule.implied || rule.result != 0 || is_trivial(rule)) continue;
    const std::vector<ResultRow> rows = result_rows(discovery, rule);
    if (rows.empty() || !can_say(rule)) {
      text += fmt::format("    # {}\n", to_string(rule));
      continue;
    }
    std::string pad = "    ";
    if (uses_d(rule)) {
      text += fmt::format(
          "    shape = args_schema[{}].shape\n    rank = len(shape)\n    for d in range(rank):\n",
          base_operand(rule));
      pad += "    ";
    }
    for (const ResultRow& one : rows) {
      std::string inner = pad;
      if (!one.condition.empty()) {
        text += fmt::format("{}if {}:\n", pad, condition(one.condition, "args_schema[0]"));
        inner += "    ";
      }
      text += fmt::format("{}rows.append({})  # {}\n", inner,
                          row(discovery, one.results, rule, metas), rule.justification);
    }
  }
  return text + "    return rows\n";
}

std::string emit_dtensor_tests(const Discovery& discovery) {
  std::string text =
      "import pytest\n"
      "import torch\n"
      "from torch.distributed.tensor import DTensor, Partial, Replicate, Shard\n"
      "from torch.distributed.tensor.debug import CommDebugMode\n\n"
      "# (shapes and dtypes, arguments, operand placements, result placements)\n"
      "CASES = [\n";
  const bool only_degenerate =
      std::all_of(discovery.samples.begin(), discovery.samples.end(),
                  [](const SampleDecisions& s) { return is_degenerate(s.sample); });
  for (const SampleDecisions& sample : discovery.samples) {
    if (is_degenerate(sample.sample) && !only_degenerate) continue;
    text += test_cases(discovery, sample);
  }
  text += fmt::format(
      R"python(]


def make_input(shape, dtype):
    if dtype == torch.bool:
        return torch.randn(shape) > 0
    if not dtype.is_floating_point:
        return torch.randint(0, 3, shape, dtype=dtype)
    return torch.randn(shape, dtype=dtype)


def place(tensor, mesh, placement):
    """An operand on the devices, and the value that it stands for."""
    if not placement.is_partial():
        return DTensor.from_local(tensor, mesh, [Replicate()]).redistribute(mesh, [placement]), tensor
    # Equal parts; discovery has tried the others.
    value = {{"sum": tensor * mesh.size(), "product": tensor ** mesh.size()}}
    return DTensor.from_local(tensor, mesh, [placement]), value.get(placement.reduce_op, tensor)


@pytest.mark.parametrize("tensors, kwargs, placements, expected", CASES)
def test_{0}(mesh, tensors, kwargs, placements, expected):
    torch.manual_seed(0)
    operands, values = zip(*(place(make_input(*t), mesh, p) for t, p in zip(tensors, placements)))
    with CommDebugMode() as comm:
        results = torch.{1}(*operands, **kwargs)
    assert comm.get_total_counts() == 0
    true_results = torch.{1}(*values, **kwargs)
    if isinstance(results, torch.Tensor):
        results, true_results = [results], [true_results]
    assert [result.placements for result in results] == [(placement,) for placement in expected]
    for result, true_result in zip(results, true_results):
        torch.testing.assert_close(result.full_tensor(), true_result)
)python",
      identifier(discovery.op), aten_op(discovery.op).function);
  return text;
}

}  // namespace cleave
