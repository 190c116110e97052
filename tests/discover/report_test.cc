// Reports have the fields that their schema says.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "cleave/discover/discover.h"
#include "cleave/discover/library.h"
#include "cleave/discover/numbers.h"

namespace cleave {
namespace {

using Json = nlohmann::json;

bool has_type(const Json& value, const std::string& type) {
  return type == "object"    ? value.is_object()
         : type == "array"   ? value.is_array()
         : type == "string"  ? value.is_string()
         : type == "integer" ? value.is_number_integer()
         : type == "number"  ? value.is_number()
         : type == "boolean" ? value.is_boolean()
                             : type == "null" && value.is_null();
}

// The part of draft 2020-12 that the schema uses; adds what does not hold to `faults`.
class Validator {
 public:
  explicit Validator(Json schema) : schema_(std::move(schema)) {}
  std::vector<std::string> check(const Json& value) {
    faults_.clear();
    check(value, schema_, "");
    return faults_;
  }

 private:
  void check(const Json& value, const Json& schema, const std::string& at) {
    for (const auto& [key, rule] : schema.items()) {
      bool holds = true;
      if (key == "$ref") {
        check(value, schema_.at(Json::json_pointer(rule.get<std::string>().substr(1))), at);
      } else if (key == "type") {
        holds = false;
        for (const Json& type : rule.is_array() ? rule : Json::array({rule}))
          holds |= has_type(value, type.get<std::string>());
      } else if (key == "enum") {
        holds = std::find(rule.begin(), rule.end(), value) != rule.end();
      } else if (key == "required") {
        for (const Json& name : rule) holds &= value.contains(name.get<std::string>());
      } else if (key == "properties") {
        for (const auto& [name, of] : rule.items())
          if (value.contains(name)) check(value[name], of, at + "/" + name);
      } else if (key == "additionalProperties") {
        for (const auto& [name, item] : value.items()) check(item, rule, at + "/" + name);
      } else if (key == "items") {
        for (size_t i = 0; i < value.size(); ++i)
          check(value[i], rule, at + "/" + std::to_string(i));
      } else if (key == "minimum") {
        holds = !value.is_number() || value.get<double>() >= rule.get<double>();
      } else if (key == "minLength") {
        holds = !value.is_string() || value.get<std::string>().size() >= rule.get<size_t>();
      } else if (key == "pattern") {
        holds = !value.is_string() ||
                std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>()));
      } else if (key[0] != '$' && key != "title" && key != "description") {
        faults_.push_back("the schema has a word that is not checked: " + key);
      }
      if (!holds) faults_.push_back(at + ": " + key + ": " + value.dump().substr(0, 80));
    }
  }
  Json schema_;
  std::vector<std::string> faults_;
};

Json report_of(const std::string& op) {
  DiscoverOptions options;
  options.worlds = {2, 3};
  return Json::parse(report_json(discover(*find_operator(op), options)));
}

TEST(Report, HasTheFieldsOfItsSchema) {
  Validator validator(Json::parse(report_schema()));
  for (const char* op : {"cross", "softmax", "sum", "mean", "matmul", "sort", "relu", "add",
                         "bucketize", "embedding", "view"}) {
    const Json report = report_of(op);
    EXPECT_EQ(validator.check(report), std::vector<std::string>{}) << op;
    EXPECT_GE(report["adversarial_generators"].size(), 5u) << op;
    EXPECT_GT(report["refuted"].size(), 0u) << op;
    for (const char* list : {"unconditional_rules", "conditional_rules"})
      for (const Json& rule : report[list])
        EXPECT_EQ(rule["justification"].get<std::string>().back(), '.') << rule;
  }
}

TEST(Report, RandomOperatorsHaveOneToo) {
  Operator op;
  op.name = "noise";
  op.samples = {{{{DType::F64, {5}}}, {{"on", false}}}, {{{DType::F64, {5}}}, {{"on", true}}}};
  op.run = [calls = std::make_shared<int>(0)](const AttrMap& attrs, std::span<const Array> x) {
    std::vector<double> numbers = to_doubles(x[0]);
    if (std::get<bool>(attrs.at("on"))) numbers[0] = ++*calls;
    return std::vector{from_doubles(DType::F64, x[0].shape(), numbers)};
  };
  DiscoverOptions options;
  options.random_is_result = true;
  const Discovery found = discover(op, options);
  const Json report = Json::parse(report_json(found));
  EXPECT_EQ(Validator(Json::parse(report_schema())).check(report), std::vector<std::string>{});
  EXPECT_EQ(report["analysis"]["category"], "random");
  const auto reason = report["analysis"]["reason"].get<std::string>();
  EXPECT_NE(reason.find("of two equal calls (5 f64; on=true) element 0"), reason.npos) << reason;
  EXPECT_NE(reason.find("In 1 of 2 calls, such as (5 f64; on=false)"), reason.npos) << reason;
  EXPECT_EQ(report["sample_inputs_tested"]["kwargs_swept"]["on"].size(), 2u);
  EXPECT_EQ(Json::parse(report_page(op, found))["matrix"]["rows"].size(), 0u);
}

TEST(Report, TheSchemaRefusesOthers) {
  Validator validator(Json::parse(report_schema()));
  Json report = report_of("relu");
  report.erase("seed");
  EXPECT_EQ(validator.check(report).size(), 1u);
  report["seed"] = "one";
  report["unconditional_rules"][0]["output"] = "Shard(0)";
  EXPECT_GE(validator.check(report).size(), 2u);
}

Json page_of(const std::string& op) {
  DiscoverOptions options;
  options.worlds = {2, 3};
  return Json::parse(report_page(*find_operator(op), discover(*find_operator(op), options)));
}

std::vector<double> values_of(const Json& array) {
  int64_t elements = 1;
  for (const Json& size : array["shape"]) elements *= size.get<int64_t>();
  EXPECT_EQ(array["values"].size(), elements);
  return array["values"].get<std::vector<double>>();
}

// What the arrays of the devices are together, by the words of the guide; computed here anew.
double together(const Json& devices, const std::string& placement, const Json& whole,
                int64_t element) {
  std::vector<double> numbers;
  if (placement.starts_with("S(")) {
    const size_t dim = std::stoul(placement.substr(2));
    int64_t inner = 1;
    for (size_t d = dim + 1; d < whole["shape"].size(); ++d) inner *= whole["shape"][d].get<int>();
    const int64_t size = whole["shape"][dim].get<int64_t>();
    int64_t at = element / inner % size;
    for (const Json& device : devices) {
      const int64_t here = device["shape"][dim].get<int64_t>();
      if (at < here)
        return values_of(
            device)[element / (inner * size) * inner * here + at * inner + element % inner];
      at -= here;
    }
    return std::nan("");
  }
  for (const Json& device : devices) numbers.push_back(values_of(device)[element]);
  double total = numbers[0];
  for (size_t i = 1; i < numbers.size(); ++i)
    total = placement == "P(max)"    ? std::max(total, numbers[i])
            : placement == "P(min)"  ? std::min(total, numbers[i])
            : placement == "P(prod)" ? total * numbers[i]
                                     : total + numbers[i];
  return placement == "P(avg)" ? total / static_cast<double>(numbers.size()) : total;
}

void check_witness(const Json& witness) {
  SCOPED_TRACE(witness["text"].get<std::string>());
  const int64_t element = witness["element"].get<int64_t>();
  const double expected = witness["expected"].get<double>(), got = witness["got"].get<double>();
  for (const Json& operand : witness["operands"]) {
    EXPECT_EQ(operand["shards"].size(), witness["world"].get<size_t>());
    const std::vector<double> whole = values_of(operand["whole"]);
    for (size_t e = 0; e < whole.size(); ++e) {
      const std::string placement = operand["placement"].get<std::string>();
      if (placement == "R")
        for (const Json& shard : operand["shards"]) EXPECT_EQ(values_of(shard)[e], whole[e]);
      else
        EXPECT_NEAR(together(operand["shards"], placement, operand["whole"], e), whole[e],
                    1e-9 * (1 + std::abs(whole[e])));
    }
  }
  const Json& result = witness["result"];
  EXPECT_EQ(values_of(result["expected"])[element], expected);
  EXPECT_NE(expected, got);
  int64_t flat = 0;
  for (size_t d = 0; d < witness["position"].size(); ++d)
    flat = flat * result["expected"]["shape"][d].get<int64_t>() + witness["position"][d].get<int>();
  EXPECT_EQ(flat, element);
  const std::string placement = result["placement"].get<std::string>();
  if (placement != "R") {
    EXPECT_NEAR(together(result["devices"], placement, result["expected"], element), got,
                1e-9 * (1 + std::abs(got)));
    return;
  }
  bool some = false;
  for (const Json& device : result["devices"]) some |= values_of(device)[element] == got;
  EXPECT_TRUE(some);
}

TEST(Report, APageHasEveryFamilyAndItsWitnessAsNumbers) {
  for (const char* op : {"cross", "softmax", "sum", "matmul", "relu", "sort"}) {
    SCOPED_TRACE(op);
    const Json page = page_of(op);
    EXPECT_EQ(Validator(Json::parse(report_schema())).check(page), std::vector<std::string>{});
    const Json& rows = page["matrix"]["rows"];
    std::map<std::string, size_t> verdicts;
    std::set<std::string> cells;
    for (const Json& row : rows) {
      const std::string verdict = row["verdict"].get<std::string>();
      ++verdicts[verdict];
      EXPECT_TRUE(cells
                      .insert(row["inputs"].dump() + row["result"].dump() + row["output"].dump() +
                              row["condition"].dump())
                      .second)
          << row;
      const int64_t witness = row["witness"].get<int64_t>();
      EXPECT_LT(witness, static_cast<int64_t>(page["witnesses"].size()));
      const Json& columns = page["matrix"]["columns"];
      EXPECT_NE(std::find(columns.begin(), columns.end(), row["output"]), columns.end());
      if (verdict == "refuted") {
        ASSERT_GE(witness, 0) << row;
        const Json& placement = page["witnesses"][witness]["result"]["placement"];
        EXPECT_EQ(placement.get<std::string>()[0], row["output"].get<std::string>()[0]) << row;
      }
    }
    EXPECT_GT(verdicts["refuted"], 0u);
    EXPECT_EQ(verdicts["implied"], page["implied_rules"].size());
    EXPECT_EQ(verdicts["conditional"], page["conditional_rules"].size());
    EXPECT_EQ(verdicts["proved"] + verdicts["tested"], page["unconditional_rules"].size());
    for (const Json& witness : page["witnesses"]) check_witness(witness);
  }
}

TEST(Report, NumbersThatJsonHasNotAreTexts) {
  Discovery discovery;
  Operator op = *find_operator("relu");
  discovery.op = op.name;
  discovery.num_operands = 1;
  Witness witness;
  witness.sample.operands = {{DType::F64, {3}}};
  witness.combination = {{Placement::replicate()}, 0, Placement::replicate()};
  witness.operands = {from_doubles(
      DType::F64, {3}, std::vector<double>{std::numeric_limits<double>::infinity(), -0.0, 1e300})};
  witness.devices = {{witness.operands[0], witness.operands[0]}};
  witness.element = 0;
  discovery.refuted.push_back({{{}}, 0, {}, VerdictKind::Refuted, "", witness, false, ""});
  const Json page = Json::parse(report_page(op, discovery));
  EXPECT_EQ(page["witnesses"][0]["operands"][0]["whole"]["values"], (Json{"inf", 0.0, 1e300}));
  EXPECT_EQ(page["matrix"]["operands"], Json{"operand 0"});
}

TEST(Report, TheSchemaIsAPageToo) {
  std::ifstream file(CLEAVE_SOURCE_DIR "/docs/discovery-report.schema.json");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), report_schema());
}

}  // namespace
}  // namespace cleave
