// Ops of the registry by name: their local forms, attributes, and what is true of them.
#include "cleave/discover/registry_operator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/discover/certify.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/library.h"
#include "cleave/discover/mesh_check.h"
#include "cleave/discover/op_call.h"

namespace cleave {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

std::vector<std::string> rules_of(const Operator& op) {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  std::vector<std::string> rules;
  for (const DiscoveredRule& rule : discover(op, options).rules)
    if (!rule.implied) rules.push_back(to_string(rule));
  return rules;
}

std::vector<std::string> rules_of(const std::string& name) {
  return rules_of(*find_registry_operator(name));
}

TEST(RegistryOperator, DotGeneral) {
  EXPECT_THAT(rules_of("stablehlo.dot_general"),
              testing::UnorderedElementsAre("R, R -> R", "S(0), S(0) -> S(0)", "S(1), R -> S(1)",
                                            "R, S(2) -> S(2)", "S(2), S(1) -> P(sum)",
                                            "P(sum), R -> P(sum)", "R, P(sum) -> P(sum)",
                                            "P(avg), R -> P(avg)", "R, P(avg) -> P(avg)"));
}

TEST(RegistryOperator, ReducersAreAnAttribute) {
  EXPECT_THAT(
      rules_of("stablehlo.reduce"),
      IsSupersetOf({"S(d), R -> P(sum) WHEN d in dimensions and body == 'stablehlo.add'",
                    "S(d), R -> P(max) WHEN d in dimensions and body == 'stablehlo.maximum'",
                    "P(sum), R -> P(sum) WHEN body == 'stablehlo.add'"}));
}

TEST(RegistryOperator, SortAlongItsDimension) {
  EXPECT_THAT(rules_of("stablehlo.sort"),
              testing::UnorderedElementsAre("R -> R", "S(d) -> S(d) WHEN d != dimension"));
}

// The table of an embedding cut by rows: every device looks up what it has, zeros for the rest.
TEST(RegistryOperator, LookupInAShardedTableIsAMaskedPartial) {
  EXPECT_THAT(rules_of("stablehlo.gather"), Contains("S(0), R -> P(sum)"));
  EXPECT_THAT(rules_of("stablehlo.torch_index_select"),
              Contains("S(d), R -> P(sum) WHEN d == dim"));
  // A black box is not told where its part of the table begins, and looks up the wrong rows.
  EXPECT_THAT(rules_of(*find_operator("embedding")), Not(Contains(HasSubstr("S(0), R -> P"))));
}

TEST(RegistryOperator, ReshapeIsDecidedForEachNumberOfDevices) {
  const Operator op = *find_registry_operator("stablehlo.reshape");
  EXPECT_THAT(rules_of(op),
              IsSupersetOf({"S(0) -> S(0) WHEN called as (12x5 f64; result=[60])",
                            "S(0) -> S(0) WHEN called as (12x5 f64; result=[4, 3, 5]) on 2 or 4 "
                            "devices"}));
}

TEST(RegistryOperator, ComplexNumbers) {
  EXPECT_THAT(rules_of("stablehlo.fft"), IsSupersetOf({"S(0) -> S(0)", "P(sum) -> P(sum)"}));
}

TEST(RegistryOperator, OtherShapesAndAttributes) {
  Operator op = *find_registry_operator("stablehlo.concatenate");
  op.samples = {{{{DType::F64, {2, 5, 3}}, {DType::F64, {2, 4, 3}}}, {{"dimension", int64_t{1}}}}};
  EXPECT_THAT(rules_of(op), Contains("S(d), S(d) -> S(d) WHEN d != dimension"));
}

TEST(RegistryOperator, SaysWhichAttributesDoNotFit) {
  Operator op = *find_registry_operator("stablehlo.reshape");
  op.samples.front().operands[0].shape = {6, 4};
  try {
    discover(op, {});
    FAIL() << "a reshape of 24 elements to 30";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has 24 elements"));
    EXPECT_THAT(error.what(), HasSubstr("result=[6, 1, 5]"));
  }
}

TEST(RegistryOperator, UnknownAndUnsuitableNames) {
  EXPECT_FALSE(find_registry_operator("stablehlo.no_such_op"));
  EXPECT_THROW(find_registry_operator("stablehlo.all_reduce"), UserError);
}

TEST(OpCall, FlattensAttributes) {
  for (const Graph& call : registry_samples()) {
    if (call.node(called_op(call)).name() != "stablehlo.dot_general") continue;
    EXPECT_EQ(to_string(sample_of(call)),
              "3x5x4 f64, 3x4x7 f64; lhs_batching_dimensions=[0], lhs_contracting_dimensions=[2], "
              "rhs_batching_dimensions=[0], rhs_contracting_dimensions=[1]");
  }
}

MeshReport mesh_report(const Operator& op) {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  return check_mesh(op, discover(op, options), {2, 2}, options);
}

// Some of them under the sanitizers, where a decision takes ten times as long.
#ifdef __SANITIZE_ADDRESS__
const std::vector<const char*> kComposed = {"sum", "view"};
const std::vector<const char*> kComposedOps = {"stablehlo.transpose"};
#else
const std::vector<const char*> kComposed = {"add",   "matmul", "sum", "softmax",
                                            "cross", "where",  "view"};
const std::vector<const char*> kComposedOps = {"stablehlo.reduce", "stablehlo.transpose",
                                               "stablehlo.gather"};
#endif

TEST(Mesh, RulesOfTwoAxesCompose) {
  for (const char* name : kComposed) {
    const MeshReport report = mesh_report(*find_operator(name));
    EXPECT_GT(report.pairs, 20u) << name;
    EXPECT_TRUE(report.refuted.empty()) << report_mesh(report);
  }
  for (const char* name : kComposedOps) {
    const MeshReport report = mesh_report(*find_registry_operator(name));
    EXPECT_GT(report.pairs, 20u) << name;
    EXPECT_TRUE(report.refuted.empty()) << report_mesh(report);
  }
}

// A product whose operands split the contracted dimension over x and y, one with x as the major
// axis, one with y.
TEST(Mesh, OrdersThatDisagreeAreRefuted) {
  const MeshReport report = mesh_report(*find_operator("matmul"));
  EXPECT_TRUE(report.mixed_valid.empty());
  bool found = false;
  for (const MeshDecision& d : report.mixed_refuted)
    found |= to_string(d) == "[S(1), S(1)], [SS(0,2), S(0)] -> [P(sum), P(sum)]";
  EXPECT_TRUE(found) << report_mesh(report);
}

// A slice takes its part of a whole operand along x. Where y splits the operand along the same
// dimension, what x would take is not there.
TEST(Mesh, TakingAPartDoesNotCompose) {
  const MeshReport report = mesh_report(*find_registry_operator("stablehlo.slice"));
  EXPECT_THAT(report_mesh(report), HasSubstr("refuted, straight: [R, S(1)] -> [S(1), S(1)]"));
  for (const MeshDecision& d : report.refuted)
    EXPECT_TRUE(d.operands[0][0].is_replicate() || d.operands[0][1].is_replicate()) << to_string(d);
}

// Right along one axis, and wrong along two: numbers squeezed by the number of shards are no rule
// that discovery would find, so it is given by hand.
TEST(Mesh, ReportsWhatDoesNotCompose) {
  Operator op;
  op.name = "first_half";
  op.samples = {{{{DType::F64, {8}}}, {}}};
  // The identity, but for shards of two: those are turned around.
  op.run = [](const AttrMap&, std::span<const Array> x) {
    if (x[0].shape()[0] != 2) return std::vector{x[0]};
    std::vector<double> numbers = to_doubles(x[0]);
    std::swap(numbers[0], numbers[1]);
    return std::vector{from_doubles(DType::F64, {2}, numbers)};
  };
  DiscoverOptions options;
  options.worlds = {2};
  options.uneven_worlds = false;
  options.shrink_witnesses = false;
  const Discovery on_two = discover(op, options);
  const MeshReport report = check_mesh(op, on_two, {2, 2}, options);
  ASSERT_FALSE(report.refuted.empty());
  EXPECT_THAT(report_mesh(report), HasSubstr("refuted, straight: [S(0), S(0)] -> [S(0), S(0)]"));
}

}  // namespace
}  // namespace cleave
