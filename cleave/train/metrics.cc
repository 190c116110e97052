#include "cleave/train/metrics.h"

#include <array>
#include <bit>
#include <nlohmann/json.hpp>

#include "cleave/core/error.h"
#include "cleave/core/input_file.h"
#include "cleave/core/output_file.h"

namespace cleave::train {
namespace {

using Line = nlohmann::ordered_json;

Line number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

}  // namespace

std::string to_json_line(const StepRecord& record) {
  Line line{{"step", record.step}, {"loss", number(record.loss)}};
  for (const auto& [name, value] : record.metrics) line[name] = number(value);
  line["seconds"] = record.seconds;
  if (record.tokens_per_second > 0) line["tokens_per_second"] = record.tokens_per_second;
  if (record.utilization > 0) line["mfu"] = record.utilization;
  if (record.memory > 0) line["memory"] = record.memory;
  if (record.skipped) line["skipped"] = true;
  return line.dump();
}

std::string to_json_line(const EvaluationRecord& record) {
  return Line{
      {"step", record.step}, {"eval_loss", number(record.loss)}, {"seconds", record.seconds}}
      .dump();
}

MetricsFile::MetricsFile(std::filesystem::path path, int64_t first) : path_(std::move(path)) {
  std::error_code error;
  if (!std::filesystem::exists(path_, error)) return;
  const std::string text = read_input_file(path_.string());
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, end - at);
    const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_object() && parsed.contains("step") && parsed["step"].is_number_integer() &&
        parsed["step"] <= first)
      kept.append(line).push_back('\n');
    at = end + 1;
  }
  if (kept != text) write_file(path_, kept);
}

void MetricsFile::add(const std::string& line) { append_file(path_, line + "\n"); }

namespace events_detail {
namespace {

// Protocol buffers: a tag is the number of the field and how it is written.
enum WireKind : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
void put_tag(std::string& out, uint32_t field, WireKind kind) {
  put_varint(out, field << 3 | kind);
}
template <typename T>
void put_fixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}
void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_tag(out, field, kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
    table[i] = value;
  }
  return table;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> kTable = crc_table();
  uint32_t value = ~0u;
  for (char byte : bytes) value = value >> 8 ^ kTable[(value ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~value;
}

uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

std::string tf_record(std::string_view bytes) {
  std::string length, record;
  put_fixed<uint64_t>(length, bytes.size());
  record = length;
  put_fixed(record, masked_crc32c(length));
  record.append(bytes);
  put_fixed(record, masked_crc32c(bytes));
  return record;
}

std::string event(int64_t step, double seconds, const std::map<std::string, double>& scalars) {
  std::string out;
  put_tag(out, 1, kFixed64);  // wall_time
  put_fixed(out, std::bit_cast<uint64_t>(seconds));
  if (scalars.empty()) {
    put_bytes(out, 3, "brain.Event:2");  // file_version
    return out;
  }
  put_tag(out, 2, kVarint);  // step
  put_varint(out, static_cast<uint64_t>(step));
  std::string summary;
  for (const auto& [name, number] : scalars) {
    std::string value;
    put_bytes(value, 1, name);    // tag
    put_tag(value, 2, kFixed32);  // simple_value
    put_fixed(value, std::bit_cast<uint32_t>(static_cast<float>(number)));
    put_bytes(summary, 1, value);
  }
  put_bytes(out, 5, summary);
  return out;
}

}  // namespace events_detail

EventFile::EventFile(const std::filesystem::path& folder, double seconds, int64_t first)
    : path_(folder /
            fmt::format("events.out.tfevents.{:010.0f}.cleave.{}", std::floor(seconds), first)) {
  append_file(path_, events_detail::tf_record(events_detail::event(0, seconds, {})));
}

void EventFile::add(int64_t step, double seconds, const std::map<std::string, double>& scalars) {
  if (scalars.empty()) return;
  append_file(path_, events_detail::tf_record(events_detail::event(step, seconds, scalars)));
}

}  // namespace cleave::train
