#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "cleave/analyze/program_memory.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/names.h"
#include "report_samples.h"
#include "tests/plan/models.h"

// The sums that a page shows hold for every kind of program.
namespace cleave::report {
namespace {

constexpr double kRounding = 2e-5;  // six digits a row, and roundings of sums

constexpr const char* kBranches = R"(
  func.func @main(%which: tensor<i32>, %x: tensor<4096x4096xf32>, %w: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
    %0 = "stablehlo.case"(%which) ({
      %1 = stablehlo.tanh %x : tensor<4096x4096xf32>
      stablehlo.return %1 : tensor<4096x4096xf32>
    }, {
      %1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
      stablehlo.return %1 : tensor<4096x4096xf32>
    }) : (tensor<i32>) -> tensor<4096x4096xf32>
    return %0 : tensor<4096x4096xf32>
  })";

// A manual computation with a collective of its own.
constexpr const char* kManual = R"(
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func @main(%x: tensor<64x512xf32>, %w: tensor<512x256xf32>) -> tensor<64x256xf32> {
    %0 = sdy.manual_computation(%x, %w) in_shardings=[<@mesh, [{}, {"model"}]>, <@mesh, [{"model"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<64x128xf32>, %b: tensor<128x256xf32>) {
      %1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
      %2 = "stablehlo.all_reduce"(%1) <{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<64x256xf32>) -> tensor<64x256xf32>
      sdy.return %2 : tensor<64x256xf32>
    } : (tensor<64x512xf32>, tensor<512x256xf32>) -> tensor<64x256xf32>
    %1 = stablehlo.tanh %0 : tensor<64x256xf32>
    return %1 : tensor<64x256xf32>
  })";

struct Case {
  const char* name;
  std::string model;  // model:..., or the text of a module
  SampleOptions how;
};

std::vector<Case> cases() {
  const std::string gpt = "model:gpt?layers=2&step=train";
  return {
      {"gpt", gpt, {.memory = 4 << 20}},
      {"gpt_op_by_op", gpt, {.memory = 8 << 20, .op_by_op = true}},
      {"gpt_inductor", gpt, {.machine = "h100+inductor", .memory = 4 << 20}},
      {"gpt_large", "model:gpt?layers=2&d=1024&hidden=4096&length=512&step=train", {}},
      {"gpt_bf16", "model:gpt?layers=2&step=train&dtype=bf16", {.memory = 3 << 20}},
      {"gpt_bytes", gpt, {.memory = 4 << 20, .objective = plan::Objective::Bytes}},
      {"moe", "model:moe?layers=2&step=train", {.memory = 8 << 20}},
      {"resnet", "model:resnet?step=train", {.memory = 1 << 20}},
      {"loop", plan::test::loop(5, 4096, 4096), {}},
      {"loop_op_by_op", plan::test::loop(5, 4096, 4096), {.op_by_op = true}},
      {"branches", kBranches, {.mesh = "x=2"}},
      {"branches_op_by_op", kBranches, {.mesh = "x=2", .op_by_op = true}},
      {"uneven", plan::test::mlp_step(4090, 1000, 3001, 500), {.mesh = "x=4,y=2"}},
      {"three_axes", plan::test::mlp_step(4096, 2048, 8192, 2048), {.mesh = "a=2,b=2,c=2"}},
      {"sub_axes", gpt, {.mesh = "model=8", .memory = 4 << 20, .sub_axes = true}},
      {"across_nodes",
       "model:gpt?layers=2&d=1024&hidden=4096&step=train",
       {.mesh = "data=4,model=8"}},
      {"manual", kManual, {}},
  };
}

Sample sample_of(const Case& one) {
  return one.model.starts_with("model:") ? model_sample(one.model, one.how)
                                         : sample(parse_module(one.model), one.how);
}

class Sums : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    sample_ = sample_of(GetParam());
    report_ = sample_.report();
    totals_ = report_["totals"];
  }
  void expect_near(double a, double b, const char* what) const {
    EXPECT_NEAR(a, b, kRounding * std::max({std::abs(a), std::abs(b), 1e-12})) << what;
  }
  std::string text(const json& index) const { return text_no(report_, index); }

  void groups_are_the_step() const;
  void changes_are_the_collectives() const;
  void events_are_the_schedule() const;
  void buffers_are_what_is_held() const;
  void indices_are_in_range() const;

  Sample sample_;
  json report_, totals_;
};

void Sums::groups_are_the_step() const {
  EXPECT_GT(totals_["seconds"], 0);
  expect_near(sum_of(report_["groups"], "seconds"), totals_["seconds"], "groups");
  expect_near(sum_of(report_["classes"], "seconds") + sum_of(totals_["collectives"], "seconds"),
              totals_["seconds"], "classes and collectives");
  // Every row that takes time has a group, whose seconds are those of its rows.
  std::vector<double> seconds(report_["groups"].size());
  for (const char* table : {"ops", "changes"}) {
    const json& rows = report_[table];
    for (size_t i = 0; i < rows["group"].size(); ++i) {
      const double takes = rows["seconds"][i].get<double>() * rows["times"][i].get<double>();
      const int group = rows["group"][i];
      if (rows["seconds"][i].get<double>() > 0)
        seconds.at(static_cast<size_t>(group)) += takes;
      else
        EXPECT_EQ(group, -1);
    }
  }
  for (size_t g = 0; g < seconds.size(); ++g) {
    const json& group = report_["groups"][g];
    if (group["what"].get<std::string>().starts_with("write and read")) continue;
    expect_near(seconds[g], group["seconds"], group["what"].get<std::string>().c_str());
  }
}

void Sums::changes_are_the_collectives() const {
  struct Sum {
    double count = 0, bytes = 0, seconds = 0;
  };
  std::map<std::string, Sum> sums;
  const json& rows = report_["changes"];
  for (size_t i = 0; i < rows["kind"].size(); ++i) {
    Sum& sum = sums[text(rows["kind"][i]) + " " + text(rows["axes"][i])];
    const double times = rows["times"][i];
    sum.count += times;
    sum.bytes += times * rows["bytes"][i].get<double>();
    sum.seconds += times * rows["seconds"][i].get<double>();
  }
  for (const json& total : totals_["collectives"]) {
    const std::string name =
        total["kind"].get<std::string>() + " " + total["axes"].get<std::string>();
    expect_near(sums[name].seconds, total["seconds"], name.c_str());
    expect_near(sums[name].bytes, total["bytes"], name.c_str());
    if (total["seconds"].get<double>() > 0) {
      EXPECT_EQ(sums[name].count, total["count"]) << name;
    }
  }
  double seconds = 0;
  for (const auto& [name, sum] : sums) seconds += sum.seconds;
  expect_near(seconds, sum_of(totals_["collectives"], "seconds"), "all changes");
}

void Sums::events_are_the_schedule() const {
  const json& schedule = report_["schedule"];
  const json& events = schedule["events"];
  expect_near(sum_of(events, "exposed", "executions"), schedule["exposed"], "exposed");
  expect_near(schedule["exposed"], totals_["exposed"], "exposed of the plan");
  expect_near(schedule["slowed"], totals_["slowed"], "slowed");
  if (sample_.profile.executor.overlaps)
    expect_near(schedule["seconds"], totals_["step"], "the step");
  std::vector<double> busy(3);
  double aside = 0;  // what PyTorch's executors compute on the stream of a gather, for it alone
  for (size_t i = 0; i < events["stream"].size(); ++i) {
    const double seconds =
        events["length"][i].get<double>() * events["executions"][i].get<double>();
    const int stream = events["stream"][i], op = events["op"][i], change = events["change"][i];
    busy.at(static_cast<size_t>(stream)) += seconds;
    if (stream > 0 && op >= 0) aside += seconds;
    EXPECT_TRUE((op >= 0) != (change >= 0))
        << "event " << i << ": op " << op << ", change " << change;
  }
  for (size_t s = 0; s < busy.size(); ++s) expect_near(busy[s], schedule["busy"][s], "a stream");
  const json& changes = report_["changes"];
  double exposed = 0, hidden = 0;
  for (size_t i = 0; i < changes["kind"].size(); ++i) {
    exposed += changes["exposed"][i].get<double>();
    hidden += changes["hidden"][i].get<double>();
  }
  expect_near(exposed + hidden + aside, totals_["communication"], "exposed and hidden");
}

void Sums::buffers_are_what_is_held() const {
  const json& memory = report_["memory"];
  const size_t steps = memory["steps"];
  ASSERT_GT(steps, 0u);
  for (const char* column : {"step_op", "step_change", "held", "inside"})
    ASSERT_EQ(memory[column].size(), steps) << column;
  std::vector<int64_t> change(steps + 1);
  const json& buffers = memory["buffers"];
  for (size_t i = 0; i < buffers["bytes"].size(); ++i) {
    const int64_t first = buffers["first"][i], last = buffers["last"][i];
    ASSERT_LE(first, last);
    ASSERT_LT(last, static_cast<int64_t>(steps));
    EXPECT_GT(buffers["bytes"][i], 0);
    EXPECT_NE(text(buffers["label"][i]), "");
    change[static_cast<size_t>(first)] += buffers["bytes"][i].get<int64_t>();
    change[static_cast<size_t>(last) + 1] -= buffers["bytes"][i].get<int64_t>();
  }
  int64_t live = 0, peak = 0;
  for (size_t s = 0; s < steps; ++s) {
    live += change[s];
    const int64_t inside = memory["inside"][s];
    EXPECT_GE(inside, 0) << "step " << s;
    EXPECT_EQ(live + inside, memory["held"][s]) << "step " << s;
    peak = std::max(peak, memory["held"][s].get<int64_t>());
  }
  EXPECT_EQ(memory["program_peak"], peak);
  EXPECT_EQ(memory["held"][memory["program_peak_step"].get<size_t>()], peak);
  const MachineProfile shared = shared_by(sample_.profile, sample_.plan.mesh->num_devices());
  const Graph flat = plan::flatten(sample_.graph, sample_.plan.entry, shared);
  const Program program = plan::partition_planned(plan::bind(sample_.plan, flat), shared);
  EXPECT_EQ(peak, analyze::program_memory(program).peak);
}

// Every index leads somewhere, and columns are of one length.
void Sums::indices_are_in_range() const {
  auto in_range = [&](const json& index, size_t size, const char* what) {
    EXPECT_GE(index.get<int64_t>(), -1) << what;
    EXPECT_LT(index.get<int64_t>(), static_cast<int64_t>(size)) << what;
  };
  const size_t ops = report_["ops"]["name"].size(), specs = report_["specs"].size(),
               types = report_["types"].size(), blocks = report_["blocks"].size();
  EXPECT_EQ(ops, sample_.plan.ops.size());
  for (const char* table : {"ops", "changes", "args"})
    for (const auto& [name, column] : report_[table].items())
      EXPECT_EQ(column.size(), report_[table].begin()->size()) << table << " " << name;
  for (size_t i = 0; i < ops; ++i) {
    const json& rows = report_["ops"];
    in_range(rows["type"][i], types, "type");
    EXPECT_GE(rows["block"][i], 0);
    in_range(rows["block"][i], blocks, "block");
    in_range(rows["alternatives"][i], report_["ways"].size(), "ways");
    for (const char* side : {"in", "out"})
      for (const json& spec : rows[side][i]) in_range(spec, specs, side);
    for (const json& source : rows["operands"][i]) {
      const int64_t from = source.is_array() ? source[0].get<int64_t>() : source.get<int64_t>();
      EXPECT_LT(from, static_cast<int64_t>(ops));
      EXPECT_GE(from, -static_cast<int64_t>(report_["args"]["name"].size()));
    }
  }
  for (size_t i = 0; i < report_["changes"]["kind"].size(); ++i) {
    in_range(report_["changes"]["op"][i], ops, "op of a change");
    in_range(report_["changes"]["from"][i], specs, "from");
    in_range(report_["changes"]["to"][i], specs, "to");
    EXPECT_NE(text(report_["changes"]["reason"][i]), "");
  }
  for (const json& ways : report_["ways"]) {
    EXPECT_LE(ways["list"].size(), 12u);
    EXPECT_LE(ways["list"].size(), ways["count"].get<size_t>());
    EXPECT_EQ(std::count_if(ways["list"].begin(), ways["list"].end(),
                            [](const json& way) { return way["chosen"] == 1; }),
              1);
  }
}

// One test for each plan, since it is the plan that takes long.
TEST_P(Sums, Hold) {
  groups_are_the_step();
  changes_are_the_collectives();
  events_are_the_schedule();
  buffers_are_what_is_held();
  indices_are_in_range();
}

INSTANTIATE_TEST_SUITE_P(Plans, Sums, testing::ValuesIn(cases()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Report, IsTheSameEveryTime) {
  const Sample gpt = model_sample("model:gpt?layers=2&step=train", {.memory = 4 << 20});
  EXPECT_EQ(gpt.report(), gpt.report());
}

}  // namespace
}  // namespace cleave::report
