#include "cleave/train/run_config.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "cleave/core/error.h"

namespace cleave::train {
namespace {

using ConfigJson = nlohmann::ordered_json;

// Calls f(name, member) for every field, in the order in which they are written.
template <typename Config, typename F>
void for_each_field(Config& c, const F& f) {
  f("model", c.model);
  f("data", c.data);
  f("eval-data", c.eval_data);
  f("eval-share", c.eval_share);
  f("batch", c.batch);
  f("length", c.length);
  f("accumulate", c.accumulate);
  f("steps", c.steps);
  f("seed", c.seed);
  f("dtype", c.dtype);
  f("optimizer", c.optimizer);
  f("rate", c.rate);
  f("warmup", c.warmup);
  f("schedule", c.schedule);
  f("clip", c.clip);
  f("weight-decay", c.weight_decay);
  f("plan", c.plan);
  f("mesh", c.mesh);
  f("devices", c.devices);
  f("machine", c.machine);
  f("memory", c.memory);
  f("engine", c.engine);
  f("eval-every", c.eval_every);
  f("eval-batches", c.eval_batches);
  f("save-every", c.save_every);
  f("keep", c.keep);
  f("read-every", c.read_every);
}

// Fields of which the course of a training does not depend.
bool is_free(std::string_view name, const RunConfig& config) {
  for (const char* free : {"plan", "mesh", "devices", "machine", "memory", "engine", "eval-data",
                           "eval-every", "eval-batches", "save-every", "keep", "read-every"})
    if (name == free) return true;
  return name == "steps" && config.schedule == "constant";
}

std::string shown(const ConfigJson& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const ConfigJson& each : value) text += (text.empty() ? "" : " ") + shown(each);
  return text;
}

}  // namespace

std::string to_json(const RunConfig& config) {
  ConfigJson json;
  for_each_field(config, [&](const char* name, const auto& member) { json[name] = member; });
  return json.dump(2) + "\n";
}

RunConfig run_config_from_json(const std::string& text, const std::string& path) {
  const ConfigJson json = ConfigJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw_user("'{}' is no JSON object; a training's config was expected", path);
  RunConfig config;
  for_each_field(config, [&](const char* name, auto& member) {
    if (!json.contains(name)) return;
    try {
      json.at(name).get_to(member);
    } catch (const ConfigJson::exception&) {
      throw_user("'{}': the field \"{}\" is {}, of another kind than expected", path, name,
                 json.at(name).dump());
    }
  });
  return config;
}

std::string difference(const RunConfig& before, const RunConfig& now) {
  ConfigJson first, second;
  for_each_field(before, [&](const char* name, const auto& member) { first[name] = member; });
  for_each_field(now, [&](const char* name, const auto& member) { second[name] = member; });
  for (const auto& [name, value] : first.items())
    if (!is_free(name, now) && value != second[name])
      return fmt::format("it was begun with {}{} {}, and is now given {}",
                         name == "model" ? "" : "--", name, shown(value), shown(second[name]));
  return {};
}

}  // namespace cleave::train
