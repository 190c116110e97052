#include <algorithm>
#include <cctype>

#include "cleave/report/model_blocks.h"

namespace cleave::report {
namespace {

// What is inside "name(...)", or the text itself: transpose(jvp(layer_3)) -> layer_3.
std::string_view unwrapped(std::string_view scope) {
  while (scope.ends_with(")")) {
    const size_t open = scope.find('(');
    if (open == std::string_view::npos) return scope;
    scope = scope.substr(open + 1, scope.size() - open - 2);
  }
  return scope;
}

// Scopes that say nothing about the model: what a tracer or a loop puts around ops.
bool is_of_tracer(std::string_view scope, std::string_view whole) {
  constexpr std::string_view kWords[] = {"",
                                         "main",
                                         "while",
                                         "body",
                                         "cond",
                                         "scan",
                                         "remat",
                                         "checkpoint",
                                         "closed_call",
                                         "rematted_computation",
                                         "custom_jvp_call",
                                         "custom_vjp_call",
                                         "pjit",
                                         "shard_map",
                                         "vmap"};
  if (whole.starts_with("jit(") || whole.starts_with("pjit(")) return true;
  return std::find(std::begin(kWords), std::end(kWords), scope) != std::end(kWords) ||
         scope.starts_with("branch_");
}

// At slashes outside of brackets.
std::vector<std::string_view> split_scopes(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] == '(' || text[i] == '[')) ++depth;
    if (i < text.size() && (text[i] == ')' || text[i] == ']')) --depth;
    if (i < text.size() && (text[i] != '/' || depth > 0)) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

}  // namespace

std::vector<std::string> path_of_name(std::string_view name) {
  std::vector<std::string> parts;
  std::string part;
  for (size_t i = 0; i <= name.size(); ++i) {
    const bool splits = i == name.size() ||
                        std::string_view("./[]'\"(){}%").find(name[i]) != std::string_view::npos;
    if (!splits) {
      part += name[i];
    } else if (!part.empty()) {
      parts.push_back(std::move(part));
      part.clear();
    }
  }
  return parts;
}

std::vector<std::string> scopes_of(std::string_view location) {
  std::vector<std::string> scopes;
  if (location.empty() || location.front() != '"') return scopes;
  const size_t end = location.find('"', 1);
  if (end == std::string_view::npos) return scopes;
  // A file and a line are no scopes.
  if (end + 1 < location.size() && location[end + 1] == ':') return scopes;
  std::vector<std::string_view> parts = split_scopes(location.substr(1, end - 1));
  if (parts.empty() || parts.size() < 2 || !parts.front().starts_with("jit(")) return scopes;
  parts.pop_back();  // the op
  for (std::string_view part : parts) {
    const std::string_view scope = unwrapped(part);
    if (!is_of_tracer(scope, part)) scopes.emplace_back(scope);
  }
  return scopes;
}

std::optional<Repetition> find_repetition(const std::vector<int>& list) {
  std::optional<Repetition> best;
  size_t most = 0;
  for (size_t length = 1; 2 * length <= list.size(); ++length) {
    size_t same = 0;  // how far the list has been what it was a length ago
    for (size_t i = length; i < list.size(); ++i) {
      same = list[i] == list[i - length] ? same + 1 : 0;
      const size_t times = same / length + 1;
      if (times < 2 || times * length <= most) continue;
      most = times * length;
      best = Repetition{i + 1 - most, length, times};
    }
  }
  return best;
}

}  // namespace cleave::report
