#include "cleave/train/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "cleave/core/input_file.h"
#include "cleave/core/output_file.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/train/generate.h"
#include "cleave/train/step.h"
#include "tests/support/error_of.h"

// Whole trainings of a small GPT on the bytes of this repository's own pages: on one device, over
// virtual devices and over ranks; killed and gone on; on another mesh.
namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Trainings : public testing::Test {
 protected:
  Trainings()
      : folder_(fs::temp_directory_path() /
                ("cleave-runs-" + std::to_string(getpid()) + "-" +
                 testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::string text;
    for (const char* page : {"docs/guide/models.md", "docs/guide/mpi.md", "docs/guide/planning.md"})
      text += read_input_file(std::string(CLEAVE_SOURCE_DIR) + "/" + page);
    write_file(folder_ / "text.txt", text);
  }
  ~Trainings() override { fs::remove_all(folder_); }

  RunConfig config() const {
    RunConfig c;
    c.model = "model:gpt?layers=2&d=64&heads=4&kv_heads=2&hidden=128&length=64";
    c.data = {(folder_ / "text.txt").string()};
    c.batch = 8;
    c.steps = 30;
    c.rate = 3e-3;
    c.warmup = 5;
    c.clip = 1;
    c.save_every = 7;
    return c;
  }
  fs::path at(const std::string& name) const { return folder_ / name; }

  // Losses by step, from the file.
  static std::vector<double> losses(const fs::path& run) {
    std::vector<double> result;
    std::istringstream lines(read_input_file((run / "metrics.jsonl").string()));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (!json.contains("loss")) continue;
      EXPECT_EQ(json["step"], result.size() + 1);
      result.push_back(json["loss"]);
    }
    return result;
  }
  std::vector<double> train(const RunConfig& config, const std::string& name) const {
    RunObserver silent;
    const LoopEnd end = run_training(config, at(name), silent);
    EXPECT_EQ(end.kind, LoopEndKind::Done);
    return losses(at(name));
  }
  static size_t num_lines(const fs::path& run) {
    std::error_code error;
    if (!fs::exists(run / "metrics.jsonl", error)) return 0;
    const std::string text = read_input_file((run / "metrics.jsonl").string());
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  // The command, as a process of its own.
  std::vector<std::string> command(const RunConfig& c, const std::string& name) const {
    std::vector<std::string> line{CLEAVE_COMMAND,
                                  "train",
                                  c.model,
                                  "--data",
                                  c.data[0],
                                  "--batch",
                                  std::to_string(c.batch),
                                  "--steps",
                                  std::to_string(c.steps),
                                  "--rate",
                                  "0.003",
                                  "--warmup",
                                  "5",
                                  "--clip",
                                  "1",
                                  "--save-every",
                                  "7",
                                  "--out",
                                  at(name).string()};
    if (!c.mesh.empty()) line.insert(line.end(), {"--mesh", c.mesh});
    line.insert(line.end(), {"--plan", c.plan, "--quiet"});
    return line;
  }
  static pid_t start(std::vector<std::string> line) {
    std::vector<char*> argv;
    for (std::string& word : line) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      execv(argv[0], argv.data());
      _exit(127);
    }
    return child;
  }
  static int wait_for(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  const fs::path folder_;
};

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], tolerance) << "step " << i + 1;
}

// Bytes that are drawn evenly would cost log(256) = 5.55 each, and English by single letters about
// 3.2.
TEST_F(Trainings, LearnFromText) {
  RunConfig c = config();
  c.steps = 150;
  c.rate = 5e-3;
  c.schedule = "cosine";
  c.eval_share = 0.1;
  c.eval_every = 50;
  const std::vector<double> learned = train(c, "run");
  EXPECT_GT(learned.front(), 5);
  double last = 0;
  for (size_t i = learned.size() - 10; i < learned.size(); ++i) last += learned[i] / 10;
  EXPECT_LT(last, 2.6);
  for (const char* file : {"config.json", "metrics.jsonl", "checkpoints/latest"})
    EXPECT_TRUE(fs::exists(at("run") / file)) << file;
  // The weights of the checkpoint are those that have learned.
  const models::LanguageModel model = load_trained(at("run"));
  const Generator generate(model.config, model.gpt(model.weights));
  const auto rows = generate({{'t', 'h'}}, {.tokens = 40, .temperature = 0});
  EXPECT_EQ(rows[0].size(), 40u);
  for (int32_t byte : rows[0]) EXPECT_TRUE(byte == '\n' || (byte >= 32 && byte < 256));
}

TEST_F(Trainings, AreTheSameOverVirtualDevicesAndRanks) {
  const RunConfig whole = config();
  const std::vector<double> expected = train(whole, "whole");
  for (const auto& [plan, mesh] :
       {std::pair{"auto", "data=2,model=2"}, {"mixed", "data=2,model=2"}, {"fsdp", "data=4"}}) {
    RunConfig c = whole;
    c.plan = plan;
    c.mesh = mesh;
    SCOPED_TRACE(c.plan);
    expect_near(train(c, std::string(plan) + "-run"), expected, 2e-4);
  }
  RunConfig ranks = whole;
  ranks.plan = "data";
  ranks.mesh = "data=4";
  std::vector<std::string> line = command(ranks, "ranks");
  const std::vector<std::string> launch{CLEAVE_COMMAND, "launch", "-n", "4", "--"};
  line.insert(line.begin(), launch.begin(), launch.end());
  EXPECT_EQ(wait_for(start(line)), 0);
  expect_near(losses(at("ranks")), expected, 2e-4);
}

TEST_F(Trainings, AccumulateGradientsToTheSame) {
  const std::vector<double> expected = train(config(), "whole");
  RunConfig c = config();
  c.accumulate = 4;
  expect_near(train(c, "parts"), expected, 2e-4);
}

// Killed at some step, wherever that is, and started again: no loss differs in a single bit.
TEST_F(Trainings, KilledAndGoneOnAreThoseThatWereNot) {
  for (const auto& [plan, mesh] : {std::pair{"none", ""}, {"mixed", "data=2,model=2"}}) {
    RunConfig c = config();
    c.plan = plan;
    c.mesh = mesh;
    const std::string name = std::string("killed-") + plan;
    const std::vector<double> expected = train(c, std::string("unbroken-") + plan);
    const pid_t child = start(command(c, name));
    // Not before there is a checkpoint; which step it has reached by then is up to chance.
    const auto lines = static_cast<size_t>(8 + getpid() % 15);
    int status = 0;
    pid_t ended = 0;
    while (num_lines(at(name)) < lines && (ended = waitpid(child, &status, WNOHANG)) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(ended, 0) << "it ended by itself, with " << status;
    kill(child, SIGKILL);
    wait_for(child);
    const int64_t reached = latest_step(at(name)).value_or(0);
    EXPECT_GT(reached, 0);
    EXPECT_EQ(wait_for(start(command(c, name))), 0);
    EXPECT_EQ(losses(at(name)), expected) << "gone on from " << reached;
  }
}

TEST_F(Trainings, GoOnOverAnotherMesh) {
  RunConfig first = config();
  const std::vector<double> expected = train(first, "whole");
  first.steps = 14;
  train(first, "moved");
  RunConfig second = config();
  second.plan = "auto";
  second.mesh = "data=2,model=2";
  expect_near(train(second, "moved"), expected, 2e-4);
  EXPECT_TRUE(fs::exists(at("moved") / "plan.json"));
}

TEST_F(Trainings, OfOtherOptionsDoNotGoOn) {
  RunConfig c = config();
  c.steps = 7;
  train(c, "run");
  c.rate = 1e-2;
  RunObserver silent;
  EXPECT_THAT(
      error_of([&] { run_training(c, at("run"), silent); }),
      HasSubstr("has a training with a checkpoint at step 7: it was begun with --rate 0.003, "
                "and is now given 0.01; go on with the same options, or take another folder"));
  c = config();
  c.steps = 9;  // the rate is constant after the warmup, so that the first 7 are the same
  EXPECT_EQ(train(c, "run").size(), 9u);
  c.schedule = "cosine";
  EXPECT_THAT(error_of([&] { run_training(c, at("run"), silent); }),
              HasSubstr("--schedule constant"));
}

TEST_F(Trainings, EndAtALossThatIsNotFinite) {
  RunConfig c = config();
  c.optimizer = "sgd";
  c.rate = 1e6;
  c.clip = 0;
  c.warmup = 0;
  RunObserver silent;
  const LoopEnd end = run_training(c, at("run"), silent);
  EXPECT_EQ(end.kind, LoopEndKind::NotFinite);
  EXPECT_THAT(end.reason, HasSubstr("the loss is"));
  EXPECT_THAT(end.reason, HasSubstr("there is no checkpoint of this run yet"));
}

TEST_F(Trainings, WrongConfigsAreNamed) {
  RunObserver silent;
  const auto error = [&](auto change) {
    RunConfig c = config();
    change(c);
    return error_of([&] { run_training(c, at("wrong"), silent); });
  };
  EXPECT_THAT(error([](RunConfig& c) { c.model = "model:mlp"; }), HasSubstr("no language model"));
  EXPECT_THAT(error([](RunConfig& c) { c.optimizer = "adm"; }), HasSubstr("there are adamw"));
  EXPECT_THAT(error([](RunConfig& c) { c.schedule = "x"; }), HasSubstr("there are constant"));
  EXPECT_THAT(error([](RunConfig& c) { c.accumulate = 3; }), HasSubstr("must divide"));
  EXPECT_THAT(error([](RunConfig& c) { c.plan = "fsdp"; }), HasSubstr("needs a mesh"));
  EXPECT_THAT(error([](RunConfig& c) { c.mesh = "data=2"; }), HasSubstr("--plan none: one device"));
  EXPECT_THAT(error([](RunConfig& c) { c.model += "&vocab=64"; }),
              HasSubstr("is not one of the model's vocabulary of 64"));
  EXPECT_THAT(error([](RunConfig& c) { c.length = 32; }), HasSubstr("the model says length=64"));
}

TEST(RunConfigs, AreReadAsTheyWereWritten) {
  RunConfig c;
  c.model = "model:gpt";
  c.data = {"a", "b"};
  c.rate = 0.1;
  c.seed = 1ULL << 63;
  EXPECT_EQ(to_json(run_config_from_json(to_json(c), "x")), to_json(c));
  EXPECT_THAT(error_of([] { run_config_from_json(R"({"rate":"a"})", "x"); }),
              HasSubstr(R"(the field "rate" is "a")"));
  EXPECT_THAT(error_of([] { run_config_from_json("[]", "x"); }), HasSubstr("no JSON object"));
}

}  // namespace
}  // namespace cleave::train
