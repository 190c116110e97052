// Predicted against published times of collectives.
//
//   bench_collectives collectives.json [--all]
//
// The file has `series`: each names the collective, device, fabric, nodes, ranks and quality, and
// lists bytes (the larger side of a buffer, as nccl-tests counts) and time_us; `scalars` are the
// same with one busbw_gb_s. Rows of quality A and B from NVIDIA GPUs count, except those that force
// an algorithm. The machine is the built-in one of the device; a fabric that the row names replaces
// its network. `--all` also prints every point.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/machine/collective.h"

namespace {

using cleave::CollectiveKind;
using cleave::GroupLinks;
using cleave::MachineProfile;
using nlohmann::json;

struct Point {
  std::string id, machine, fabric;
  CollectiveKind kind{};
  GroupLinks links;
  double bytes = 0, us = 0, ratio = 0;  // ratio: predicted / measured
};

constexpr double kSmall = 65536, kLarge = 64.0 * 1024 * 1024;

std::string text(const json& row, const char* key) {
  return row.contains(key) && row[key].is_string() ? row[key].get<std::string>() : "";
}

std::string machine_of(const std::string& device) {
  if (device.find("GH200") != std::string::npos) return "h100";
  for (const char* name : {"A100", "H100", "H200", "B200"})
    if (device.find(name) != std::string::npos) {
      std::string lower = name;
      lower[0] = static_cast<char>(std::tolower(lower[0]));
      return lower;
    }
  return "";
}

bool is_forced(const std::string& algorithm) {
  for (const char* word : {"forced", "NVLS off", "no SHARP"})
    if (algorithm.find(word) != std::string::npos) return true;
  return false;
}

// The rate that the fabric names ("8x200 Gb/s per node"), and hops as docs/guide/machines.md has
// them.
MachineProfile profile_of(const std::string& machine, const std::string& fabric,
                          const GroupLinks& links) {
  MachineProfile profile = cleave::builtin_profile(machine);
  cleave::Network network = profile.network;
  std::smatch rate;
  if (std::regex_search(fabric, rate, std::regex(R"((\d+)x(\d+) Gb/s per node)")))
    network.gbps = std::stod(rate[1]) * std::stod(rate[2]) / 8 / 8;
  const std::map<std::string, cleave::Network> known = {{"EFA", {network.gbps, 66}},
                                                        {"TCPXO", {25, 95}},
                                                        {"Slingshot", {25, 33}},
                                                        {"IB ", {network.gbps, 30}}};
  for (const auto& [word, values] : known)
    if (fabric.find(word) != std::string::npos) network = values;
  profile.devices_per_node = links.per_node;
  return with_network(profile, network);
}

bool read_row(const json& row, Point& point) {
  const std::string quality = text(row, "quality");
  std::string kind = text(row, "collective");
  if (kind == "sendrecv") kind = "collective_permute";
  point.machine = machine_of(text(row, "device"));
  const auto known = cleave::collective_kind_from_name(kind);
  if ((quality != "A" && quality != "B") || point.machine.empty() || !known) return false;
  if (is_forced(text(row, "algorithm")) || !row["nodes"].is_number()) return false;
  point.id = text(row, "id");
  point.fabric = text(row, "fabric");
  point.kind = *known;
  point.links.ranks = row["ranks"];
  point.links.nodes = row["nodes"];
  point.links.per_node = point.links.ranks / point.links.nodes;
  return true;
}

std::vector<Point> read_points(const json& file) {
  std::vector<Point> points;
  Point point;
  auto add = [&](double bytes, double us) {
    point.bytes = bytes;
    point.us = us;
    const MachineProfile profile = profile_of(point.machine, point.fabric, point.links);
    point.ratio = collective_cost(point.kind, point.links, profile).seconds(bytes) * 1e6 / us;
    points.push_back(point);
  };
  for (const json& row : file["series"]) {
    if (!read_row(row, point)) continue;
    for (size_t i = 0; i < row["bytes"].size(); ++i)
      if (row["time_us"][i].is_number()) add(row["bytes"][i], row["time_us"][i]);
  }
  for (const json& row : file["scalars"]) {
    if (!row.contains("bytes") || !row["bytes"].is_number() || !read_row(row, point)) continue;
    const double bytes = row["bytes"];
    const double sent = bytes * cleave::collective_traffic(point.kind, point.links.ranks, false);
    add(bytes, sent / row["busbw_gb_s"].get<double>() * 1e-3);
  }
  return points;
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(part * static_cast<double>(values.size()));
  return values[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

std::string median_ratio(const std::vector<Point>& points, double from, double to) {
  std::vector<double> ratios;
  for (const Point& point : points)
    if (point.bytes >= from && point.bytes < to) ratios.push_back(point.ratio);
  return ratios.empty() ? "-" : fmt::format("{:.2f}", quantile(ratios, 0.5));
}

std::string errors(const std::vector<Point>& points, double from, double to = 1e18) {
  std::vector<double> list;
  for (const Point& point : points)
    if (point.bytes >= from && point.bytes < to) list.push_back(std::abs(point.ratio - 1));
  if (list.empty()) return fmt::format("{:>5} {:>6} {:>6}", 0, "-", "-");
  return fmt::format("{:>5} {:>5.1f}% {:>5.1f}%", list.size(), 100 * quantile(list, 0.5),
                     100 * quantile(list, 0.9));
}

void print_groups(const std::string& title, const std::vector<Point>& points, auto&& key) {
  std::map<std::string, std::vector<Point>> groups;
  for (const Point& point : points) groups[key(point)].push_back(point);
  fmt::print("\n{:<46} {:>7} {:>7} {:>7}   {}\n", title, "<64KiB", "<64MiB", "more",
             "points, median error and 90% of those from 64 KiB");
  for (const auto& [name, group] : groups)
    fmt::print("{:<46} {:>7} {:>7} {:>7}   {}\n", name, median_ratio(group, 0, kSmall),
               median_ratio(group, kSmall, kLarge), median_ratio(group, kLarge, 1e18),
               errors(group, kSmall));
}

}  // namespace

int main(int argc, char** argv) try {
  std::string path;
  bool all = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--all")
      all = true;
    else
      path = argv[i];
  }
  if (path.empty()) cleave::throw_user("usage: bench_collectives collectives.json [--all]");
  std::ifstream file(path);
  if (!file) cleave::throw_user("{}: cannot be opened for reading", path);
  const std::vector<Point> points = read_points(json::parse(file));
  if (all)
    for (const Point& point : points)
      fmt::print("{} {} {} {}x{} {:.0f} bytes: {:.1f} us, predicted / measured {:.2f}\n", point.id,
                 point.machine, name(point.kind), point.links.nodes, point.links.per_node,
                 point.bytes, point.us, point.ratio);
  fmt::print("predicted / measured, medians by size\n");
  print_groups("machine, collective, nodes x ranks", points, [](const Point& point) {
    return fmt::format("{} {} {:>3} x {}", point.machine, name(point.kind), point.links.nodes,
                       point.links.per_node);
  });
  print_groups("machine, collective", points, [](const Point& point) {
    return fmt::format("{} {} {}", point.machine, name(point.kind),
                       point.links.nodes > 1 ? "across nodes" : "inside a node");
  });
  print_groups("fabric across nodes", points, [](const Point& point) {
    return point.links.nodes > 1 ? point.fabric.substr(0, 44) : "(inside a node)";
  });
  fmt::print("\nall from 64 KiB: {}\nall smaller:     {}\n", errors(points, kSmall),
             errors(points, 0, kSmall));
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_collectives: {}\n", error.what());
  return 1;
}
