#include "cleave/report/report_tables.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace cleave::report {

double rounded(double number) {
  if (number == 0 || !std::isfinite(number)) return 0;
  return std::strtod(fmt::format("{:.6g}", number).c_str(), nullptr);
}

int ReportTables::string(const std::string& text) {
  const auto [it, is_new] = string_ids_.try_emplace(text, static_cast<int>(strings_.size()));
  if (is_new) strings_.push_back(&it->first);
  return it->second;
}

int ReportTables::spec(const ShardingSpec& spec) {
  if (!spec.mesh) return -1;
  ShardingSpec plain = spec;
  for (DimSpec& dim : plain.dims) {
    dim.open = false;
    dim.priority.reset();
  }
  const auto [it, is_new] =
      spec_ids_.try_emplace(to_string(plain), static_cast<int>(specs_.size()));
  if (is_new) specs_.push_back(std::move(plain));
  return it->second;
}

int ReportTables::type(const Type& type) {
  const auto [it, is_new] = type_ids_.try_emplace(to_string(type), static_cast<int>(types_.size()));
  if (is_new) types_.push_back(type);
  return it->second;
}

Json ReportTables::strings() const {
  Json list = Json::array();
  for (const std::string* text : strings_) list.push_back(*text);
  return list;
}

Json ReportTables::axes(const AxisList& list) const {
  Json json = Json::array();
  for (const AxisRef& ref : list) json.push_back({ref.axis, ref.pre, ref.size});
  return json;
}

Json ReportTables::specs() const {
  Json list = Json::array();
  for (const ShardingSpec& spec : specs_) {
    Json dims = Json::array();
    for (const DimSpec& dim : spec.dims) dims.push_back(axes(dim.axes));
    list.push_back({{"text", to_string(spec)},
                    {"dims", std::move(dims)},
                    {"replicated", axes(spec.replicated)},
                    {"unreduced", axes(spec.partial)},
                    {"reduction", std::string(name(spec.partial_op))}});
  }
  return list;
}

Json ReportTables::types() const {
  Json list = Json::array();
  for (const Type& type : types_) {
    const bool has_shape = type.is_tensor() && !type.unranked;
    list.push_back({{"text", to_string(type)},
                    {"shape", has_shape ? Json(type.shape) : Json::array()},
                    {"dtype", type.is_tensor() ? Json(std::string(name(type.dtype))) : Json("")},
                    {"bytes", type.byte_count()}});
  }
  return list;
}

Columns::Columns(std::initializer_list<const char*> names) : columns_(Json::object()) {
  for (const char* name : names) columns_[name] = Json::array();
}

}  // namespace cleave::report
