// The report as data: the fields of docs/discovery-report.schema.json, as YAML and as JSON.
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "cleave/discover/discover.h"

namespace cleave {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> texts_of(const std::vector<PlacePattern>& patterns) {
  std::vector<std::string> texts;
  for (const PlacePattern& pattern : patterns) texts.push_back(to_string(pattern));
  return texts;
}

Json json_of(const AttrValue& value) {
  const auto* number = std::get_if<double>(&value);
  if (number && !std::isfinite(*number)) return fmt::format("{}", *number);  // JSON has no inf
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json json_of(const std::vector<GeneratorText>& generators) {
  Json list = Json::array();
  for (const GeneratorText& generator : generators)
    list.push_back({{"name", generator.name}, {"description", generator.description}});
  return list;
}

Json json_of(const Analysis& analysis) {
  Json json;
  json["category"] = name(analysis.category);
  json["dim_parameter"] =
      analysis.dim_parameter ? Json(analysis.dim_parameter->name) : Json(nullptr);
  json["parameters"] = Json::array();
  auto add = [&](const ParameterRole& role, const char* what) {
    json["parameters"].push_back({{"name", role.name}, {"role", what}, {"how", role.how}});
  };
  if (analysis.dim_parameter) add(*analysis.dim_parameter, "dim");
  if (analysis.keepdim_parameter) add(*analysis.keepdim_parameter, "keepdim");
  for (const ParameterRole& role : analysis.other_parameters) add(role, "other");
  json["mathematical_properties"] = Json::array();
  for (const MathProperty& p : analysis.properties)
    json["mathematical_properties"].push_back(
        {{"name", p.name}, {"about", p.about}, {"how", p.how}, {"tests", p.tests}});
  json["deterministic"] = analysis.deterministic;
  if (!analysis.reason.empty()) json["reason"] = analysis.reason;
  return json;
}

Json samples_of(const Discovery& discovery) {
  Json json;
  Json shapes = Json::array(), calls = Json::array();
  std::set<std::string> dtypes;
  std::map<std::string, std::vector<AttrValue>> swept;
  for (const SampleDecisions& decided : discovery.samples) {
    calls.push_back(to_string(decided.sample));
    Json of_call = Json::array();
    for (const TensorDesc& desc : decided.sample.operands) {
      of_call.push_back(desc.shape);
      dtypes.insert(std::string(name(desc.dtype)));
    }
    if (std::find(shapes.begin(), shapes.end(), of_call) == shapes.end())
      shapes.push_back(std::move(of_call));
    for (const auto& [name, value] : decided.sample.attrs) {
      std::vector<AttrValue>& values = swept[name];
      if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
  }
  json["shapes"] = std::move(shapes);
  json["dtypes"] = dtypes;
  json["world_size"] = discovery.worlds;
  json["generators"] = json_of(discovery.generators);
  json["kwargs_swept"] = Json::object();
  for (const auto& [name, values] : swept)
    for (const AttrValue& value : values) json["kwargs_swept"][name].push_back(json_of(value));
  json["calls"] = std::move(calls);
  return json;
}

// What is said of a rule in a few words, as a sentence that gives the reason.
std::string base_sentence(const std::string& words) {
  auto starts = [&](const char* with) { return words.starts_with(with); };
  if (words == "batch dimension")
    return "The dimension is a batch dimension: a slice of the result needs the same slice of the "
           "operands alone.";
  if (starts("batch dimension"))
    return "The dimension is a batch dimension that has another number in the result: a slice of "
           "the result needs one slice of the operands alone.";
  if (starts("reduction"))
    return "It is a " + words + ": each device has the result of its own elements.";
  if (starts("linear in") || starts("additive in"))
    return "It is " + words + ", so it may be applied to each summand.";
  if (starts("monotone") || starts("antitone"))
    return "It is " + words +
           ", so it may be applied to each part before the largest or smallest "
           "is taken.";
  if (starts("multiplicative") || starts("turns"))
    return "It " + std::string(starts("turns") ? "" : "is ") + words + ".";
  if (starts("does not depend")) return "The result " + words + ".";
  if (words.empty()) return "It held in every test.";
  std::string text = words + ".";
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

bool same_family(const std::vector<PlacePattern>& a, const std::vector<PlacePattern>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const PlacePattern& x, const PlacePattern& y) {
                      return x.is_shard() ? y.is_shard() : x == y;
                    });
}

std::string sentence_of(const Discovery& discovery, const DiscoveredRule& rule) {
  std::string text = base_sentence(rule.justification);
  if (rule.condition.find("w == 0") != std::string::npos ||
      rule.condition.find("w) == 0") != std::string::npos)
    text += " All shards must have the same size: w is the number of devices.";
  if (rule.condition.empty()) return text;
  if (const RefutedRule* other = exception_to(discovery, rule)) {
    const std::string row = fmt::format("{} -> {}", fmt::join(texts_of(other->operands), ", "),
                                        to_string(other->placement));
    return text + fmt::format(" Outside of the condition it is refuted, as {}{}{}.", row,
                              other->with.empty() ? "" : " with ", other->with);
  }
  return text;
}

std::string verdict_with_tests(const DiscoveredRule& rule) {
  return rule.kind == VerdictKind::Proved ? "proved" : fmt::format("tested({})", rule.tests);
}

Json json_of(const Discovery& discovery, const DiscoveredRule& rule) {
  Json json = {{"inputs", texts_of(rule.operands)}, {"output", to_string(rule.placement)}};
  if (discovery.num_results > 1) json["result"] = rule.result;
  if (!rule.condition.empty()) json["condition"] = rule.condition;
  json["justification"] = sentence_of(discovery, rule);
  json["verdict"] = name(rule.kind);
  json["tests"] = rule.tests;
  return json;
}

Json json_of(const Discovery& discovery, const RefutedRule& rule) {
  Json json = {{"inputs", texts_of(rule.operands)}, {"output", to_string(rule.placement)}};
  if (discovery.num_results > 1) json["result"] = rule.result;
  if (!rule.with.empty()) json["with"] = rule.with;
  json["verdict"] = name(rule.kind);
  if (rule.kind == VerdictKind::Untestable)
    json["reason"] = rule.reason;
  else
    json["witness"] = rule.witness ? to_string(discovery.op, *rule.witness) : rule.reason;
  return json;
}

Json counts_of(const Discovery& discovery) {
  const VerdictCounts counts = count_verdicts(discovery);
  return {{"combinations", discovery.combinations},
          {"proved", counts.proved},
          {"tested", counts.tested},
          {"refuted", counts.refuted},
          {"rejected", counts.rejected},
          {"untestable", counts.untestable}};
}

Json document_of(const Discovery& discovery) {
  Json json;
  json["operator"] = discovery.op;
  json["signature"] = discovery.signature;
  json["analysis"] = json_of(discovery.analysis);
  json["analysis"]["depends_on_attributes"] = discovery.attributes;
  json["sample_inputs_tested"] = samples_of(discovery);
  for (const char* list : {"unconditional_rules", "conditional_rules", "implied_rules"})
    json[list] = Json::array();
  for (const DiscoveredRule& rule : discovery.rules)
    json[rule.implied             ? "implied_rules"
         : rule.condition.empty() ? "unconditional_rules"
                                  : "conditional_rules"]
        .push_back(json_of(discovery, rule));
  json["adversarial_generators"] = json_of(discovery.adversarial_generators);
  json["refuted"] = Json::array();
  for (const RefutedRule& rule : discovery.refuted)
    json["refuted"].push_back(json_of(discovery, rule));
  json["untestable"] = Json::array();
  for (const RefutedRule& rule : discovery.untestable)
    json["untestable"].push_back(json_of(discovery, rule));
  json["versions"] = discovery.versions;
  json["seed"] = discovery.seed;
  json["tolerance"] = discovery.tolerance;
  json["counts"] = counts_of(discovery);
  json["seconds"] = discovery.seconds;
  return json;
}

bool is_flat(const Json& json) {
  return std::all_of(json.begin(), json.end(), [](const Json& item) {
    return !item.is_structured() || (item.is_array() && item.size() < 8 && is_flat(item));
  });
}

// 1e-09 is a text to readers of YAML 1.1, and 1.0e-09 a number.
std::string yaml_number(double value) {
  std::string text = fmt::format("{:.6g}", value);
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

void write(const Json& json, YAML::Emitter& out) {
  if (json.is_object()) {
    if (json.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const auto& [key, value] : json.items()) {
      out << YAML::Key << key << YAML::Value;
      write(value, out);
    }
    out << YAML::EndMap;
  } else if (json.is_array()) {
    const bool texts = std::any_of(json.begin(), json.end(), [](const Json& item) {
      return item.is_string() && item.get_ref<const std::string&>().size() > 16;
    });
    if (is_flat(json) && !texts) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const Json& item : json) write(item, out);
    out << YAML::EndSeq;
  } else if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    // A word that would be read as something else than a text.
    static const std::set<std::string> words = {"",      "true", "false", "null", "yes", "no",
                                                "on",    "off",  "~",     "y",    "n",   "True",
                                                "False", "None", "Yes",   "No"};
    const bool number = text.find_first_not_of("0123456789.+-eE_") == std::string::npos;
    if (text.find('\n') != std::string::npos)
      out << YAML::Literal << text;
    else if (number || words.contains(text))
      out << YAML::DoubleQuoted << text;
    else
      out << text;
  } else if (json.is_null()) {
    out << YAML::Null;
  } else if (json.is_number_float()) {
    out << yaml_number(json.get<double>());
  } else {
    out << json.dump();
  }
}

}  // namespace

const RefutedRule* exception_to(const Discovery& discovery, const DiscoveredRule& rule) {
  for (const RefutedRule& other : discovery.refuted)
    if (other.exception && other.witness && other.result == rule.result &&
        same_family(rule.operands, other.operands) &&
        same_family({rule.placement}, {other.placement}))
      return &other;
  return nullptr;
}

std::string report_yaml(const Discovery& discovery) {
  YAML::Emitter out;
  write(document_of(discovery), out);
  return std::string(out.c_str()) + "\n";
}

std::string report_json(const Discovery& discovery) {
  Json json = document_of(discovery);
  json["processor_seconds"] = discovery.processor_seconds;
  // Every rule in one list, in the order of the table.
  json["rules"] = Json::array();
  for (const DiscoveredRule& rule : discovery.rules)
    json["rules"].push_back({{"operands", texts_of(rule.operands)},
                             {"result", rule.result},
                             {"placement", to_string(rule.placement)},
                             {"when", rule.condition},
                             {"because", rule.justification},
                             {"implied", rule.implied},
                             {"verdict", verdict_with_tests(rule)}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cleave
