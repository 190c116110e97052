#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cleave/core/error.h"
#include "cleave/graph/json.h"
#include "cleave/graph/text/float_text.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"

namespace cleave {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::filesystem::path> files_in(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(CLEAVE_TEST_DIR) + "/" + folder))
    if (entry.path().extension() == ".mlir") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Every file of text/ is written as MLIR prints it: it comes out as it went in, also by way of the
// generic syntax and of JSON.
TEST(Text, GoldenFilesGoInAndOutUnchanged) {
  const auto files = files_in("text");
  ASSERT_FALSE(files.empty());
  for (const auto& path : files) {
    SCOPED_TRACE(path.filename());
    const std::string text = read_file(path);
    const Graph graph = parse_module(text, path.string());
    verify_graph(graph);
    EXPECT_EQ(print_module(graph), text);
    PrintOptions generic;
    generic.generic = true;
    EXPECT_EQ(print_module(parse_module(print_module(graph, generic))), text);
    EXPECT_EQ(print_module(graph_from_json(graph_to_json(graph))), text);
  }
}

// Every file of errors/ starts with `// LINE:COLUMN: a part of the message`; "verify" in place of
// the numbers means that it parses, but breaks a rule.
TEST(Text, BadInputIsReportedWhereItIs) {
  const auto files = files_in("errors");
  ASSERT_FALSE(files.empty());
  for (const auto& path : files) {
    SCOPED_TRACE(path.filename());
    const std::string text = read_file(path);
    const std::string expected = text.substr(3, text.find('\n') - 3);
    std::string message = "no error";
    try {
      verify_graph(parse_module(text, "f"));
    } catch (const UserError& error) {
      message = error.what();
    }
    if (expected.rfind("verify: ", 0) == 0) {
      EXPECT_NE(message.find(expected.substr(8)), std::string::npos) << message;
    } else {
      EXPECT_EQ(message.rfind("f:" + expected, 0), 0u) << message << "\nexpected " << expected;
      EXPECT_EQ(message.back(), '^');
    }
  }
}

TEST(Text, SplitsAtMarkersAndCountsLines) {
  const auto chunks = split_input("a\n// -----\nb\n// ----- c\nd");
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0].text, "a\n");
  EXPECT_EQ(chunks[1].text, "b\n");
  EXPECT_EQ(chunks[1].first_line, 3u);
  EXPECT_EQ(chunks[2].first_line, 5u);
}

std::string printed(DType dtype, double value) {
  std::string text;
  text::append_float(text, dtype, text::encode_float(dtype, value));
  return text;
}

TEST(FloatText, IsWhatLlvmPrints) {
  EXPECT_EQ(printed(DType::F32, 1.0), "1.000000e+00");
  EXPECT_EQ(printed(DType::F32, 0.1f), "1.000000e-01");
  EXPECT_EQ(printed(DType::F32, 1e-6f), "9.99999997E-7");
  EXPECT_EQ(printed(DType::F32, 1.0f / 3), "0.333333343");
  EXPECT_EQ(printed(DType::F64, 1.0 / 3), "0.33333333333333331");
  EXPECT_EQ(printed(DType::F32, -INFINITY), "0xFF800000");
  EXPECT_EQ(printed(DType::BF16, INFINITY), "0x7F80");
  EXPECT_EQ(printed(DType::F8E4M3FN, 448), "4.480000e+02");
  EXPECT_EQ(printed(DType::F32, -0.0), "-0.000000e+00");
}

TEST(FloatText, ReadsBackAsTheSameBits) {
  for (DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F64, DType::F8E5M2,
                      DType::F8E4M3FN, DType::F8E4M3B11FNUZ, DType::F4E2M1FN, DType::F6E3M2FN}) {
    const bool ok = rc::check("bits to text and back", [dtype] {
      const int width = bit_width(dtype);
      const auto bits =
          *rc::gen::arbitrary<uint64_t>() & (width == 64 ? UINT64_MAX : (uint64_t{1} << width) - 1);
      std::string text;
      text::append_float(text, dtype, bits);
      uint64_t back = 0;
      RC_ASSERT(text::parse_float(text, dtype, back));
      RC_ASSERT(back == bits);
    });
    EXPECT_TRUE(ok);
  }
}

// Digits of booleans mean bits to older readers of MLIR and bytes to newer ones, so many booleans
// are a list; many numbers are digits.
TEST(Text, ManyBooleansAreAList) {
  std::string values;
  for (int i = 0; i < 150; ++i) values += (i ? ", " : "") + std::string(i % 3 ? "true" : "false");
  const std::string list = "dense<[" + values + "]> : tensor<150xi1>";
  const std::string text = print_module(
      parse_module("func.func @main() -> tensor<150xi1> {\n  %0 = stablehlo.constant " + list +
                   "\n  return %0 : tensor<150xi1>\n}\n"));
  EXPECT_NE(text.find(list), std::string::npos) << text;
  EXPECT_EQ(print_module(parse_module(text)), text);
}

TEST(Json, ReportsTheField) {
  EXPECT_THROW(graph_from_json("{"), UserError);
  EXPECT_THROW(graph_from_json("{}"), UserError);
  EXPECT_THROW(graph_from_json(R"({"format": "cleave-graph", "version": 1})"), UserError);
}

}  // namespace
}  // namespace cleave
