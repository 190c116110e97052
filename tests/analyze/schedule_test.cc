#include "cleave/analyze/schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cleave/graph/text/text.h"
#include "cleave/spmd/partition.h"

namespace cleave::analyze {
namespace {

// Two products whose weights are split over "x", and gathered.
std::string gathered_weights(int64_t batch, int64_t width, int64_t trips = 0) {
  const std::string x = fmt::format("tensor<{}x{}xbf16>", batch, width);
  const std::string w = fmt::format("tensor<{0}x{0}xbf16>", width);
  const std::string rows = R"({sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})";
  std::string text = fmt::format(
      "sdy.mesh @mesh = <[\"x\"=8]>\nfunc.func @main(%x: {0} {2}, %a: {1} {2}, %b: {1} {2}) -> "
      "({0} "
      "{2}) {{\n",
      x, w, rows);
  const std::string products = fmt::format(
      "  %g = sdy.sharding_constraint %a <@mesh, [{{}}, {{}}]> : {1}\n"
      "  %h = sdy.sharding_constraint %b <@mesh, [{{}}, {{}}]> : {1}\n"
      "  %y = stablehlo.dot %v, %g : ({0}, {1}) -> {0}\n"
      "  %z = stablehlo.dot %y, %h : ({0}, {1}) -> {0}\n",
      x, w);
  if (trips == 0) {
    std::string body = products;
    body.replace(body.find("%v"), 2, "%x");
    return text + body + fmt::format("  return %z : {}\n}}\n", x);
  }
  return text +
         fmt::format(
             "  %zero = stablehlo.constant dense<0> : tensor<i32>\n"
             "  %limit = stablehlo.constant dense<{}> : tensor<i32>\n"
             "  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, {}\n  cond {{\n"
             "  %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
             "  stablehlo.return %c : tensor<i1>\n  }} do {{\n",
             trips, x) +
         products +
         fmt::format(
             "  %one = stablehlo.constant dense<1> : tensor<i32>\n"
             "  %j = stablehlo.add %i, %one : tensor<i32>\n"
             "  stablehlo.return %j, %z : tensor<i32>, {0}\n  }}\n  return %r#1 : {0}\n}}\n",
             x);
}

Program program_of(const std::string& text) {
  return partition(parse_module(text), {.entry = "main"});
}

// A gather takes g, a product p: the first gather is exposed, and the second runs under the first
// product as far as that is long enough.
TEST(Schedule, TheSecondGatherRunsUnderTheFirstProduct) {
  const MachineProfile& h100 = builtin_profile("h100");
  for (const int64_t batch : {1024, 1 << 17}) {
    const Program program = program_of(gathered_weights(batch, 4096));
    const ProgramCost cost = program_cost(program, h100);
    ASSERT_EQ(cost.transfers.size(), 1u);
    ASSERT_EQ(cost.transfers[0].executions, 2);
    const double g = cost.transfers[0].seconds / 2, all = cost.compute_seconds;
    const Schedule laid = schedule(program, h100);
    // Both are small enough to run as one at 32 MiB each? The limit is 30 MiB: they run apart.
    const double p = laid.events[1].end - laid.events[1].start;
    EXPECT_NEAR(laid.communication(), 2 * g, 1e-9 * g);
    if (batch > 1024) {
      EXPECT_NEAR(laid.exposed, g, 1e-9 * g);
      // The product is slower while the second weight is gathered.
      const double slowdown = h100.executor.overlap_slowdown;
      EXPECT_NEAR(laid.slowed, g * slowdown / (1 + slowdown), 1e-9 * g);
      EXPECT_NEAR(laid.seconds, g + all + laid.slowed, 1e-9 * all);
    } else {
      EXPECT_GT(laid.exposed, g * 1.2);
      EXPECT_LT(laid.exposed, 2 * g);
    }
    EXPECT_GT(p, 0);
    EXPECT_LE(laid.seconds, cost.seconds * (1 + 1e-12));
    EXPECT_NEAR(laid.hidden() + laid.exposed, laid.communication(), 1e-15);
  }
}

TEST(Schedule, IsTheProgramsCostIfNothingOverlaps) {
  MachineProfile machine = builtin_profile("h100");
  machine.executor.overlaps = false;
  for (const int64_t trips : {0, 5}) {
    const Program program = program_of(gathered_weights(4096, 4096, trips));
    const ProgramCost cost = program_cost(program, machine);
    const Schedule laid = schedule(program, cost, machine);
    EXPECT_NEAR(laid.seconds, cost.seconds, 1e-12 * cost.seconds);
    EXPECT_NEAR(laid.communication(), cost.transfer_seconds, 1e-12 * cost.seconds);
    EXPECT_EQ(laid.exposed, laid.communication());
  }
}

TEST(Schedule, TripsOverlapWithinThemselves) {
  const MachineProfile& h100 = builtin_profile("h100");
  const Schedule one = schedule(program_of(gathered_weights(8192, 4096, 1)), h100);
  const Schedule five = schedule(program_of(gathered_weights(8192, 4096, 5)), h100);
  EXPECT_NEAR(five.exposed, 5 * one.exposed, 1e-9 * five.exposed);
  EXPECT_GT(five.exposed, 0);
  EXPECT_EQ(five.events.size(), one.events.size());
  EXPECT_FALSE(five.more_trips.empty());
}

TEST(Schedule, NodesAreAStreamOfTheirOwn) {
  // 16 devices along "x" are two nodes of 8.
  std::string text = gathered_weights(8192, 4096);
  text.replace(text.find("\"x\"=8"), 5, "\"x\"=16");
  const Schedule laid = schedule(program_of(text), builtin_profile("h100"));
  EXPECT_GT(laid.busy[static_cast<size_t>(Stream::Across)], 0);
  EXPECT_EQ(laid.busy[static_cast<size_t>(Stream::Inside)], 0);
}

// Hybrid sharding: what is left of a layer's gradients after they were scattered over the devices
// of a node is summed over the nodes at once; gradients that are only summed go in buckets of 25
// MiB.
TEST(Schedule, WhatWasScatteredIsSummedAtOnce) {
  const Program program = program_of(
      "sdy.mesh @mesh = <[\"r\"=4, \"s\"=8]>\nfunc.func @main(%a: tensor<f32>) -> tensor<f32> {\n"
      "  return %a : tensor<f32>\n}");
  MachineProfile machine = builtin_profile("h100");
  machine.executor = builtin_executor("eager");
  Work work;
  CollectiveTasks tasks(program.mesh, machine, work);
  const AxisList nodes = {whole_axis(*program.mesh, "r")};
  constexpr double kMiB = 1024 * 1024;
  auto limit = [&](double scattered) {
    const double seconds =
        collective_cost(CollectiveKind::AllReduce, *program.mesh, nodes, machine).seconds(kMiB);
    const Task task = tasks.task("all_reduce", nodes, seconds, kMiB, kMiB, scattered);
    return task.like < 0 ? 0 : work.like[static_cast<size_t>(task.like)].limit / kMiB;
  };
  EXPECT_EQ(limit(1), 25);
  EXPECT_EQ(limit(8), 64);  // of 512 MiB that were scattered
}

TEST(Schedule, TimelineHasATrackForEachStream) {
  const Program program = program_of(gathered_weights(8192, 4096, 5));
  const Schedule laid = schedule(program, builtin_profile("h100"));
  const nlohmann::json trace = nlohmann::json::parse(timeline(laid, program));
  std::vector<std::string> tracks, names;
  for (const auto& event : trace["traceEvents"])
    (event["ph"] == "M" ? tracks : names)
        .push_back(event["ph"] == "M" ? event["args"]["name"] : event["name"]);
  EXPECT_EQ(tracks, (std::vector<std::string>{"compute", "inside a node", "across nodes"}));
  EXPECT_THAT(names, testing::Contains("cleave.all_gather"));
  EXPECT_THAT(names, testing::Contains("stablehlo.dot"));
  EXPECT_THAT(names, testing::Contains("4 more trips"));
  EXPECT_THAT(to_string(laid), testing::HasSubstr("exposed"));
}

}  // namespace
}  // namespace cleave::analyze
