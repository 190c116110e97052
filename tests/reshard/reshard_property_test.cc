#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "../support/random_specs.h"
#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/reshard/reshard.h"
#include "tests/reshard/simulate.h"

namespace cleave {
namespace {

std::vector<int64_t> values_for(const Shape& shape, const ShardingSpec& from,
                                const ShardingSpec& to) {
  std::vector<int64_t> values(num_elements(shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i) * 7 % 1009;
  auto logical = [](const ShardingSpec& spec) {
    return spec.is_partial() &&
           (spec.partial_op == ReduceOp::And || spec.partial_op == ReduceOp::Or);
  };
  if (logical(from) || logical(to))
    for (int64_t& value : values) value %= 2;
  return values;
}

void check_reshard(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                   const MachineProfile& profile) {
  RC_LOG() << to_string_with_mesh(from) << "\n  -> " << to_string_with_mesh(to) << "\n  of <"
           << to_string(shape) << ">\n";
  Resharder resharder(profile);
  const ReshardPlan plan = resharder.plan(from, to, shape, DType::F32);
  for (const ReshardStep& step : plan.steps) RC_LOG() << to_string(step) << "\n";

  const std::vector<int64_t> values = values_for(shape, from, to);
  const SimulatedTensor start = distribute(values, from, shape, 17);
  RC_ASSERT(collect(start) == values);
  const SimulatedTensor end = simulate(start, plan);
  RC_ASSERT(collect(end) == values);
  RC_ASSERT(end.spec.same_layout(to));

  double seconds = 0;
  ShardingSpec before = from;
  for (const ReshardStep& step : plan.steps) {
    RC_ASSERT(step.seconds >= 0);
    RC_ASSERT(step.bytes >= 0);
    seconds += step.seconds;
    if (!step.after.mesh->is_maximal()) verify(step.after, shape);
    before = step.after;
  }
  RC_ASSERT(std::abs(seconds - plan.seconds) < 1e-12);
  RC_ASSERT(std::abs(resharder.seconds(from, to, shape, DType::F32) - plan.seconds) < 1e-9);
}

RC_GTEST_PROP(Reshard, PutsEveryElementWhereTheTargetSays, ()) {
  const MeshPtr mesh = random::mesh();
  const Shape shape = random::shape();
  check_reshard(random::spec(mesh, shape), random::spec(mesh, shape), shape, default_profile());
}

// Large enough that bandwidth counts, so that permutes, all_to_alls and scatters are chosen.
RC_GTEST_PROP(Reshard, PutsEveryElementWhereTheTargetSaysWhenBytesCount, ()) {
  MachineProfile slow = default_profile();
  for (auto& protocols : slow.collectives)
    for (CollectiveProtocol& protocol : protocols) protocol.inside_gbps = 1e-6;
  slow.devices_per_node = 64;
  const MeshPtr mesh = random::mesh();
  const Shape shape = random::shape(3, 24);
  check_reshard(random::spec(mesh, shape), random::spec(mesh, shape), shape, slow);
}

RC_GTEST_PROP(Reshard, AcrossMeshesAndDeviceOrders, ()) {
  const MeshPtr a = random::mesh({3, 12, true});
  MeshPtr b = random::mesh({3, 12, true});
  if (a->num_devices() != b->num_devices()) {
    Mesh flat({{"f", a->num_devices()}}, {});
    b = std::make_shared<Mesh>(flat);
  }
  const Shape shape = random::shape(2);
  check_reshard(random::spec(a, shape), random::spec(b, shape), shape, default_profile());
}

RC_GTEST_PROP(Reshard, FromAndToASingleDevice, ()) {
  const MeshPtr mesh = random::mesh({3, 12, true});
  const MeshPtr single = std::make_shared<Mesh>(
      std::vector<MeshAxis>{}, std::vector<int64_t>{*rc::gen::inRange<int64_t>(0, 14)});
  const Shape shape = random::shape();
  const ShardingSpec one = ShardingSpec::closed_replicated(single, 0);
  check_reshard(one, random::spec(mesh, shape), shape, default_profile());
  check_reshard(random::spec(mesh, shape), one, shape, default_profile());
}

RC_GTEST_PROP(Reshard, StaysWithinMemory, ()) {
  const MeshPtr mesh = random::mesh();
  const Shape shape = random::shape(2, 24);
  const ShardingSpec from = random::spec(mesh, shape), to = random::spec(mesh, shape);
  const ReshardPlan free = plan_reshard(from, to, shape, DType::F32, default_profile());
  RC_PRE(!free.steps.empty());
  ReshardOptions options;
  options.memory = free.peak_bytes - 1;
  try {
    const ReshardPlan tight = plan_reshard(from, to, shape, DType::F32, default_profile(), options);
    RC_LOG() << to_string_with_mesh(from) << " -> " << to_string(to) << " <" << to_string(shape)
             << "> within " << *options.memory << "\n";
    for (const ReshardStep& step : free.steps)
      RC_LOG() << "  free " << to_string(step) << " " << step.seconds << "\n";
    for (const ReshardStep& step : tight.steps)
      RC_LOG() << "  tight " << to_string(step) << " " << step.seconds << "\n";
    RC_ASSERT(tight.peak_bytes <= *options.memory);
    RC_ASSERT(tight.seconds >= free.seconds - 1e-10);
    const std::vector<int64_t> values = values_for(shape, from, to);
    RC_ASSERT(collect(simulate(distribute(values, from, shape), tight)) == values);
  } catch (const UserError&) {
  }
  options.memory = free.peak_bytes;
  const ReshardPlan same = plan_reshard(from, to, shape, DType::F32, default_profile(), options);
  RC_LOG() << to_string_with_mesh(from) << " -> " << to_string(to) << " <" << to_string(shape)
           << "> within " << *options.memory << "\n";
  for (const ReshardStep& step : free.steps) RC_LOG() << "  free " << to_string(step) << "\n";
  for (const ReshardStep& step : same.steps) RC_LOG() << "  same " << to_string(step) << "\n";
  RC_ASSERT(same.seconds <= free.seconds + 1e-10);
}

// What the direct way costs, by what a detour through a third layout costs.
double direct_by_detour() {
  const MeshPtr mesh = random::mesh({4, 16});
  const int64_t scale = *rc::gen::element<int64_t>(1, 32);
  const Shape shape = {48 * scale, 96 * scale};
  MachineProfile profile = builtin_profile(*rc::gen::elementOf(builtin_profile_names()));
  profile.devices_per_node = *rc::gen::element<int64_t>(2, 4, 16);
  Resharder resharder(profile);
  const random::SpecLimits limits{false, false};
  const ShardingSpec a = random::spec(mesh, shape, limits), b = random::spec(mesh, shape, limits),
                     c = random::spec(mesh, shape, limits);
  auto seconds = [&](const ShardingSpec& from, const ShardingSpec& to) {
    return resharder.seconds(from, to, shape, DType::F32);
  };
  const double direct = seconds(a, c);
  return direct > 0 ? direct / (seconds(a, b) + seconds(b, c)) : 0;
}

// The search of one pair is limited (steps, cuts, spare axes): one detour in thousands is cheaper.
TEST(Reshard, ObeysTheTriangleInequalityButForOneInThousands) {
  const rc::Gen<double> ratios = rc::gen::exec(direct_by_detour);
  int cheaper = 0, much_cheaper = 0;
  for (uint64_t seed = 0; seed < 10000; ++seed) {
    const double ratio = ratios(rc::Random(seed), 100).value();
    cheaper += ratio > 1 + 1e-9;
    much_cheaper += ratio > 1.05;
  }
  EXPECT_LE(cheaper, 6);
  EXPECT_LE(much_cheaper, 3);
}

RC_GTEST_PROP(Reshard, IsDeterministic, ()) {
  const MeshPtr mesh = random::mesh();
  const Shape shape = random::shape();
  const ShardingSpec from = random::spec(mesh, shape), to = random::spec(mesh, shape);
  Resharder used(default_profile());
  used.plan(to, from, shape, DType::F32);
  const ReshardPlan a = used.plan(from, to, shape, DType::F32);
  const ReshardPlan b = plan_reshard(from, to, shape, DType::F32, default_profile());
  RC_ASSERT(a.steps.size() == b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i)
    RC_ASSERT(to_string(a.steps[i]) == to_string(b.steps[i]));
}

}  // namespace
}  // namespace cleave
