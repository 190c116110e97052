#include "cleave/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "cleave/graph/text/text.h"
#include "report_samples.h"

namespace cleave::report {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Page, EncodesAsRfc4648) {
  const std::pair<const char*, const char*> kVectors[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [text, letters] : kVectors) EXPECT_EQ(base64(text), letters);
}

std::string inflated(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, -15), Z_OK);
  std::string text(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

TEST(Page, DeflatesRaw) {
  std::string text;
  for (int64_t i = 0; i < 50000; ++i) text += std::to_string(i * i % 1000);
  EXPECT_EQ(inflated(deflated(text)), text);
  EXPECT_LT(deflated(text).size(), text.size() / 2);
  EXPECT_EQ(inflated(deflated("")), "");
}

TEST(Page, HasTheTitleEscapedAndTheReportAlone) {
  const std::string page =
      page_of("{\"format\": \"cleave-page\"}", "</title><script>alert(1)</script>");
  EXPECT_THAT(page,
              HasSubstr("<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;</title>"));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr(base64(deflated("{\"format\": \"cleave-page\"}"))));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* mark : {"@TITLE@", "@STYLE@", "@REPORT@", "@SCRIPT@"})
    EXPECT_THAT(page, Not(HasSubstr(mark)));
  EXPECT_EQ(page, page_of("{\"format\": \"cleave-page\"}", "</title><script>alert(1)</script>"));
}

// A mark in a title is a title.
TEST(Page, TakesMarksInATitleAsText) {
  EXPECT_THAT(page_of("{}", "@REPORT@ and @SCRIPT@"),
              HasSubstr("<title>@REPORT@ and @SCRIPT@</title>"));
}

// Names come from modules that anybody may have written.
TEST(Page, KeepsMarkupInNamesOutOfTheMarkup) {
  const char* text = R"(
  module @"</script><script>alert(0)</script>" {
  func.func @main(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> tensor<512x512xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> loc("<img src=x onerror=alert(1)>":3:4)
    return %0 : tensor<512x512xf32>
  }})";
  Sample made = sample(parse_module(text), {.mesh = "x=2"});
  made.plan.source = "<b>bold</b>";
  made.plan.notes = {"</script><script>alert(2)</script>"};
  for (plan::PlannedValue& value : made.plan.values) value.name += "<i>";
  // Names of values are in the operands as well.
  for (plan::PlannedOp& op : made.plan.ops)
    for (plan::PlannedOperand& operand : op.operands)
      if (operand.source != "dot_general.0") operand.source += "<i>";
  for (plan::PlannedValue& value : made.plan.values)
    if (value.name == "dot_general.0<i>") value.name = "dot_general.0";
  Report report;
  report.plans.push_back({&made.plan, &made.graph, &made.profile, "", {}, {}});
  const std::string page = page_of(report_json(report), title_of(made.plan));
  EXPECT_THAT(page, HasSubstr("<title>b&gt; on &lt;[&quot;x&quot;=2]&gt; of h100</title>"));
  for (const char* markup : {"<b>bold", "<script>alert", "<img src=x"})
    EXPECT_THAT(page, Not(HasSubstr(markup)));
}

}  // namespace
}  // namespace cleave::report
