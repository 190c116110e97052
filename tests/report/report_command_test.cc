#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/support/temp_path.h"

// Pages as a user makes them.
namespace cleave {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int status;
  std::string text;  // both streams
};

Outcome cleave(const std::string& arguments) {
  FILE* pipe = popen((std::string(CLEAVE_COMMAND) + " " + arguments + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  Outcome outcome;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.text.append(buffer.data(), n);
  outcome.status = pclose(pipe) >> 8;
  return outcome;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// What a browser reads from the page.
json report_in(const std::string& page) {
  const std::string begin = "<script id=\"report\" type=\"application/json-deflate-base64\">";
  const size_t at = page.find(begin) + begin.size(), end = page.find("</script>", at);
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = at; i < end && page[i] != '='; ++i) {
    bits = bits << 6 | static_cast<uint32_t>(letters.find(page[i]));
    if (++count == 4) {
      for (int shift : {16, 8, 0}) bytes += static_cast<char>(bits >> shift & 255);
      count = 0;
    }
  }
  if (count == 3)
    for (int shift : {10, 2}) bytes += static_cast<char>(bits >> shift & 255);
  if (count == 2) bytes += static_cast<char>(bits >> 4 & 255);
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, -15), Z_OK);
  std::string text(64 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return json::parse(text);
}

class ReportCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(module_) << R"(
func.func @main(%x: tensor<512x1024xf32>, %w: tensor<1024x4096xf32>, %v: tensor<4096x1024xf32>) -> tensor<512x1024xf32> {
  %0 = stablehlo.dot %x, %w : (tensor<512x1024xf32>, tensor<1024x4096xf32>) -> tensor<512x4096xf32>
  %1 = stablehlo.tanh %0 : tensor<512x4096xf32>
  %2 = stablehlo.dot %1, %v : (tensor<512x4096xf32>, tensor<4096x1024xf32>) -> tensor<512x1024xf32>
  return %2 : tensor<512x1024xf32>
})";
    const Outcome made = cleave("plan " + module_ +
                                " --mesh data=2,model=2 --machine h100 --memory 40MiB "
                                "--memory-share 1 --out " +
                                plan_ + " --report " + page_);
    ASSERT_EQ(made.status, 0) << made.text;
  }
  json report(const std::string& options) {
    const Outcome made = cleave("report " + plan_ + " -o " + page_ + " " + options);
    EXPECT_EQ(made.status, 0) << made.text;
    return report_in(text_of(page_));
  }
  const std::string module_ = temp_path("report.mlir"), plan_ = temp_path("report.json"),
                    page_ = temp_path("report.html");
};

TEST_F(ReportCommand, WritesThePageThatPlanningWrites) {
  const std::string planned = text_of(page_);
  const json shown = report("");
  EXPECT_EQ(text_of(page_), planned);
  EXPECT_EQ(shown["kind"], "plan");
  EXPECT_EQ(shown["plans"].size(), 1u);
  const json plan = json::parse(text_of(plan_));
  EXPECT_NEAR(shown["plans"][0]["totals"]["step"].get<double>(),
              plan["totals"]["step_seconds"].get<double>(), 1e-9);
  EXPECT_EQ(shown["plans"][0]["fingerprint"], plan["module"]["fingerprint"]);
  EXPECT_THAT(text_of(page_), HasSubstr("<title>report.mlir on "));
}

TEST_F(ReportCommand, HasWhatThePlanSaysIfThereIsNoModule) {
  std::filesystem::rename(module_, module_ + ".gone");
  const json shown = report("")["plans"][0];
  EXPECT_THAT(shown["notes"].dump(), HasSubstr("--module FILE"));
  EXPECT_EQ(shown["ops"]["name"].size(), 4u);
  EXPECT_EQ(shown["memory"]["steps"], 0);
  EXPECT_GT(shown["groups"].size(), 0u);
  EXPECT_GE(report("--module " + module_ + ".gone")["plans"][0]["memory"]["steps"], 4);
  const Outcome wrong = cleave("report " + plan_ + " -o " + page_ + " --memory 1GiB");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.text,
              HasSubstr("--memory 1GiB: it needs the module of the plan, and the module"));
}

TEST_F(ReportCommand, ComparesTwoPlans) {
  const std::string other = temp_path("other.json");
  ASSERT_EQ(
      cleave("plan " + module_ + " --mesh data=2,model=2 --machine h100 --out " + other).status, 0);
  const json shown = report("--compare " + other);
  EXPECT_EQ(shown["plans"].size(), 2u);
  EXPECT_EQ(shown["compare"]["before"], 1);
  EXPECT_EQ(shown["compare"]["after"], 0);
  EXPECT_FALSE(shown["compare"]["why"].empty());
}

TEST_F(ReportCommand, SweepsLimits) {
  const json shown = report("--memory 1MiB,40MiB,1GiB");
  ASSERT_EQ(shown["front"].size(), 3u);
  EXPECT_EQ(shown["front"][0]["plan"], -1);
  EXPECT_NE(shown["front"][0]["reason"], "");
  EXPECT_EQ(shown["front"][2]["limit"], 1 << 30);
  const json& last = shown["plans"][shown["front"][2]["plan"].get<size_t>()];
  EXPECT_EQ(last["totals"]["step"], shown["front"][2]["step"]);
  EXPECT_GE(shown["front"][1]["step"], shown["front"][2]["step"]);
}

TEST_F(ReportCommand, PricesThePlanOnAnotherMachine) {
  const json shown = report("--machine a100")["plans"][0];
  EXPECT_EQ(shown["machine"], "a100");
  EXPECT_EQ(shown["bound"]["exists"], false);
  EXPECT_THAT(shown["notes"].dump(), HasSubstr("times are those of a100"));
  double groups = 0;
  for (const json& group : shown["groups"]) groups += group["seconds"].get<double>();
  EXPECT_NEAR(groups, shown["totals"]["seconds"], 1e-5 * groups);
}

TEST_F(ReportCommand, ShowsWhatARunMeasured) {
  const std::string timeline = temp_path("run.json"), checks = temp_path("verify.json");
  const Outcome ran = cleave("run " + module_ + " --plan " + plan_ +
                             " --arg '*=random:1' --verify --quiet --timeline " + timeline);
  ASSERT_EQ(ran.status, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("results are the same on one device"));
  const Outcome verified = cleave("verify " + module_ + " --plan " + plan_ + " --json " + checks);
  ASSERT_EQ(verified.status, 0) << verified.text;
  const json shown = report("--run " + timeline + " --verify " + checks)["plans"][0];
  const json& measured = shown["measured"];
  // Every op that computes ran once on each of the four devices.
  std::vector<std::string> names;
  for (size_t i = 0; i < measured["ops"]["op"].size(); ++i) {
    names.push_back(
        shown["strings"]
             [shown["ops"]["name"][measured["ops"]["op"][i].get<size_t>()].get<size_t>()]);
    EXPECT_EQ(measured["ops"]["times"][i], 1);
    EXPECT_GT(measured["ops"]["seconds"][i], 0);
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("dot.0", "tanh.0", "dot.1"));
  double sent = 0, shown_changes = 0;
  for (size_t i = 0; i < shown["changes"]["kind"].size(); ++i)
    sent += shown["changes"]["times"][i].get<double>();
  for (const json& times : measured["changes"]["times"]) shown_changes += times.get<double>();
  EXPECT_EQ(sent, shown_changes);
  EXPECT_GE(measured["checks"].size(), 4u);
  for (const json& check : measured["checks"]) EXPECT_EQ(check["ok"], true) << check;
  EXPECT_THAT(measured["text"], HasSubstr("Predicted for h100; run op by op on 4 virtual devices"));
}

TEST_F(ReportCommand, RefusesRunsOfOtherModules) {
  const std::string timeline = temp_path("other_run.json");
  std::ofstream(timeline)
      << R"({"traceEvents": [], "otherData": {"fingerprint": "12", "host": "x"}})";
  const Outcome wrong = cleave("report " + plan_ + " -o " + page_ + " --run " + timeline);
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.text, HasSubstr("it is a run of another module"));
  std::ofstream(timeline) << R"({"traceEvents": []})";
  EXPECT_THAT(cleave("report " + plan_ + " -o " + page_ + " --run " + timeline).text,
              HasSubstr("it does not say of which plan it is"));
  std::ofstream(timeline) << "nothing";
  EXPECT_THAT(cleave("report " + plan_ + " -o " + page_ + " --run " + timeline).text,
              HasSubstr("it is not JSON"));
}

TEST_F(ReportCommand, SaysWhyThereIsNoPlan) {
  const Outcome none = cleave(
      "plan " + module_ + " --mesh data=2,model=2 --machine h100 --memory 1MiB --report " + page_);
  EXPECT_EQ(none.status, 3) << none.text;
  const json shown = report_in(text_of(page_));
  EXPECT_EQ(shown["kind"], "infeasible");
  EXPECT_TRUE(shown["plans"].empty());
  EXPECT_GT(shown["infeasible"]["least"], shown["infeasible"]["limit"]);
  EXPECT_THAT(none.text, HasSubstr(shown["infeasible"]["text"].get<std::string>()));
}

TEST_F(ReportCommand, GoesToStandardOutput) {
  const Outcome page = cleave("report " + plan_ + " -o -");
  EXPECT_EQ(page.status, 0);
  (void)report("");
  EXPECT_EQ(page.text, text_of(page_));
}

TEST_F(ReportCommand, SaysWhatIsWrongInOneLine) {
  EXPECT_THAT(cleave("report " + plan_).text, HasSubstr("--out"));
  EXPECT_THAT(cleave("report " + module_ + " -o " + page_).text,
              HasSubstr("it is neither a plan nor a report of cleave discover"));
  EXPECT_THAT(cleave("report " + plan_ + " -o /nowhere/page.html").text, HasSubstr("/nowhere"));
  EXPECT_THAT(cleave("report " + plan_ + " -o " + page_ + " --compare " + module_).text,
              HasSubstr("--compare"));
  for (const char* given : {"--run /nowhere", "--verify /nowhere", "--machine /nowhere"})
    EXPECT_THAT(cleave("report " + plan_ + " -o " + page_ + " " + given).text,
                Not(HasSubstr("internal")));
}

TEST_F(ReportCommand, SaysWhatADiscoveryLacks) {
  const json whole = json::parse(cleave("discover cross --format json").text);
  const auto without = [&](const std::string& path) {
    json part = whole;
    const json::json_pointer at(path);
    part[at.parent_pointer()].erase(at.back());
    return part;
  };
  const auto with = [&](const std::string& path, const json& value) {
    json changed = whole;
    changed[json::json_pointer(path)] = value;
    return changed;
  };
  const std::pair<json, const char*> wrong[] = {
      {json::object(), "operator is missing"},
      {without("/tolerance"), "tolerance is missing"},
      {without("/analysis/category"), "analysis.category is missing"},
      {with("/analysis/category", "nice"), "analysis.category is not one of \"pointwise\", "},
      {with("/operator", ""), "operator is empty"},
      {with("/seed", "many"), "seed is string, not "},
      {with("/unconditional_rules/0/output", 5), "unconditional_rules[0].output is number, not "},
  };
  const std::string file = temp_path("part.json");
  std::filesystem::remove(page_);
  for (const auto& [document, fault] : wrong) {
    std::ofstream(file) << document;
    const Outcome refused = cleave("report " + file + " -o " + page_);
    EXPECT_EQ(refused.status, 1) << fault;
    EXPECT_THAT(refused.text, HasSubstr(std::string("report of cleave discover: ") + fault));
    EXPECT_FALSE(std::filesystem::exists(page_)) << fault;
  }
}

TEST_F(ReportCommand, ShowsADiscovery) {
  const std::string found = temp_path("discovery.json");
  const Outcome made = cleave("discover stablehlo.tanh --format json > " + found);
  ASSERT_EQ(made.status, 0) << made.text;
  const Outcome page = cleave("report " + found + " -o " + page_);
  ASSERT_EQ(page.status, 0) << page.text;
  const json shown = report_in(text_of(page_));
  EXPECT_EQ(shown["kind"], "discovery");
  EXPECT_EQ(shown["discovery"], json::parse(text_of(found)));
}

}  // namespace
}  // namespace cleave
