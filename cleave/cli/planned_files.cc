#include "cleave/cli/planned_files.h"

#include <fmt/core.h>

#include <filesystem>

#include "cleave/cli/modules.h"
#include "cleave/core/error.h"
#include "cleave/models/registry.h"

namespace cleave::cli {

bool is_plan(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string::npos && text[begin] == '{' &&
         text.find("\"cleave-plan\"") != std::string::npos;
}

plan::Plan read_planned(const std::string& file, const std::string& text) {
  try {
    return plan::plan_from_json(text);
  } catch (const UserError& error) {
    throw_user("{}: {}", file, error.what());
  }
}

std::optional<Graph> module_of_plan(const plan::Plan& plan, const std::string& given) {
  if (!given.empty()) return read_module(given);
  if (plan.source.empty()) return std::nullopt;
  try {
    return read_module(plan.source);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::string why_no_module(const plan::Plan& plan) {
  if (plan.source.empty()) return "the plan does not say where its module is";
  return fmt::format("the module {} cannot be read", plan.source);
}

std::string source_of(const std::string& file) {
  if (file == "-" || models::is_model_name(file)) return file == "-" ? "" : file;
  return std::filesystem::absolute(file).lexically_normal().string();
}

}  // namespace cleave::cli
