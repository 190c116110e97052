#include "cleave/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "cleave/cleave.h"
#include "cleave/models/transformer.h"
#include "cleave/train/optimizers.h"
#include "tests/support/error_of.h"

// Trees in files and folders. The format itself is checked against the Python package by
// tests/reference/test_safetensors.py.
namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using Params = std::map<std::string, Tensor>;

class Checkpoint : public testing::Test {
 protected:
  Checkpoint() {
    std::string name = (fs::temp_directory_path() / "cleave_train_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Checkpoint() override { fs::remove_all(folder_); }

  fs::path folder_;
};

void expect_same(const Params& actual, const Params& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, value] : expected)
    EXPECT_TRUE(identical(actual.at(name).to_host(), value.to_host())) << name;
}

Params like(const Params& params) {
  return map_leaves([](const Tensor& t) { return zeros_like(t); }, params);
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_F(Checkpoint, WholeFilesComeBack) {
  const Params params{{"w", randn({3, 4}, 1)},
                      {"half", cast(randn({5}, 2), DType::BF16)},
                      {"step", scalar(7, DType::I32)},
                      {"key", random_key(3)},
                      {"mask", greater(randn({4}, 4), 0.0)},
                      {"f8", cast(randn({6}, 5), DType::F8E4M3FN)}};
  save_safetensors(folder_ / "a.safetensors", params);
  expect_same(load_safetensors(folder_ / "a.safetensors", like(params)), params);
}

TEST_F(Checkpoint, LoadsOnAnyLayoutAndReadsOnlyItsPart) {
  const Params params{{"w", randn({16, 8}, 1)}, {"b", randn({9}, 2)}, {"n", scalar(1, DType::F32)}};
  save_safetensors(folder_ / "a.safetensors", params);
  const Mesh mesh{{"x", 2}, {"y", 4}};
  Params target = like(params);
  target["w"] = target["w"].shard(mesh, P("y", "x"));
  target["b"] = target["b"].shard(mesh, P("y"));  // uneven
  target["n"] = target["n"].shard(mesh, P());
  LoadReport report;
  const Params loaded = load_safetensors(folder_ / "a.safetensors", target, {}, &report);
  expect_same(loaded, params);
  EXPECT_EQ(to_string(loaded.at("w").sharding()), R"([{"y"}, {"x"}])");
  EXPECT_EQ(report.bytes, 4 * (16 * 8 + 9 + 1));  // each part once, whatever the replicas
}

TEST_F(Checkpoint, FoldersAreShardedWithoutReplicas) {
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const Params params{{"w", randn({8, 6}, 1).shard(mesh, P("x", "y"))},
                      {"v", randn({7}, 2).shard(mesh, P("y"))},
                      {"r", randn({5}, 3).shard(mesh, P())},
                      {"n", scalar(3, DType::I32)}};
  const Checkpoints checkpoints(folder_ / "run");
  EXPECT_FALSE(checkpoints.latest());
  checkpoints.save(12, params, {{"epoch", 2}, {"rate", 0.5}, {"data", "a.bin"}, {"done", false}});
  EXPECT_EQ(checkpoints.latest(), 12);
  EXPECT_EQ(read_text(folder_ / "run/latest"), "step_000012\n");
  const SafetensorsFile file(folder_ / "run/step_000012/rank_00000.safetensors");
  std::vector<std::string> keys;
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    keys.push_back(name);
    bytes += tensor.end - tensor.begin;
  }
  EXPECT_THAT(keys, ElementsAre("n", "r", "v@0", "v@4", "w@0,0", "w@0,3", "w@4,0", "w@4,3"));
  EXPECT_EQ(bytes, 4u * (8 * 6 + 7 + 5 + 1));
  const PlainValues values = checkpoints.values();
  EXPECT_EQ(integer_of(values, "epoch"), 2);
  EXPECT_EQ(number_of(values, "rate"), 0.5);
  EXPECT_EQ(number_of(values, "epoch"), 2);
  EXPECT_EQ(text_of(values, "data"), "a.bin");
  EXPECT_EQ(std::get<bool>(values.at("done")), false);
  EXPECT_THAT(error_of([&] { integer_of(values, "rate"); }), HasSubstr("'rate'"));
  expect_same(checkpoints.load(like(params)), params);
}

TEST_F(Checkpoint, MovesBetweenMeshes) {
  const Mesh first{{"x", 4}}, second{{"a", 2}, {"b", 3}};
  const Params params{{"w", randn({10, 9}, 1).shard(first, P("x"))},
                      {"v", randn({10, 9}, 2).shard(first, P({}, "x"))}};
  const Checkpoints checkpoints(folder_);
  checkpoints.save(0, params);
  for (const PartitionSpec& spec : {P("a", "b"), P("b", "a"), P({}, {"a", "b"}), P()}) {
    Params target = like(params);
    for (auto& [name, value] : target) value = zeros({10, 9}).shard(second, spec);
    expect_same(checkpoints.load(target), params);
  }
  Params alone{{"w", zeros({10, 9})}, {"v", zeros({10, 9})}};
  expect_same(checkpoints.load(alone), params);
}

TEST_F(Checkpoint, PendingSumsAreCompleted) {
  const Mesh mesh{{"x", 2}};
  const Tensor w = randn({8, 4}, 1).shard(mesh, P("x"));
  const Params params{{"s", sum(w, {0})}};
  ASSERT_TRUE(params.at("s").sharding().is_partial());
  const Checkpoints checkpoints(folder_);
  checkpoints.save(1, params);
  const Params loaded = checkpoints.load(Params{{"s", zeros({4})}});
  EXPECT_TRUE(identical(loaded.at("s").to_host(), params.at("s").to_host()));
}

struct Training {
  Params params;
  OptState opt;
  Tensor step;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("params", params);
    v("opt", opt);
    v("step", step);
  }
};

// Ten steps at once, and four, a checkpoint, a new start and six: the same bits.
TEST_F(Checkpoint, TrainingGoesOnBitForBit) {
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const Optimizer opt = chain({clip_by_global_norm(1), adamw(warmup_cosine(0.1, 3, 10))});
  const auto step = compile(
      [&](const Training& t, const Tensor& x) {
        auto loss = [&](const Params& p) {
          return mean(square(matmul(tanh(matmul(x, p.at("w"))), p.at("v"))));
        };
        auto [params, state] = opt.step(t.params, grad(loss)(t.params), t.opt);
        return Training{params, state, t.step + 1};
      },
      {.donate = {0}});
  auto fresh = [&] {
    const Params params{{"w", randn({6, 8}, 1).shard(mesh, P({}, "y"))},
                        {"v", cast(randn({8, 4}, 2), DType::BF16).shard(mesh, P("y"))}};
    return Training{params, opt.init(params), scalar(0, DType::I32).shard(mesh, P())};
  };
  auto run = [&](Training t, int until) {
    for (int i = static_cast<int>(t.step.item()); i < until; ++i)
      t = step(t, randn({4, 6}, 100 + static_cast<uint64_t>(i)).shard(mesh, P("x")));
    return t;
  };
  const Training whole = run(fresh(), 10);
  const Checkpoints checkpoints(folder_);
  checkpoints.save(4, run(fresh(), 4));
  const Training resumed = run(checkpoints.load(fresh()), 10);
  const std::vector<Tensor> expected = leaves(whole), actual = leaves(resumed);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(identical(actual[i].to_host(), expected[i].to_host())) << leaf_names(whole)[i];
  EXPECT_EQ(step.stats().traces, 1);
}

TEST_F(Checkpoint, KeepsTheNewest) {
  const Checkpoints checkpoints(folder_, {.keep = 2});
  for (const int64_t step : {10, 20, 30, 5}) {
    checkpoints.save(step, Params{{"w", full({2}, static_cast<double>(step), DType::F32)}});
    EXPECT_EQ(checkpoints.latest(), step);
  }
  EXPECT_THAT(checkpoints.steps(), ElementsAre(5, 30));
  checkpoints.save(5, Params{{"w", full({2}, 6.0, DType::F32)}});  // again
  EXPECT_THAT(checkpoints.steps(), ElementsAre(5, 30));
  EXPECT_EQ(checkpoints.load(Params{{"w", zeros({2})}}).at("w").to_vector<float>()[0], 6);
}

TEST_F(Checkpoint, AnInterruptedSaveLeavesTheOldOne) {
  const Checkpoints checkpoints(folder_);
  checkpoints.save(1, Params{{"w", ones({2})}});
  // As a process that died before the index, and one that died before the name, leave it.
  fs::create_directories(folder_ / ".step_000002.partial");
  fs::copy_file(folder_ / "step_000001/rank_00000.safetensors",
                folder_ / ".step_000002.partial/rank_00000.safetensors");
  fs::create_directories(folder_ / "step_000003");
  EXPECT_EQ(checkpoints.latest(), 1);
  EXPECT_THAT(checkpoints.steps(), ElementsAre(1));
  // A pointer to a checkpoint that is not there.
  std::ofstream(folder_ / "latest") << "step_000003\n";
  EXPECT_EQ(checkpoints.latest(), 1);
  checkpoints.save(2, Params{{"w", zeros({2})}});
  EXPECT_EQ(checkpoints.latest(), 2);
  EXPECT_FALSE(fs::exists(folder_ / ".step_000002.partial"));
}

// A disk that takes nothing: a file stands where the folder should be.
TEST_F(Checkpoint, AFailedSaveSaysWhy) {
  std::ofstream(folder_ / "run") << "text";
  EXPECT_THAT(error_of([&] {
                Checkpoints(folder_ / "run").save(1, Params{{"w", ones({2})}});
              }),
              HasSubstr("cannot be written"));
}

struct Attention {
  Tensor q, k;
  template <typename V>
  void visit(V&& v) {
    v("q", q);
    v("k", k);
  }
};
struct Model {
  std::vector<Attention> layers;
  Tensor embed;
  template <typename V>
  void visit(V&& v) {
    v("layers", layers);
    v("embed", embed);
  }
};

TEST_F(Checkpoint, NamesOfOthers) {
  const std::vector<NameRule> rules{
      {"model.layers.{i}.self_attn.{m}_proj.weight", "layers[{i}].{m}", true},
      {"model.embed_tokens.weight", "embed"},
  };
  const Model model{{{randn({4, 6}, 1), randn({4, 2}, 2)}, {randn({4, 6}, 3), randn({4, 2}, 4)}},
                    randn({5, 4}, 5)};
  const fs::path path = folder_ / "model.safetensors";
  save_safetensors(path, model, {.names = rules});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.at("model.layers.1.self_attn.q_proj.weight").shape, (Shape{6, 4}));
  EXPECT_TRUE(identical(file.read("model.layers.0.self_attn.k_proj.weight"),
                        transpose(model.layers[0].k).to_host()));
  const Mesh mesh{{"x", 2}};
  const Model target = map_leaves(
      [&](const Tensor& t) {
        return zeros_like(t).shard(mesh, t.dim(0) == 5 ? P({}, "x") : P("x"));
      },
      model);
  // A folder with one file.
  const Model loaded = load_safetensors(folder_, target, {.names = rules});
  const std::vector<Tensor> actual = leaves(loaded), expected = leaves(model);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(identical(actual[i].to_host(), expected[i].to_host())) << leaf_names(model)[i];
}

// The rules name every weight of a Llama, as Hugging Face calls them.
TEST_F(Checkpoint, NamesOfLlama) {
  const std::vector<NameRule> llama = llama_names();
  models::GptConfig config;
  config.layers = 12;
  config.d = 16;
  config.heads = 4;
  config.kv_heads = 2;
  config.hidden = 24;
  config.vocab = 20;
  models::Init init(1), other(2, DType::BF16);
  const models::Gpt model = models::init_gpt(config, init);
  save_safetensors(folder_ / "model.safetensors", model, {.names = llama});
  const SafetensorsFile file(folder_ / "model.safetensors");
  EXPECT_EQ(file.at("model.layers.11.self_attn.k_proj.weight").shape, (Shape{8, 16}));
  EXPECT_EQ(file.at("model.layers.0.mlp.down_proj.weight").shape, (Shape{16, 24}));
  EXPECT_EQ(file.at("model.embed_tokens.weight").shape, (Shape{20, 16}));
  EXPECT_EQ(file.tensors().size(), leaves(model).size());
  const models::Gpt loaded =
      load_safetensors(folder_, models::init_gpt(config, other), {.names = llama, .convert = true});
  EXPECT_TRUE(identical(loaded.layers[11].attention.k.to_host(),
                        cast(model.layers[11].attention.k, DType::BF16).to_host()));
}

// GPT-2 keeps queries, keys and values side by side.
TEST_F(Checkpoint, PartsOfOneTensor) {
  const Tensor whole = randn({4, 9}, 1);
  save_safetensors(folder_ / "a.safetensors", Params{{"h.0.c_attn.weight", whole}});
  const std::vector<NameRule> rules{{"h.{i}.c_attn.weight", "q{i}", false, 0, 3},
                                    {"h.{i}.c_attn.weight", "k{i}", false, 1, 3},
                                    {"h.{i}.c_attn.weight", "v{i}", false, 2, 3}};
  const Params target{{"q0", zeros({4, 3})}, {"k0", zeros({4, 3})}, {"v0", zeros({4, 3})}};
  const Params loaded = load_safetensors(folder_ / "a.safetensors", target, {.names = rules});
  const std::vector<Tensor> parts = split(whole, 3, 1);
  expect_same(loaded, {{"q0", parts[0]}, {"k0", parts[1]}, {"v0", parts[2]}});
}

TEST_F(Checkpoint, SeveralFilesByAnIndex) {
  save_safetensors(folder_ / "model-00001-of-00002.safetensors", Params{{"a", ones({2})}});
  save_safetensors(folder_ / "model-00002-of-00002.safetensors", Params{{"b", zeros({3})}});
  const nlohmann::json index{
      {"metadata", {{"total_size", 20}}},
      {"weight_map",
       {{"a", "model-00001-of-00002.safetensors"}, {"b", "model-00002-of-00002.safetensors"}}}};
  std::ofstream(folder_ / "model.safetensors.index.json") << index.dump();
  const Params params{{"a", ones({2})}, {"b", zeros({3})}};
  expect_same(load_safetensors(folder_, like(params)), params);
  expect_same(load_safetensors(folder_ / "model.safetensors.index.json", like(params)), params);
  nlohmann::json wrong = index;
  wrong["weight_map"]["c"] = "model-00002-of-00002.safetensors";
  std::ofstream(folder_ / "model.safetensors.index.json") << wrong.dump();
  EXPECT_THAT(error_of([&] { load_safetensors(folder_, like(params)); }),
              HasSubstr("the tensor 'c' is not in model-00002-of-00002.safetensors"));
  wrong["weight_map"]["c"] = "../x";
  std::ofstream(folder_ / "model.safetensors.index.json") << wrong.dump();
  EXPECT_THAT(error_of([&] { load_safetensors(folder_, like(params)); }),
              HasSubstr("'../x' is not the name of a file beside it"));
}

TEST_F(Checkpoint, SaysWhatDoesNotFit) {
  const fs::path path = folder_ / "a.safetensors";
  save_safetensors(path, Params{{"layer.w", ones({2, 3})}, {"b", ones({2})}});
  const Tensor w = zeros({2, 3}), b = zeros({2});
  auto message = [&](const Params& target, const LoadOptions& options = {}) {
    return error_of([&] { load_safetensors(path, target, options); });
  };
  EXPECT_THAT(message({{"layer.v", w}, {"b", b}}),
              HasSubstr("there is no tensor 'layer.v'; the nearest is 'layer.w'"));
  EXPECT_THAT(message({{"b", b}}), HasSubstr("nothing takes the tensor 'layer.w'"));
  EXPECT_THAT(message({{"layer.w", zeros({3, 2})}, {"b", b}}),
              HasSubstr("'layer.w' is a tensor<2x3xf32>; 'layer.w' takes tensor<3x2xf32>; with "
                        ".transpose it fits"));
  EXPECT_THAT(message({{"layer.w", cast(w, DType::BF16)}, {"b", b}}),
              HasSubstr("'layer.w' is of f32, and 'layer.w' of bf16; load it with .convert"));
  EXPECT_THAT(message({{"b", b}}, {.names = {{"x", "y"}}}), HasSubstr("no rule says what 'b'"));
  LoadReport report;
  const Params some = load_safetensors(path, Params{{"b", b}, {"c", b + 4.0}},
                                       {.allow_missing = true, .allow_extra = true}, &report);
  EXPECT_EQ(some.at("b").to_vector<float>()[0], 1);
  EXPECT_EQ(some.at("c").to_vector<float>()[0], 4);
  EXPECT_THAT(report.missing, ElementsAre("c"));
  EXPECT_THAT(report.extra, ElementsAre("layer.w"));
  const Params narrow = load_safetensors(path, Params{{"layer.w", cast(w, DType::BF16)}, {"b", b}},
                                         {.convert = true});
  EXPECT_EQ(narrow.at("layer.w").dtype(), DType::BF16);
  EXPECT_EQ(cast(narrow.at("layer.w"), DType::F32).to_vector<float>()[0], 1);
  EXPECT_THAT(error_of([&] {
                load_safetensors(folder_ / "none", Params{{"b", b}});
              }),
              HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] {
                Checkpoints(folder_).load(Params{{"b", b}});
              }),
              HasSubstr("there is no checkpoint in"));
}

// Bytes that change at random: the file is read, or there is one line that names it.
TEST_F(Checkpoint, RandomDamageIsNoCrash) {
  const fs::path path = folder_ / "a.safetensors";
  save_safetensors(path, Params{{"w", ones({2, 3})}, {"b", ones({2})}, {"n", zeros({0, 4})}});
  const std::string good = read_text(path);
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string bad = good;
    for (uint32_t n = random() % 3; n < 3; ++n) {
      const size_t place = random() % bad.size();
      bad[place] =
          static_cast<char>(random() % 2 ? random() : "0123456789,:[]{}\"-e"[random() % 19]);
    }
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    std::ofstream(path, std::ios::binary) << bad;
    try {
      const SafetensorsFile file(path);
      for (const auto& [name, tensor] : file.tensors()) file.read(name);
    } catch (const UserError& error) {
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr("a.safetensors"));
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_F(Checkpoint, DamagedFoldersAreErrors) {
  const Mesh mesh{{"x", 2}};
  const Checkpoints checkpoints(folder_);
  const Params params{{"w", ones({4, 2}).shard(mesh, P("x"))}};
  checkpoints.save(1, params);
  const fs::path index = folder_ / "step_000001/index.json";
  const nlohmann::json good = nlohmann::json::parse(read_text(index));
  auto with = [&](auto change) {
    nlohmann::json bad = good;
    change(bad);
    std::ofstream(index) << bad.dump();
    return error_of([&] { checkpoints.load(params); });
  };
  EXPECT_THAT(with([](auto& j) { j["format"] = "x"; }), HasSubstr("its format is not"));
  EXPECT_THAT(with([](auto& j) { j.erase("files"); }),
              HasSubstr("index of this checkpoint is damaged"));
  EXPECT_THAT(with([](auto& j) { j["tensors"]["w"]["pieces"].erase(1); }),
              HasSubstr("the parts of 'w' do not make up the whole: 0 of 4"));
  EXPECT_THAT(with([](auto& j) { j["tensors"]["w"]["pieces"][0]["file"] = 7; }),
              HasSubstr("damaged"));
  EXPECT_THAT(with([](auto& j) {
                j["tensors"]["w"]["pieces"][0]["offset"] = {3, 0};
              }),
              HasSubstr("damaged"));
  EXPECT_THAT(with([](auto& j) { j["tensors"]["w"]["dtype"] = "i32"; }),
              HasSubstr("is a tensor<2x2xf32>, and the index says tensor<2x2xi32>"));
  std::ofstream(index) << good.dump();
  const fs::path file = folder_ / "step_000001/rank_00000.safetensors";
  fs::resize_file(file, fs::file_size(file) - 3);
  EXPECT_THAT(error_of([&] { checkpoints.load(params); }), HasSubstr("it is cut short"));
}

}  // namespace
}  // namespace cleave::train
