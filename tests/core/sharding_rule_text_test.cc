#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/core/sharding_rule_text.h"

namespace cleave {
namespace {

TEST(RuleText, ShardysTextGoesInAndOut) {
  for (const char* text : {"([i, k], [k, j])->([i, j]) {i=8, j=16, k=32} reduction={k}",
                           "([ij])->([i, j]) {i=2, j=4}", "([], [])->([])",
                           "([i, j])->([i, j]) {i=2, j=4} need_replication={j} permutation={i} "
                           "blocked_propagation={i}, custom"})
    EXPECT_EQ(to_string(parse_sharding_rule(text)), text);
  EXPECT_EQ(factor_symbol(17), "z");
  EXPECT_EQ(factor_symbol(19), "z_2");
}

TEST(RuleText, BadRulesAreReported) {
  for (const char* text :
       {"([a])->([a])", "([i])->([i])", "([i])->([i]) {j=2}", "([i])->([i]) {i=2} reduction={j}",
        "([z_0])->([i]) {i=2}", "([i])->([i]) {i=2} reduction={i} permutation={i}", "("})
    EXPECT_THROW(parse_sharding_rule(text), UserError) << text;
}

TEST(RuleText, ShortNotationTakesSizesFromShapes) {
  const OpShardingRule matmul =
      parse_short_rule("b m k, b k n -> b m n", {{2, 8, 4}, {2, 4, 16}, {2, 8, 16}});
  EXPECT_EQ(to_string(parse_sharding_rule(to_string(matmul))), to_string(matmul));
  EXPECT_EQ(matmul.factors.size(), 4u);
  int reductions = 0;
  for (const Factor& factor : matmul.factors) reductions += factor.kind == FactorKind::Reduction;
  EXPECT_EQ(reductions, 1);
  const OpShardingRule split = parse_short_rule("(h d) -> h d", {{8}, {2, 4}});
  EXPECT_EQ(split.operands[0][0].size(), 2u);
  const OpShardingRule again = parse_short_rule(to_short_string(split), {{8}, {2, 4}});
  EXPECT_EQ(to_short_string(again), to_short_string(split));
  EXPECT_EQ(parse_short_rule("m k, k n -> m n {k: max}", {{2, 3}, {3, 4}, {2, 4}}).operands.size(),
            2u);
}

TEST(RuleText, ShortNotationMustFitTheShapes) {
  EXPECT_THROW(parse_short_rule("i -> i", {{2}, {3}}), UserError);
  EXPECT_THROW(parse_short_rule("(i j) -> i", {{6}, {4}}), UserError);
  EXPECT_THROW(parse_short_rule("(i j) -> k", {{6}, {4}}), UserError);
  EXPECT_THROW(parse_short_rule("i -> i", {{2}}), UserError);
}

}  // namespace
}  // namespace cleave
