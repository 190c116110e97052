#include "cleave/rewrite/pass.h"

#include <algorithm>
#include <chrono>

#include "cleave/core/error.h"
#include "cleave/core/number_text.h"

namespace cleave {

std::string PassOptions::get(std::string_view name, std::string fallback) const {
  const auto it = values_.find(name);
  return it == values_.end() ? fallback : it->second;
}

bool PassOptions::get_bool(std::string_view name, bool fallback) const {
  const auto it = values_.find(name);
  if (it == values_.end()) return fallback;
  if (it->second == "true" || it->second == "1" || it->second.empty()) return true;
  if (it->second == "false" || it->second == "0") return false;
  throw_user("option '{}' must be true or false, not '{}'", name, it->second);
}

int64_t PassOptions::get_int(std::string_view name, int64_t fallback) const {
  const auto it = values_.find(name);
  if (it == values_.end()) return fallback;
  const auto value = number_of<int64_t>(it->second);
  if (!value) throw_user("option '{}' must be an integer, not '{}'", name, it->second);
  return *value;
}

void PassRegistry::add(Pass pass) {
  std::string name = pass.name;
  const bool fresh = passes_.emplace(std::move(name), std::move(pass)).second;
  internal_check(fresh, "a pass is registered twice");
}

const Pass* PassRegistry::find(std::string_view name) const {
  const auto it = passes_.find(name);
  return it == passes_.end() ? nullptr : &it->second;
}

PassOptions parse_pass_options(std::string_view text) {
  PassOptions options;
  for (size_t pos = 0; pos < text.size();) {
    if (text[pos] == ' ' || text[pos] == ',') {
      ++pos;
      continue;
    }
    const size_t end = std::min(text.find(' ', pos), text.size());
    const std::string_view word = text.substr(pos, end - pos);
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos)
      options.set(std::string(word), "");
    else
      options.set(std::string(word.substr(0, equals)), std::string(word.substr(equals + 1)));
    pos = end;
  }
  return options;
}

std::vector<PassCall> parse_pipeline(std::string_view text) {
  std::vector<PassCall> calls;
  int depth = 0;
  size_t pos = 0;
  const auto fail = [&](std::string_view what) {
    throw_user("pipeline '{}': {} at character {}", text, what, pos + 1);
  };
  while (pos < text.size()) {
    const char c = text[pos];
    if (c == ' ' || c == ',') {
      ++pos;
      continue;
    }
    if (c == ')') {
      if (depth-- == 0) fail("unexpected ')'");
      ++pos;
      continue;
    }
    const size_t end = std::min(text.find_first_of("(){}, ", pos), text.size());
    if (end == pos) fail("expected the name of a pass");
    const std::string name(text.substr(pos, end - pos));
    pos = end;
    if (pos < text.size() && text[pos] == '(') {
      if (name != "builtin.module" && name != "func.func" && name != "any")
        fail("expected builtin.module or func.func before '('");
      ++depth;
      ++pos;
      continue;
    }
    PassCall call{name, {}};
    if (pos < text.size() && text[pos] == '{') {
      const size_t close = text.find('}', pos);
      if (close == std::string_view::npos) fail("'{' without '}'");
      call.options = parse_pass_options(text.substr(pos + 1, close - pos - 1));
      pos = close + 1;
    }
    calls.push_back(std::move(call));
  }
  if (depth != 0) fail("'(' without ')'");
  return calls;
}

std::vector<PassTiming> run_pipeline(Graph& graph, const std::vector<PassCall>& calls,
                                     PassContext& context, const PipelineObserver& observer) {
  const PassRegistry& registry = pass_registry();
  for (const PassCall& call : calls) {
    const Pass* pass = registry.find(call.name);
    if (!pass) throw_user("unknown pass '{}'; cleave opt --list-passes names them", call.name);
    for (const auto& [option, value] : call.options.values())
      if (std::find(pass->options.begin(), pass->options.end(), option) == pass->options.end())
        throw_user("pass '{}' has no option '{}'", call.name, option);
  }
  std::vector<PassTiming> timings;
  for (const PassCall& call : calls) {
    const auto begin = std::chrono::steady_clock::now();
    registry.find(call.name)->run(graph, call.options, context);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    timings.push_back({call.name, seconds.count()});
    if (observer.after) observer.after(call, graph);
  }
  return timings;
}

}  // namespace cleave
