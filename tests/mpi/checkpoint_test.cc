// Checkpoints of several ranks: each writes its own part, and all read what they need. Run by
// several ranks at once, as ranks_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "cleave/runtime/world.h"
#include "cleave/tensors.h"
#include "cleave/train.h"
#include "tests/mpi/rank_inputs.h"
#include "tests/support/error_of.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Params = std::map<std::string, Tensor>;

// A folder that all ranks know; rank 0 makes and removes it.
class CommonFolder {
 public:
  CommonFolder() {
    std::string name = (fs::temp_directory_path() / "cleave_ranks_XXXXXX").string();
    if (World::of_process()->rank() == 0) name = mkdtemp(name.data());
    const Array own =
        Array::from_bytes(DType::U8, {static_cast<int64_t>(name.size())}, name.data());
    const Array first = World::of_process()->gather({own}, "a folder")[0][0].contiguous();
    path_ = std::string(first.data<char>(), first.num_bytes());
  }
  ~CommonFolder() {
    meet();
    if (World::of_process()->rank() == 0) fs::remove_all(path_);
  }
  static void meet() { World::of_process()->gather({Array::zeros(DType::U8, {1})}, "a meeting"); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Params values() {
  return {{"w", randn({9, 8}, 1)},
          {"half", cast(randn({16, 3}, 2), DType::BF16)},
          {"step", scalar(5, DType::I32)}};
}

Params placed(Params params, const Mesh& mesh, bool other = false) {
  const std::string axis = mesh.axes[0].name, last = mesh.axes.back().name;
  params["w"] = params["w"].shard(mesh, other || axis == last ? P({}, last) : P(axis, last));
  params["half"] = params["half"].shard(mesh, other ? P() : P(axis));
  return params;
}

void expect_values(const Params& actual) {
  for (const auto& [name, value] : values())
    EXPECT_TRUE(identical(actual.at(name).to_host(), value.to_host())) << name;
}

// Of different parts, on the devices of this rank.
int64_t bytes_held(const Params& params) {
  int64_t bytes = 0;
  for (const auto& [name, value] : params) {
    std::vector<ShardSlice> parts;
    for (const TensorShard& shard : value.addressable_shards()) {
      if (std::find(parts.begin(), parts.end(), shard.index) != parts.end()) continue;
      parts.push_back(shard.index);
      bytes += static_cast<int64_t>(shard.data.num_bytes());
    }
  }
  return bytes;
}

TEST(Ranks, SaveTheirOwnShardsAndLoadAnyLayout) {
  const World& world = *World::of_process();
  for (const std::string& text : testing_ranks::meshes()) {
    const CommonFolder folder;
    const Mesh mesh = parse_mesh(text);
    const Checkpoints checkpoints(folder.path(), {.keep = 1});
    checkpoints.save(1, placed(values(), mesh), {{"epoch", 3}});
    checkpoints.save(2, placed(values(), mesh), {{"epoch", 4}});
    EXPECT_EQ(checkpoints.steps(), std::vector<int64_t>{2});
    EXPECT_EQ(integer_of(checkpoints.values(), "epoch"), 4);
    // Every element once, over all files.
    uint64_t bytes = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      const SafetensorsFile file(folder.path() / "step_000002" /
                                 fmt::format("rank_{:05}.safetensors", rank));
      for (const auto& [name, tensor] : file.tensors()) bytes += tensor.end - tensor.begin;
    }
    EXPECT_EQ(bytes, 9u * 8 * 4 + 16 * 3 * 2 + 4) << text;
    for (const bool other : {false, true}) {
      LoadReport report;
      const Params loaded =
          checkpoints.load(placed(values(), mesh, other), std::nullopt, {}, &report);
      expect_values(loaded);
      EXPECT_EQ(report.bytes, bytes_held(loaded)) << text;
    }
    expect_values(checkpoints.load(values()));
    CommonFolder::meet();
  }
}

TEST(Ranks, WholeFilesAreWrittenOnce) {
  const CommonFolder folder;
  const Mesh mesh = parse_mesh(testing_ranks::meshes()[0]);
  save_safetensors(folder.path() / "a.safetensors", placed(values(), mesh));
  expect_values(load_safetensors(folder.path() / "a.safetensors", placed(values(), mesh, true)));
}

// A folder that one rank cannot write to fails on all of them, and the old checkpoint stays.
TEST(Ranks, AFailureOfOneIsAnErrorOfAll) {
  const World& world = *World::of_process();
  const CommonFolder folder;
  const Mesh mesh = parse_mesh(testing_ranks::meshes()[0]);
  const Checkpoints checkpoints(folder.path());
  checkpoints.save(1, placed(values(), mesh));
  const int last = world.size() - 1;
  const fs::path missing = fmt::format("{}/rank_{}", folder.path().string(), last);
  const auto path = world.rank() == last ? missing : folder.path() / "step_000001";
  EXPECT_THAT(error_of([&] { load_safetensors(path, placed(values(), mesh)); }),
              HasSubstr(fmt::format("rank {}: cannot read '{}'", last, missing.string())));
  expect_values(checkpoints.load(placed(values(), mesh)));
}

// The norm of gradients over ranks, and a step: as on one device.
TEST(Ranks, StepAsOneDeviceDoes) {
  const Mesh mesh = parse_mesh(testing_ranks::meshes()[0]);
  const Params params{{"w", randn({8, 8}, 1)}}, grads{{"w", randn({8, 8}, 2)}};
  const std::string axis = mesh.axes[0].name;
  auto on_mesh = [&](const Params& p) {
    return map_leaves([&](const Tensor& t) { return t.shard(mesh, P(axis)); }, p);
  };
  const Optimizer opt = chain({clip_by_global_norm(1), adamw(0.1)});
  const auto expected = opt.step(params, grads, opt.init(params)).first;
  const Params there = on_mesh(params);
  const auto actual = opt.step(there, on_mesh(grads), opt.init(there)).first;
  const Tensor error = max(abs(Tensor::from(actual.at("w").to_host()) - expected.at("w")));
  EXPECT_LT(error.item(), 1e-6);
}

}  // namespace
}  // namespace cleave::train
