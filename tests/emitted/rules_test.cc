// The rules that `cleave discover OP --emit cleave` wrote, compiled, against what is true of the
// operators.
#include <gtest/gtest.h>

#include "cleave/discover/library.h"
#include "cleave/discover/synthesize.h"
#include "cleave/discover/transfer.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/ops/custom_call/register_op.h"

namespace cleave {

void register_cross();
void register_softmax();
void register_sum();
void register_where();
void register_matmul();
void register_view();
void register_mul_scalar();
void register_max_with_index();

namespace {

struct Emitted {
  const char* op;
  void (*add)();
};

class EmittedRule : public testing::TestWithParam<Emitted> {};

Attribute attribute_of(const AttrValue& value) {
  if (auto* flag = std::get_if<bool>(&value)) return Attribute(*flag);
  if (auto* number = std::get_if<double>(&value))
    return FloatAttr{*number, Type::scalar(DType::F64)};
  if (auto* text = std::get_if<std::string>(&value)) return string_attr(*text);
  if (auto* whole = std::get_if<int64_t>(&value)) return int_attr(*whole);
  return DenseArrayAttr{DType::I64, std::get<std::vector<int64_t>>(value), {}};
}

TEST_P(EmittedRule, ClaimsWhatIsTrueAndAllThatFactorsCanSay) {
  GetParam().add();
  const RegisteredOpPtr registered = find_registered(GetParam().op);
  ASSERT_TRUE(registered && registered->rule && registered->partial);
  DiscoverOptions options;
  options.shrink_witnesses = false;
  const Discovery found = discover(*find_operator(GetParam().op), options);
  for (const SampleDecisions& sample : found.samples) {
    Graph graph;
    const RegionId region = graph.add_region();
    std::vector<ValueId> operands;
    for (const TensorDesc& desc : sample.sample.operands)
      operands.push_back(graph.add_argument(region, Type::tensor(desc.dtype, desc.shape), ""));
    std::vector<Type> results;
    for (const Shape& shape : sample.result_shapes)
      results.push_back(Type::tensor(DType::F64, shape));
    AttrDict attrs;
    for (const auto& [name, value] : sample.sample.attrs) attrs.set(name, attribute_of(value));
    attrs.set("call_target_name", string_attr(GetParam().op));
    const Node& node =
        graph.node(graph.add_node("stablehlo.custom_call", operands, results, attrs));
    const OpRule rule = op_rule(graph, node);
    ASSERT_TRUE(rule.to_run(node)) << "the op runs by the rule that was registered";
    const RuleDiff diff = diff_rule(*rule.execution, partial_of(graph, node), sample, found.worlds);
    for (const Decision& wrong : diff.incorrect)
      ADD_FAILURE() << to_string(sample.sample) << ": claims " << to_string(wrong.combination);
    if (is_degenerate(sample.sample)) continue;
    EXPECT_LE(diff.missing.size(), synthesize(sample).not_expressible.size())
        << to_string(sample.sample);
  }
  unregister_op(GetParam().op);
}

INSTANTIATE_TEST_SUITE_P(
    Operators, EmittedRule,
    testing::Values(Emitted{"cross", register_cross}, Emitted{"softmax", register_softmax},
                    Emitted{"sum", register_sum}, Emitted{"where", register_where},
                    Emitted{"matmul", register_matmul}, Emitted{"view", register_view},
                    Emitted{"mul_scalar", register_mul_scalar},
                    Emitted{"max_with_index", register_max_with_index}),
    [](const auto& info) { return std::string(info.param.op); });

}  // namespace
}  // namespace cleave
