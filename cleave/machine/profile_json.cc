#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cleave/core/error.h"
#include "cleave/machine/profile.h"

namespace cleave {
namespace {

using Json = nlohmann::ordered_json;

struct Field {
  const char* name;
  double MachineProfile::*value;
};
constexpr Field kFields[] = {
    {"memory_bytes", &MachineProfile::memory_bytes},
    {"memory_gbps", &MachineProfile::memory_gbps},
    {"cache_bytes", &MachineProfile::cache_bytes},
    {"cache_gbps", &MachineProfile::cache_gbps},
    {"launch_us", &MachineProfile::launch_us},
    {"matmul_launch_us", &MachineProfile::matmul_launch_us},
    {"vector_tflops", &MachineProfile::vector_tflops},
};

struct ProtocolField {
  const char* name;
  double CollectiveProtocol::*value;
};
constexpr ProtocolField kProtocolFields[] = {
    {"base_us", &CollectiveProtocol::base_us},
    {"ring_us", &CollectiveProtocol::ring_us},
    {"inside_us", &CollectiveProtocol::inside_us},
    {"across_us", &CollectiveProtocol::across_us},
    {"across_log2_us", &CollectiveProtocol::across_log2_us},
    {"inside_gbps", &CollectiveProtocol::inside_gbps},
    {"across_gbps", &CollectiveProtocol::across_gbps},
};

double number(const Json& json, const std::string& where) {
  if (!json.is_number()) throw_user("machine profile: {} must be a number", where);
  const double value = json.get<double>();
  if (!(value >= 0)) throw_user("machine profile: {} must not be negative", where);
  return value;
}

const Json& object(const Json& json, const std::string& where) {
  if (!json.is_object()) throw_user("machine profile: {} must be an object", where);
  return json;
}

CollectiveKind kind_of(const std::string& key, const std::string& where) {
  auto kind = collective_kind_from_name(key);
  if (!kind) throw_user("machine profile: {}: unknown collective '{}'", where, key);
  return *kind;
}

CollectiveProtocol protocol_from(const Json& json, const std::string& where) {
  CollectiveProtocol protocol;
  for (const auto& [key, value] : object(json, where).items()) {
    if (key == "name" && value.is_string()) {
      protocol.name = value.get<std::string>();
      continue;
    }
    const ProtocolField* found = nullptr;
    for (const ProtocolField& field : kProtocolFields)
      if (key == field.name) found = &field;
    if (!found) throw_user("machine profile: {}: unknown field '{}'", where, key);
    protocol.*found->value = number(value, where + "." + key);
  }
  if (protocol.inside_gbps <= 0) throw_user("machine profile: {}.inside_gbps must be given", where);
  if (protocol.across_gbps <= 0) protocol.across_gbps = protocol.inside_gbps;
  return protocol;
}

void read_matmul(const Json& json, MachineProfile& profile) {
  profile.matmul.clear();
  for (const auto& [key, value] : object(json, "matmul").items()) {
    auto dtype = dtype_from_name(key);
    if (!dtype) throw_user("machine profile: matmul: unknown element type '{}'", key);
    MatmulRate& rate = profile.matmul[*dtype];
    for (const auto& [field, entry] : object(value, "matmul." + key).items()) {
      const double x = number(entry, "matmul." + key + "." + field);
      if (field == "tflops")
        rate.tflops = x;
      else if (field == "ramp_us")
        rate.ramp_us = x;
      else if (field == "ramp_exponent")
        rate.ramp_exponent = x;
      else
        throw_user("machine profile: matmul.{}: unknown field '{}'", key, field);
    }
    if (rate.tflops <= 0) throw_user("machine profile: matmul.{}.tflops must be positive", key);
  }
}

void read_efficiency(const Json& json, MachineProfile& profile) {
  for (const auto& [key, value] : object(json, "bandwidth_efficiency").items()) {
    bool known = false;
    for (int i = 0; i < kNumKernelClasses; ++i) {
      if (key != name(static_cast<KernelClass>(i))) continue;
      known = true;
      profile.bandwidth_efficiency[i] = number(value, "bandwidth_efficiency." + key);
      if (profile.bandwidth_efficiency[i] <= 0)
        throw_user("machine profile: bandwidth_efficiency.{} must be positive", key);
    }
    if (!known) throw_user("machine profile: bandwidth_efficiency: unknown kind '{}'", key);
  }
}

void read_collectives(const Json& json, MachineProfile& profile) {
  for (const auto& [key, list] : object(json, "collectives").items()) {
    const std::string where = "collectives." + key;
    const CollectiveKind kind = kind_of(key, "collectives");
    if (!list.is_array() || list.empty())
      throw_user("machine profile: {} must be a list of protocols", where);
    auto& protocols = profile.collectives[static_cast<size_t>(kind)];
    protocols.clear();
    for (const Json& entry : list) protocols.push_back(protocol_from(entry, where));
  }
}

void read_axes(const Json& json, MachineProfile& profile) {
  for (const auto& [axis, kinds] : object(json, "axes").items()) {
    AxisLinks links{};
    for (const auto& [key, value] : object(kinds, "axes." + axis).items()) {
      const std::string where = "axes." + axis + "." + key;
      AxisLink link;
      for (const auto& [field, entry] : object(value, where).items()) {
        if (field == "latency_us")
          link.latency_us = number(entry, where + ".latency_us");
        else if (field == "gbps")
          link.gbps = number(entry, where + ".gbps");
        else
          throw_user("machine profile: {}: unknown field '{}'", where, field);
      }
      if (link.gbps <= 0) throw_user("machine profile: {}.gbps must be positive", where);
      if (key == "all")
        links.fill(link);
      else
        links[static_cast<size_t>(kind_of(key, "axes." + axis))] = link;
    }
    for (int i = 0; i < kNumCollectiveKinds; ++i)
      if (links[i].gbps <= 0)
        throw_user("machine profile: axes.{} says nothing of {}; give it, or \"all\"", axis,
                   name(static_cast<CollectiveKind>(i)));
    profile.axis_links[axis] = links;
  }
}

Json protocol_json(const CollectiveProtocol& protocol) {
  Json json = {{"name", protocol.name}};
  for (const ProtocolField& field : kProtocolFields)
    if (protocol.*field.value != 0) json[field.name] = protocol.*field.value;
  return json;
}

}  // namespace

std::string to_json(const MachineProfile& profile) {
  Json json;
  json["name"] = profile.name;
  json["devices_per_node"] = profile.devices_per_node;
  if (profile.concurrent_devices > 0) json["concurrent_devices"] = profile.concurrent_devices;
  for (const Field& field : kFields) json[field.name] = profile.*field.value;
  for (const auto& [dtype, rate] : profile.matmul)
    json["matmul"][std::string(name(dtype))] = {
        {"tflops", rate.tflops}, {"ramp_us", rate.ramp_us}, {"ramp_exponent", rate.ramp_exponent}};
  for (int i = 0; i < kNumKernelClasses; ++i)
    json["bandwidth_efficiency"][std::string(name(static_cast<KernelClass>(i)))] =
        profile.bandwidth_efficiency[i];
  for (int i = 0; i < kNumCollectiveKinds; ++i) {
    Json list = Json::array();
    for (const CollectiveProtocol& protocol : profile.collectives[i])
      list.push_back(protocol_json(protocol));
    json["collectives"][std::string(name(static_cast<CollectiveKind>(i)))] = list;
  }
  for (const auto& [axis, links] : profile.axis_links)
    for (int i = 0; i < kNumCollectiveKinds; ++i)
      json["axes"][axis][std::string(name(static_cast<CollectiveKind>(i)))] = {
          {"latency_us", links[i].latency_us}, {"gbps", links[i].gbps}};
  return json.dump(2);
}

MachineProfile profile_from_json(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw_user("machine profile: {}", error.what());
  }
  object(json, "the file");
  MachineProfile profile = default_profile();
  if (json.contains("base")) {
    if (!json["base"].is_string()) throw_user("machine profile: base must be a name");
    profile = builtin_profile(json["base"].get<std::string>());
  }
  for (const auto& [key, value] : json.items()) {
    if (key == "base") continue;
    const Field* found = nullptr;
    for (const Field& field : kFields)
      if (key == field.name) found = &field;
    if (found)
      profile.*found->value = number(value, key);
    else if (key == "name" && value.is_string())
      profile.name = value.get<std::string>();
    else if (key == "concurrent_devices")
      profile.concurrent_devices = number(value, key);
    else if (key == "devices_per_node")
      profile.devices_per_node = static_cast<int64_t>(number(value, key));
    else if (key == "matmul")
      read_matmul(value, profile);
    else if (key == "bandwidth_efficiency")
      read_efficiency(value, profile);
    else if (key == "collectives")
      read_collectives(value, profile);
    else if (key == "axes")
      read_axes(value, profile);
    else
      throw_user("machine profile: unknown field '{}'", key);
  }
  if (profile.devices_per_node < 1)
    throw_user("machine profile: devices_per_node must be at least 1");
  if (profile.memory_gbps <= 0) throw_user("machine profile: memory_gbps must be positive");
  return profile;
}

MachineProfile load_profile(const std::string& name_or_path) {
  for (const std::string& name : builtin_profile_names())
    if (name == name_or_path) return builtin_profile(name);
  std::ifstream file(name_or_path);
  if (!file) return builtin_profile(name_or_path);
  std::stringstream text;
  text << file.rdbuf();
  return profile_from_json(text.str());
}

}  // namespace cleave
