#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "cleave/core/mesh.h"
#include "cleave/core/sharding.h"
#include "cleave/graph/type.h"

namespace cleave::report {

using Json = nlohmann::ordered_json;

// Seconds and rates, to six significant digits: what a page shows, in few characters.
double rounded(double number);

// What a report says many times, once each: texts, layouts and types go by their number.
class ReportTables {
 public:
  explicit ReportTables(MeshPtr mesh) : mesh_(std::move(mesh)) {}

  int string(const std::string& text);
  int spec(const ShardingSpec& spec);  // -1: it has no mesh
  int type(const Type& type);

  Json strings() const;
  Json specs() const;
  Json types() const;

 private:
  Json axes(const AxisList& list) const;

  const MeshPtr mesh_;
  std::unordered_map<std::string, int> string_ids_, spec_ids_, type_ids_;
  std::vector<const std::string*> strings_;
  std::vector<ShardingSpec> specs_;
  std::vector<Type> types_;
};

// Columns of one table: arrays of the same length, by name.
//
//   Columns rows({"name", "seconds"});
//   rows.add("name", 3);  rows.add("seconds", 0.5);
//   rows.take()   ->   {"name": [3], "seconds": [0.5]}
class Columns {
 public:
  explicit Columns(std::initializer_list<const char*> names);
  void add(const char* name, Json value) { columns_[name].push_back(std::move(value)); }
  size_t size(const char* name) const { return columns_.at(name).size(); }
  Json take() { return std::move(columns_); }

 private:
  Json columns_;
};

}  // namespace cleave::report
