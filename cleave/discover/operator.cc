#include "cleave/discover/operator.h"

#include <fmt/core.h>

namespace cleave {

std::string to_string(const AttrValue& value) {
  struct Printer {
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(const std::string& v) const { return "'" + v + "'"; }
    std::string operator()(const std::vector<int64_t>& v) const {
      std::string text = "[";
      for (size_t i = 0; i < v.size(); ++i) text += (i ? ", " : "") + std::to_string(v[i]);
      return text + "]";
    }
  };
  return std::visit(Printer{}, value);
}

std::string to_string(const AttrMap& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs)
    text += (text.empty() ? "" : ", ") + name + "=" + to_string(value);
  return text;
}

std::string to_string(const Sample& sample) {
  std::string text;
  for (const TensorDesc& desc : sample.operands) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{}{}{}", to_string(desc.shape), desc.shape.empty() ? "" : " ",
                        name(desc.dtype));
  }
  if (!sample.attrs.empty()) text += "; " + to_string(sample.attrs);
  return text;
}

}  // namespace cleave
