#include "cleave/report/schema_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::report {
namespace {

class SchemaCheck {
 public:
  explicit SchemaCheck(const Json& schema) : root_(schema) {}

  // Of a value at a place such as `refuted[3].inputs`; the document itself has no name.
  std::string fault(const Json& value, const Json& rule, const std::string& place) const {
    if (rule.contains("$ref")) return fault(value, definition(rule["$ref"]), place);
    if (rule.contains("enum") && !contains(rule["enum"], value))
      return fmt::format("{} is not one of {}", named(place), listed(rule["enum"]));
    if (rule.contains("type") && !has_type(value, rule["type"]))
      return fmt::format("{} is {}, not {}", named(place), value.type_name(), listed(rule["type"]));
    if (rule.contains("minimum") && value.is_number() && value < rule["minimum"])
      return fmt::format("{} is {}, less than {}", named(place), value.dump(),
                         rule["minimum"].dump());
    if (rule.contains("minLength") && value.is_string() &&
        value.get_ref<const std::string&>().size() < rule["minLength"].get<size_t>())
      return fmt::format("{} is empty", named(place));
    if (value.is_object()) return fault_of_members(value, rule, place);
    if (!value.is_array() || !rule.contains("items")) return {};
    for (size_t i = 0; i < value.size(); ++i)
      if (std::string found = fault(value[i], rule["items"], fmt::format("{}[{}]", place, i));
          !found.empty())
        return found;
    return {};
  }

 private:
  std::string fault_of_members(const Json& value, const Json& rule,
                               const std::string& place) const {
    const auto below = [&](const std::string& name) {
      return place.empty() ? name : place + "." + name;
    };
    if (rule.contains("required"))
      for (const std::string name : rule["required"])
        if (!value.contains(name)) return fmt::format("{} is missing", below(name));
    for (const auto& [name, member] : value.items()) {
      const Json* own = nullptr;
      if (rule.contains("properties") && rule["properties"].contains(name))
        own = &rule["properties"][name];
      else if (rule.contains("additionalProperties"))
        own = &rule["additionalProperties"];
      if (!own) continue;
      if (std::string found = fault(member, *own, below(name)); !found.empty()) return found;
    }
    return {};
  }

  const Json& definition(const std::string& reference) const {
    return root_.at(Json::json_pointer(reference.substr(1)));
  }

  static std::string named(const std::string& place) { return place.empty() ? "it" : place; }

  static bool contains(const Json& list, const Json& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  }

  static std::string listed(const Json& one_or_more) {
    if (!one_or_more.is_array()) return one_or_more.get<std::string>();
    std::string text;
    for (const Json& each : one_or_more) text += (text.empty() ? "" : ", ") + each.dump();
    return text;
  }

  static bool has_type(const Json& value, const Json& type) {
    if (type.is_array())
      return std::any_of(type.begin(), type.end(),
                         [&](const Json& each) { return has_type(value, each); });
    if (type == "integer") return value.is_number_integer();
    return type == value.type_name();
  }

  const Json& root_;
};

}  // namespace

std::string schema_fault(const Json& document, const Json& schema) {
  return SchemaCheck(schema).fault(document, schema, "");
}

}  // namespace cleave::report
