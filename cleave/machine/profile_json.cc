#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "cleave/core/error.h"
#include "cleave/core/input_file.h"
#include "cleave/machine/host_profile.h"
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
    {"attention_tflops", &MachineProfile::attention_tflops},
    {"attention_backward_tflops", &MachineProfile::attention_backward_tflops},
    {"attention_small_heads", &MachineProfile::attention_small_heads},
};
constexpr int kVersion = 1;

// Members of a struct by the name that they have in a file.
template <typename Struct>
struct Member {
  const char* name;
  std::variant<bool Struct::*, int64_t Struct::*, double Struct::*> value;
};
constexpr Member<ExecutorProfile> kExecutorMembers[] = {
    {"fuses", &ExecutorProfile::fuses},
    {"recomputes", &ExecutorProfile::recomputes},
    {"merges_siblings", &ExecutorProfile::merges_siblings},
    {"runs_library_ops", &ExecutorProfile::runs_library_ops},
    {"updates_together", &ExecutorProfile::updates_together},
    {"adds_bias", &ExecutorProfile::adds_bias},
    {"flash_attention", &ExecutorProfile::flash_attention},
    {"tf32", &ExecutorProfile::tf32},
    {"overlaps", &ExecutorProfile::overlaps},
    {"launch_us", &ExecutorProfile::launch_us},
    {"host_us", &ExecutorProfile::host_us},
    {"step_us", &ExecutorProfile::step_us},
    {"argument_us", &ExecutorProfile::argument_us},
    {"elementwise_share", &ExecutorProfile::elementwise_share},
    {"reduction_share", &ExecutorProfile::reduction_share},
    {"rows_share", &ExecutorProfile::rows_share},
    {"transpose_share", &ExecutorProfile::transpose_share},
    {"strided_share", &ExecutorProfile::strided_share},
    {"short_row", &ExecutorProfile::short_row},
    {"longest_row", &ExecutorProfile::longest_row},
    {"most_reads", &ExecutorProfile::most_reads},
    {"update_share", &ExecutorProfile::update_share},
    {"product_share", &ExecutorProfile::product_share},
    {"vector_tops", &ExecutorProfile::vector_tops},
    {"function_ops", &ExecutorProfile::function_ops},
    {"rows_tops", &ExecutorProfile::rows_tops},
    {"row_elements", &ExecutorProfile::row_elements},
    {"integer_work", &ExecutorProfile::integer_work},
    {"window_work", &ExecutorProfile::window_work},
    {"collision_us", &ExecutorProfile::collision_us},
    {"exchange_us", &ExecutorProfile::exchange_us},
    {"long_function", &ExecutorProfile::long_function},
    {"long_chain", &ExecutorProfile::long_chain},
    {"reorder_bytes", &ExecutorProfile::reorder_bytes},
    {"loop_launch_us", &ExecutorProfile::loop_launch_us},
    {"trip_launches", &ExecutorProfile::trip_launches},
    {"most_copies", &ExecutorProfile::most_copies},
    {"workspace_bytes", &ExecutorProfile::workspace_bytes},
    {"memory_share", &ExecutorProfile::memory_share},
    {"overlap_slowdown", &ExecutorProfile::overlap_slowdown},
};
constexpr Member<TileModel> kTileMembers[] = {
    {"units", &TileModel::units},
    {"launch_us", &TileModel::launch_us},
    {"small_share", &TileModel::small_share},
    {"last_wave", &TileModel::last_wave},
    {"row_bytes", &TileModel::row_bytes},
    {"odd_rows", &TileModel::odd_rows},
    {"even_rows", &TileModel::even_rows},
    {"odd_depth", &TileModel::odd_depth},
    {"dilated_share", &TileModel::dilated_share},
    {"convolution_share", &TileModel::convolution_share},
    {"depthwise_tflops", &TileModel::depthwise_tflops},
    {"narrow_tflops", &TileModel::narrow_tflops},
    {"narrow_share", &TileModel::narrow_share},
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
    {"across_base_us", &CollectiveProtocol::across_base_us},
    {"local_gbps", &CollectiveProtocol::local_gbps},
};

struct ProtocolFlag {
  const char* name;
  bool CollectiveProtocol::*value;
};
constexpr ProtocolFlag kProtocolFlags[] = {
    {"shared_memory", &CollectiveProtocol::shared_memory},
    {"tree", &CollectiveProtocol::tree},
    {"in_switch", &CollectiveProtocol::in_switch},
};

// Limits that no machine exceeds, and within which sums and products stay finite.
struct Limits {
  std::string_view suffix;  // of the field's name
  double least, most;       // if it is not 0
};
constexpr Limits kLimits[] = {
    {"_us", 0, 1e9},         {"gbps", 1e-6, 1e12}, {"tflops", 1e-9, 1e9}, {"_bytes", 0, 1e18},
    {"ramp_exponent", 0, 4}, {"_share", 1e-3, 1},  {"_slowdown", 0, 100}, {"", 0, 1e18},
};

double number(const Json& json, const std::string& where) {
  if (!json.is_number()) throw_user("machine profile: {} must be a number", where);
  const double value = json.get<double>();
  if (!(value >= 0)) throw_user("machine profile: {} must not be negative", where);
  if (!std::isfinite(value)) throw_user("machine profile: {} must be finite", where);
  for (const Limits& limits : kLimits)
    if (where.ends_with(limits.suffix)) {
      if (value != 0 && (value < limits.least || value > limits.most))
        throw_user("machine profile: {} is {:g}; it must lie between {:g} and {:g}", where, value,
                   limits.least, limits.most);
      break;
    }
  return value;
}

int64_t whole_number(const Json& json, const std::string& where) {
  const double value = number(json, where);
  if (value < 1 || value > 1e9 || value != std::floor(value))
    throw_user("machine profile: {} must be a whole number from 1 to 1e9", where);
  return static_cast<int64_t>(value);
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

bool read_flag(const std::string& key, const Json& value, const std::string& where,
               CollectiveProtocol& protocol) {
  for (const ProtocolFlag& flag : kProtocolFlags) {
    if (key != flag.name) continue;
    if (!value.is_boolean())
      throw_user("machine profile: {}.{} must be true or false", where, flag.name);
    protocol.*flag.value = value.get<bool>();
    return true;
  }
  return false;
}

CollectiveProtocol protocol_from(const Json& json, const std::string& where) {
  CollectiveProtocol protocol;
  for (const auto& [key, value] : object(json, where).items()) {
    if (key == "name" && value.is_string()) {
      protocol.name = value.get<std::string>();
      continue;
    }
    if (read_flag(key, value, where, protocol)) continue;
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

DType dtype_of(const std::string& key, const std::string& where) {
  auto dtype = dtype_from_name(key);
  if (!dtype) throw_user("machine profile: {}: unknown element type '{}'", where, key);
  return *dtype;
}

int class_of(const std::string& key, const std::string& where) {
  for (int i = 0; i < kNumAllKernelClasses; ++i)
    if (key == name(static_cast<KernelClass>(i))) return i;
  throw_user("machine profile: {}: unknown kind '{}'", where, key);
}

void read_rates(const Json& json, const std::string& table, std::map<DType, MatmulRate>& rates) {
  rates.clear();
  for (const auto& [key, value] : object(json, table).items()) {
    const std::string where = table + "." + key;
    MatmulRate& rate = rates[dtype_of(key, table)];
    for (const auto& [field, entry] : object(value, where).items()) {
      const double x = number(entry, where + "." + field);
      if (field == "tflops")
        rate.tflops = x;
      else if (field == "ramp_us")
        rate.ramp_us = x;
      else if (field == "ramp_exponent")
        rate.ramp_exponent = x;
      else
        throw_user("machine profile: {}: unknown field '{}'", where, field);
    }
    if (rate.tflops <= 0) throw_user("machine profile: {}.tflops must be positive", where);
  }
}

void read_peaks(const Json& json, MachineProfile& profile) {
  profile.peak_tflops.clear();
  for (const auto& [key, value] : object(json, "peak_tflops").items()) {
    const std::string where = "peak_tflops." + key;
    double& peak = profile.peak_tflops[dtype_of(key, "peak_tflops")];
    peak = number(value, where);
    if (peak <= 0) throw_user("machine profile: {} must be positive", where);
  }
}

void read_efficiency(const Json& json, MachineProfile& profile) {
  for (const auto& [key, value] : object(json, "bandwidth_efficiency").items()) {
    double& efficiency = profile.bandwidth_efficiency[class_of(key, "bandwidth_efficiency")];
    efficiency = number(value, "bandwidth_efficiency." + key);
    if (efficiency <= 0)
      throw_user("machine profile: bandwidth_efficiency.{} must be positive", key);
  }
}

template <typename Struct, size_t n>
void read_member(const Json& json, const std::string& table, const std::string& key,
                 const Member<Struct> (&members)[n], Struct& out) {
  const std::string where = table + "." + key;
  for (const Member<Struct>& member : members) {
    if (key != member.name) continue;
    std::visit(
        [&](auto value) {
          using Value = std::remove_reference_t<decltype(out.*value)>;
          if constexpr (std::is_same_v<Value, bool>) {
            if (!json.is_boolean()) throw_user("machine profile: {} must be true or false", where);
            out.*value = json.get<bool>();
          } else {
            const double read = number(json, where);
            if (std::is_same_v<Value, int64_t> && (read > 1e9 || read != std::floor(read)))
              throw_user("machine profile: {} must be a whole number up to 1e9", where);
            if (where.ends_with("_share") && read <= 0)
              throw_user("machine profile: {} must be positive", where);
            out.*value = static_cast<Value>(read);
          }
        },
        member.value);
    return;
  }
  throw_user("machine profile: {}: unknown field '{}'", table, key);
}

template <typename Struct, size_t n>
void write_members(const Struct& from, const Member<Struct> (&members)[n], Json& json) {
  for (const Member<Struct>& member : members)
    std::visit([&](auto value) { json[member.name] = from.*value; }, member.value);
}

// "xla-gpu", or an object with such a name and what differs.
void read_executor(const Json& json, ExecutorProfile& executor) {
  if (json.is_string()) {
    const auto name = json.get<std::string>();
    executor = name.empty() ? ExecutorProfile{} : builtin_executor(name);
    return;
  }
  if (!json.is_object())
    throw_user("machine profile: executor must be a name ({}) or an object",
               fmt::join(builtin_executor_names(), ", "));
  if (json.contains("name")) read_executor(json["name"], executor);
  for (const auto& [key, value] : json.items())
    if (key != "name") read_member(value, "executor", key, kExecutorMembers, executor);
}

void read_tiles(const Json& json, TileModel& tiles) {
  for (const auto& [key, value] : object(json, "tiles").items()) {
    if (key != "tflops") {
      read_member(value, "tiles", key, kTileMembers, tiles);
      continue;
    }
    tiles.tflops.clear();
    for (const auto& [dtype, rate] : object(value, "tiles.tflops").items()) {
      const std::string where = "tiles.tflops." + dtype;
      tiles.tflops[dtype_of(dtype, "tiles.tflops")] = number(rate, where + ".tflops");
      if (number(rate, where) <= 0) throw_user("machine profile: {} must be positive", where);
    }
  }
  if (tiles.units > 0 && tiles.tflops.empty())
    throw_user("machine profile: tiles.tflops must have at least one rate");
}

KernelCurve curve_from(const Json& json, const std::string& where) {
  if (!json.is_array() || json.empty())
    throw_user("machine profile: {} must be a list of [bytes, microseconds]", where);
  KernelCurve curve;
  for (const Json& entry : json) {
    if (!entry.is_array() || entry.size() != 2)
      throw_user("machine profile: {} must be a list of [bytes, microseconds]", where);
    const CurvePoint point{number(entry[0], where), number(entry[1], where)};
    if (point.bytes <= 0 || point.us <= 0)
      throw_user("machine profile: {}: bytes and microseconds must be positive", where);
    if (!curve.empty() && (point.bytes <= curve.back().bytes || point.us < curve.back().us))
      throw_user("machine profile: {}: more bytes must come later and take no less time", where);
    curve.push_back(point);
  }
  return curve;
}

void read_loops(const Json& json, MachineProfile& profile) {
  profile.loops = {};
  for (const auto& [key, dtypes] : object(json, "loops").items()) {
    for (const auto& [dtype, ns] : object(dtypes, "loops." + key).items())
      profile.loops[key][dtype_of(dtype, "loops." + key)] =
          number(ns, "loops." + key + "." + dtype);
  }
}

void read_curves(const Json& json, MachineProfile& profile) {
  profile.curves = {};
  for (const auto& [key, dtypes] : object(json, "curves").items()) {
    const int kernel_class = class_of(key, "curves");
    for (const auto& [dtype, points] : object(dtypes, "curves." + key).items())
      profile.curves[kernel_class][dtype_of(dtype, "curves." + key)] =
          curve_from(points, "curves." + key + "." + dtype);
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
    for (const Json& entry : list) {
      protocols.push_back(protocol_from(entry, where));
      if (protocols.back().tree && kind != CollectiveKind::AllReduce)
        throw_user("machine profile: {}: only an all_reduce runs as a tree", where);
      if (protocols.back().in_switch && !protocols.back().tree)
        throw_user("machine profile: {}: in_switch needs \"tree\": true", where);
    }
  }
}

Network network_from(const Json& json) {
  Network network;
  for (const auto& [key, value] : object(json, "network").items()) {
    if (key == "gbps")
      network.gbps = number(value, "network.gbps");
    else if (key == "hop_us")
      network.hop_us = number(value, "network.hop_us");
    else
      throw_user("machine profile: network: unknown field '{}'", key);
  }
  if (network.gbps <= 0 || network.hop_us <= 0)
    throw_user("machine profile: network must give gbps and hop_us, both positive");
  return network;
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
  for (const ProtocolFlag& flag : kProtocolFlags)
    if (protocol.*flag.value) json[flag.name] = true;
  return json;
}

Json rates_json(const std::map<DType, MatmulRate>& rates) {
  Json json = Json::object();
  for (const auto& [dtype, rate] : rates)
    json[std::string(name(dtype))] = {
        {"tflops", rate.tflops}, {"ramp_us", rate.ramp_us}, {"ramp_exponent", rate.ramp_exponent}};
  return json;
}

}  // namespace

std::string to_json(const MachineProfile& profile) {
  Json json;
  json["version"] = kVersion;
  json["name"] = profile.name;
  json["devices_per_node"] = profile.devices_per_node;
  if (profile.concurrent_devices > 0) json["concurrent_devices"] = profile.concurrent_devices;
  if (profile.concurrent_memory > 0) json["concurrent_memory"] = profile.concurrent_memory;
  for (const Field& field : kFields) json[field.name] = profile.*field.value;
  json["matmul"] = rates_json(profile.matmul);
  if (!profile.convolution.empty()) json["convolution"] = rates_json(profile.convolution);
  json["peak_tflops"] = Json::object();
  for (const auto& [dtype, peak] : profile.peak_tflops)
    json["peak_tflops"][std::string(name(dtype))] = peak;
  write_members(profile.tiles, kTileMembers, json["tiles"]);
  json["tiles"]["tflops"] = Json::object();
  for (const auto& [dtype, tflops] : profile.tiles.tflops)
    json["tiles"]["tflops"][std::string(name(dtype))] = tflops;
  json["executor"]["name"] = profile.executor.name;
  write_members(profile.executor, kExecutorMembers, json["executor"]);
  for (int i = 0; i < kNumAllKernelClasses; ++i)
    json["bandwidth_efficiency"][std::string(name(static_cast<KernelClass>(i)))] =
        profile.bandwidth_efficiency[i];
  for (int i = 0; i < kNumAllKernelClasses; ++i)
    for (const auto& [dtype, curve] : profile.curves[i])
      for (const CurvePoint& point : curve)
        json["curves"][std::string(name(static_cast<KernelClass>(i)))][std::string(name(dtype))]
            .push_back(Json::array({point.bytes, point.us}));
  for (const auto& [op, loops] : profile.loops)
    for (const auto& [dtype, ns] : loops) json["loops"][op][std::string(name(dtype))] = ns;
  json["network"] = nullptr;
  if (profile.network.gbps > 0)
    json["network"] = {{"gbps", profile.network.gbps}, {"hop_us", profile.network.hop_us}};
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
    const std::string what = error.what();  // "[json.exception.parse_error.101] parse error at ..."
    throw_user("machine profile: {}", what.substr(std::min(what.size(), what.find("] ") + 2)));
  }
  object(json, "the file");
  if (json.contains("version") && json["version"] != kVersion)
    throw_user("machine profile: its version is {}; this program reads version {}",
               json["version"].dump(), kVersion);
  MachineProfile profile = default_profile();
  if (json.contains("base")) {
    if (!json["base"].is_string()) throw_user("machine profile: base must be a name");
    profile = builtin_profile(json["base"].get<std::string>());
  }
  // Before "collectives", which states everything itself.
  if (json.contains("network")) {
    if (json["network"].is_null())
      profile.network = {};
    else
      profile = with_network(profile, network_from(json["network"]));
  }
  for (const auto& [key, value] : json.items()) {
    if (key == "base" || key == "version" || key == "network") continue;
    const Field* found = nullptr;
    for (const Field& field : kFields)
      if (key == field.name) found = &field;
    if (found)
      profile.*found->value = number(value, key);
    else if (key == "name" && value.is_string())
      profile.name = value.get<std::string>();
    else if (key == "name")
      throw_user("machine profile: name must be a string");
    else if (key == "concurrent_devices")
      profile.concurrent_devices = number(value, key);
    else if (key == "concurrent_memory")
      profile.concurrent_memory = number(value, key);
    else if (key == "devices_per_node")
      profile.devices_per_node = whole_number(value, key);
    else if (key == "matmul")
      read_rates(value, key, profile.matmul);
    else if (key == "convolution")
      read_rates(value, key, profile.convolution);
    else if (key == "peak_tflops")
      read_peaks(value, profile);
    else if (key == "tiles")
      read_tiles(value, profile.tiles);
    else if (key == "executor")
      read_executor(value, profile.executor);
    else if (key == "curves")
      read_curves(value, profile);
    else if (key == "loops")
      read_loops(value, profile);
    else if (key == "bandwidth_efficiency")
      read_efficiency(value, profile);
    else if (key == "collectives")
      read_collectives(value, profile);
    else if (key == "axes")
      read_axes(value, profile);
    else
      throw_user("machine profile: unknown field '{}'", key);
  }
  if (profile.memory_gbps <= 0) throw_user("machine profile: memory_gbps must be positive");
  if (profile.matmul.empty()) throw_user("machine profile: matmul must have at least one rate");
  return profile;
}

namespace {

// "h100+inductor": the machine, and the executor that its programs run by; nothing if the text
// after the last + is none of them.
std::optional<MachineProfile> with_executor(const std::string& text) {
  const size_t plus = text.rfind('+');
  if (plus == std::string::npos) return std::nullopt;
  const std::string name = text.substr(plus + 1);
  const std::vector<std::string>& known = builtin_executor_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) return std::nullopt;
  MachineProfile profile = load_profile(text.substr(0, plus));
  profile.executor = builtin_executor(name);
  return profile;
}

}  // namespace

MachineProfile load_profile(const std::string& name_or_path) {
  for (const std::string& name : builtin_profile_names())
    if (name == name_or_path) return builtin_profile(name);
  const bool is_host = name_or_path == "host";
  const std::string path = is_host ? host_profile_path() : name_or_path;
  std::error_code none;
  const bool exists = std::filesystem::exists(std::filesystem::symlink_status(path, none));
  if (!exists && is_host)
    throw_user("this host has not been measured: there is no {}; `cleave calibrate` writes it",
               path);
  if (!exists) {
    if (std::optional<MachineProfile> made = with_executor(name_or_path)) return *std::move(made);
    return builtin_profile(name_or_path);
  }
  const std::string text = read_input_file(path);
  try {
    return profile_from_json(text);
  } catch (const UserError& error) {
    throw_user("{}: {}", path, error.what());
  }
}

}  // namespace cleave
