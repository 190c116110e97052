#include "cleave/plan/pins.h"

#include "cleave/core/error.h"

namespace cleave::plan {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

int axis_called(std::string_view name, const Mesh& mesh, std::string_view text) {
  std::string names;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (mesh.axes[a].name == name) return static_cast<int>(a);
    names += (names.empty() ? "" : ", ") + mesh.axes[a].name;
  }
  throw_user("'{}': the mesh has no axis '{}'; it has {}", text, name, names);
}

}  // namespace

Pin parse_pin(std::string_view given, const MeshPtr& mesh) {
  const std::string_view text = trimmed(given);
  Pin pin;
  pin.text = text;
  constexpr std::string_view kForbid = "forbid ", kReplicate = "replicate ";
  if (text.starts_with(kReplicate)) {
    pin.pattern = trimmed(text.substr(kReplicate.size()));
    if (pin.pattern.empty()) throw_user("'{}': expected replicate NAME", text);
    for (size_t a = 0; a < mesh->axes.size(); ++a)
      pin.without.push_back(whole_axis(*mesh, static_cast<int>(a)));
    return pin;
  }
  const bool forbids = text.starts_with(kForbid);
  const std::string_view rest = forbids ? text.substr(kForbid.size()) : text;
  const size_t equals = rest.find('=');
  if (equals == std::string_view::npos || trimmed(rest.substr(0, equals)).empty())
    throw_user(
        "pin '{}': expected NAME=SPEC, such as arg0=[{{\"data\"}}, {{}}], forbid NAME=AXES or "
        "replicate NAME",
        text);
  pin.pattern = trimmed(rest.substr(0, equals));
  std::string_view value = trimmed(rest.substr(equals + 1));
  if (!forbids) {
    try {
      pin.spec = parse_sharding(std::string(value), mesh);
    } catch (const UserError& error) {
      throw_user("pin '{}': {}", text, error.what());
    }
    return pin;
  }
  while (true) {
    const size_t comma = std::min(value.find(','), value.size());
    const int axis = axis_called(trimmed(value.substr(0, comma)), *mesh, text);
    pin.without.push_back(whole_axis(*mesh, axis));
    if (comma == value.size()) break;
    value.remove_prefix(comma + 1);
  }
  return pin;
}

std::vector<Pin> parse_pins(std::string_view lines, const MeshPtr& mesh) {
  std::vector<Pin> pins;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = trimmed(lines.substr(0, end));
    lines.remove_prefix(std::min(lines.size(), end + 1));
    if (!line.empty() && line[0] != '#') pins.push_back(parse_pin(line, mesh));
  }
  return pins;
}

bool applies(const Pin& pin, std::string_view name, size_t rank) {
  if (name.empty() || !matches_pattern(name, pin.pattern)) return false;
  if (!pin.spec.mesh) return rank > 0;
  return pin.spec.rank() == rank || pin.pattern.find('*') == std::string::npos;
}

ShardingSpec spec_for(const Pin& pin, const MeshPtr& mesh, size_t rank) {
  if (pin.spec.mesh) return pin.spec;
  ShardingSpec spec = ShardingSpec::closed_replicated(mesh, rank);
  for (DimSpec& dim : spec.dims) dim.open = pin.without.size() < mesh->axes.size();
  if (pin.without.size() < mesh->axes.size()) spec.replicated = pin.without;
  return spec;
}

bool matches(const ShardingSpec& spec, const ShardingSpec& pin) {
  for (size_t d = 0; d < pin.dims.size(); ++d) {
    const AxisList &has = spec.dims[d].axes, &wants = pin.dims[d].axes;
    if (pin.dims[d].open ? !is_prefix_of(wants, has) : has != wants) return false;
    for (const AxisRef& ref : has)
      if (overlaps_any(ref, pin.replicated)) return false;
  }
  return spec.partial == pin.partial;
}

bool matches_pattern(std::string_view name, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  for (size_t i = star; i <= name.size(); ++i)
    if (matches_pattern(name.substr(i), pattern.substr(star + 1))) return true;
  return false;
}

}  // namespace cleave::plan
