#include "cleave/machine/measurements.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cleave/core/error.h"

namespace cleave {
namespace {

using MeasuredJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, kNumMeasuredKinds> kMeasuredNames = {
    "product",   "convolution", "elementwise", "reduction", "rows",
    "transpose", "strided",     "arithmetic",  "launch",    "arguments"};

// Of one entry, with its place in messages: "kernels[3]".
class Entry {
 public:
  Entry(const MeasuredJson& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) throw_user("measurements: {} must be an object", where_);
  }

  bool has(const char* field) const { return json_.contains(field); }

  std::string text(const char* field) const {
    if (!has(field)) throw_user("measurements: {} has no \"{}\"", where_, field);
    if (!json_[field].is_string())
      throw_user("measurements: {}.{} must be a string", where_, field);
    return json_[field].get<std::string>();
  }

  double positive(const char* field) const {
    if (!has(field)) throw_user("measurements: {} has no \"{}\"", where_, field);
    const MeasuredJson& value = json_[field];
    constexpr double kMost = 1e18;
    if (!value.is_number() || !(value.get<double>() > 0) || value.get<double>() > kMost)
      throw_user("measurements: {}.{} must be a number above 0", where_, field);
    return value.get<double>();
  }

  double count(const char* field, double otherwise) const {
    return has(field) && json_[field] != 0 ? positive(field) : otherwise;
  }

  const std::string& where() const { return where_; }

 private:
  const MeasuredJson& json_;
  const std::string where_;
};

MeasuredKind kind_named(const std::string& text, const std::string& where) {
  for (size_t i = 0; i < kMeasuredNames.size(); ++i)
    if (kMeasuredNames[i] == text) return static_cast<MeasuredKind>(i);
  throw_user("measurements: {}.kind: unknown kind '{}'", where, text);
}

MeasuredKernel kernel_from(const Entry& entry) {
  MeasuredKernel kernel;
  kernel.kind = kind_named(entry.text("kind"), entry.where());
  const std::string dtype = entry.text("dtype");
  const std::optional<DType> known = dtype_from_name(dtype);
  if (!known) throw_user("measurements: {}.dtype: unknown type '{}'", entry.where(), dtype);
  kernel.dtype = *known;
  kernel.seconds = entry.positive("us") * 1e-6;
  kernel.is_check = entry.has("check");
  switch (kernel.kind) {
    case MeasuredKind::Product:
    case MeasuredKind::Convolution:
      kernel.products = {.count = entry.count("count", 1),
                         .m = entry.positive("m"),
                         .k = entry.positive("k"),
                         .n = entry.positive("n")};
      kernel.products.channels = entry.count("channels", kernel.products.n);
      if (kernel.kind == MeasuredKind::Convolution) kernel.bytes = entry.positive("bytes");
      break;
    case MeasuredKind::Arithmetic:
      kernel.ops = entry.positive("ops");
      break;
    case MeasuredKind::Launch:
      kernel.count = entry.positive("kernels");
      break;
    case MeasuredKind::Arguments:
      kernel.count = entry.positive("count");
      break;
    default:
      kernel.bytes = entry.positive("bytes");
  }
  return kernel;
}

CollectiveTiming collective_from(const Entry& entry) {
  const std::string text = entry.text("kind");
  const std::optional<CollectiveKind> kind = collective_kind_from_name(text);
  if (!kind) throw_user("measurements: {}.kind: unknown collective '{}'", entry.where(), text);
  const double ranks = entry.positive("ranks");
  if (ranks < 2 || ranks > 1 << 20 || ranks != std::floor(ranks))
    throw_user("measurements: {}.ranks must be a whole number of 2 or more", entry.where());
  return {*kind, static_cast<int64_t>(ranks), entry.positive("bytes"), entry.positive("us") * 1e-6};
}

FitErrors::Row errors_of(std::vector<double> errors) {
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  return {errors.size(), errors[errors.size() / 2], errors.back()};
}

}  // namespace

std::string_view name(MeasuredKind kind) { return kMeasuredNames[static_cast<size_t>(kind)]; }

DeviceMeasurements measurements_from_json(std::string_view text) {
  MeasuredJson json;
  try {
    json = MeasuredJson::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
      throw_user("measurements: the file is empty");
    if (error.byte > text.size())
      throw_user(
          "measurements: the file ends before it is complete; was the script that wrote it "
          "stopped?");
    const auto line = std::count(text.begin(), text.begin() + static_cast<long>(error.byte), '\n');
    throw_user("measurements: line {} is not JSON", line + 1);
  }
  if (!json.is_object() || json.value("format", MeasuredJson()) != "cleave-measurements")
    throw_user(
        "measurements: the field format is not \"cleave-measurements\"; `cleave calibrate --emit "
        "jax` prints the script that writes them");
  if (json.value("version", MeasuredJson()) != 1)
    throw_user("measurements: the version is {}; this program reads version 1",
               json.value("version", MeasuredJson()).dump());
  const Entry file(json, "the file");
  DeviceMeasurements measured;
  measured.device = file.text("device");
  measured.framework = file.text("framework");
  measured.executor = file.text("executor");
  builtin_executor(measured.executor);  // or an error that names those that there are
  measured.units = static_cast<int64_t>(std::min(file.count("units", 0), 1e6));
  measured.memory_bytes = file.count("memory_bytes", 0);
  for (const char* list : {"kernels", "collectives"}) {
    if (!json.contains(list) || !json[list].is_array())
      throw_user("measurements: {} must be a list", list);
    for (size_t i = 0; i < json[list].size(); ++i) {
      const Entry entry(json[list][i], std::string(list) + "[" + std::to_string(i) + "]");
      if (list == std::string_view("kernels"))
        measured.kernels.push_back(kernel_from(entry));
      else
        measured.collectives.push_back(collective_from(entry));
    }
  }
  if (measured.kernels.empty()) throw_user("measurements: there are no kernels in the file");
  return measured;
}

std::string measurements_to_json(const DeviceMeasurements& measured) {
  MeasuredJson json = {{"format", "cleave-measurements"},
                       {"version", 1},
                       {"framework", measured.framework},
                       {"device", measured.device},
                       {"units", measured.units},
                       {"memory_bytes", measured.memory_bytes},
                       {"executor", measured.executor},
                       {"kernels", MeasuredJson::array()},
                       {"collectives", MeasuredJson::array()}};
  for (const MeasuredKernel& kernel : measured.kernels) {
    MeasuredJson row = {{"kind", name(kernel.kind)}, {"dtype", name(kernel.dtype)}};
    const OpCost::Products& p = kernel.products;
    const std::pair<const char*, double> numbers[] = {
        {"count", p.count},
        {"m", p.m},
        {"k", p.k},
        {"n", p.n},
        {"channels", p.channels},
        {"bytes", kernel.bytes},
        {"ops", kernel.ops},
        {kernel.kind == MeasuredKind::Launch ? "kernels" : "count", kernel.count}};
    for (const auto& [field, value] : numbers)
      if (value > 0) row[field] = value;
    if (kernel.is_check) row["check"] = true;
    row["us"] = kernel.seconds * 1e6;
    json["kernels"].push_back(std::move(row));
  }
  for (const CollectiveTiming& timing : measured.collectives)
    json["collectives"].push_back({{"kind", name(timing.kind)},
                                   {"ranks", timing.ranks},
                                   {"bytes", timing.bytes},
                                   {"us", timing.seconds * 1e6}});
  return json.dump(1) + "\n";
}

InStep in_step(const ExecutorProfile& executor) {
  if (!executor.name.starts_with("xla") || executor.name == "xla-cpu") return {};
  return {.launch = 1.6, .reduction = 0.88, .rows = 0.88, .strided = 0.62};
}

double predicted_seconds(const MeasuredKernel& kernel, const MachineProfile& profile) {
  ExecutorProfile executor = profile.executor;
  const InStep step = in_step(executor);
  executor.reduction_share /= step.reduction;
  executor.rows_share /= step.rows;
  executor.strided_share /= step.strided;
  const double launch = executor.launch_us * 1e-6 / step.launch;
  const double bandwidth = profile.memory_gbps * 1e9;
  switch (kernel.kind) {
    case MeasuredKind::Product:
    case MeasuredKind::Convolution: {
      const OpCost::Products& p = kernel.products;
      const double elements = p.count * (p.m * p.k + p.k * p.n + p.m * p.n);
      const bool convolves = kernel.kind == MeasuredKind::Convolution;
      OpCost cost;
      cost.flops = 2 * p.count * p.m * p.k * p.n;
      cost.bytes_read = convolves ? kernel.bytes : elements * byte_size(kernel.dtype);
      cost.kernel = convolves ? kConvolutionClass : KernelClass::Matmul;
      cost.products = p;
      return product_seconds(cost, kernel.dtype, profile);
    }
    case MeasuredKind::Elementwise:
      return launch + kernel.bytes / bandwidth;
    case MeasuredKind::Reduction:
      return launch + kernel.bytes / (bandwidth * executor.reduction_share);
    case MeasuredKind::Rows:
      return launch + kernel.bytes / (bandwidth * executor.rows_share);
    case MeasuredKind::Transpose:
      return launch + kernel.bytes / (bandwidth * executor.transpose_share);
    case MeasuredKind::Strided:
      return launch + kernel.bytes / (bandwidth * executor.strided_share);
    case MeasuredKind::Arithmetic:
      return launch + kernel.ops / (std::max(executor.vector_tops, 1e-9) * 1e12);
    case MeasuredKind::Launch:
      return launch * kernel.count;
    case MeasuredKind::Arguments:
      return executor.argument_us * 1e-6 * kernel.count;
  }
  throw_internal("a kind of measurement without a prediction");
}

std::vector<FitErrors> fit_errors(const DeviceMeasurements& measured,
                                  const MachineProfile& profile) {
  std::map<std::pair<MeasuredKind, DType>, std::array<std::vector<double>, 2>> kernels;
  for (const MeasuredKernel& kernel : measured.kernels)
    if (kernel.kind != MeasuredKind::Arguments)  // of a program, with what it takes besides
      kernels[{kernel.kind, kernel.dtype}][kernel.is_check].push_back(
          std::abs(predicted_seconds(kernel, profile) / kernel.seconds - 1));
  std::vector<FitErrors> result;
  for (auto& [key, errors] : kernels)
    result.push_back({std::string(name(key.first)) + " " + std::string(name(key.second)),
                      errors_of(std::move(errors[0])), errors_of(std::move(errors[1]))});
  std::map<CollectiveKind, std::vector<double>> collectives;
  for (const CollectiveTiming& timing : measured.collectives)
    collectives[timing.kind].push_back(
        std::abs(predicted_seconds(timing, profile) / timing.seconds - 1));
  for (auto& [kind, errors] : collectives)
    result.push_back({std::string(name(kind)), errors_of(std::move(errors)), {}});
  return result;
}

}  // namespace cleave
