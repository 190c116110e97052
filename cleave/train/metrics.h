#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "cleave/train/loop.h"

// What a run leaves for people and tools to read: a line of JSON for every step and evaluation, and
// the same numbers for TensorBoard.
namespace cleave::train {

//   {"step":12,"loss":2.31,"rate":0.001,"seconds":0.12,"tokens_per_second":17066.7}
//   {"step":12,"eval_loss":2.44,"seconds":1.5}
// Numbers that are not finite are written as strings, "nan" and "inf": JSON has none.
std::string to_json_line(const StepRecord& record);
std::string to_json_line(const EvaluationRecord& record);

// Appends to metrics.jsonl. A run that begins again at step n drops the lines of later steps first,
// which a run that was killed may have left, so that every step is there once.
class MetricsFile {
 public:
  // Keeps lines of steps up to `first`.
  MetricsFile(std::filesystem::path path, int64_t first);
  void add(const std::string& line);

 private:
  std::filesystem::path path_;
};

// A file of events that TensorBoard reads: records of TFRecord with protocol buffers of scalars.
// Each `add` appends one record.
class EventFile {
 public:
  // Makes events.out.tfevents.SECONDS.cleave.N in a folder, with N = `first`.
  EventFile(const std::filesystem::path& folder, double seconds, int64_t first);
  void add(int64_t step, double seconds, const std::map<std::string, double>& scalars);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

namespace events_detail {

// CRC-32C (Castagnoli), and as TFRecord writes it.
uint32_t crc32c(std::string_view bytes);
uint32_t masked_crc32c(std::string_view bytes);
// Length, its checksum, the bytes, their checksum.
std::string tf_record(std::string_view bytes);
// tensorflow.Event; without scalars it has the version of the format instead.
std::string event(int64_t step, double seconds, const std::map<std::string, double>& scalars);

}  // namespace events_detail

}  // namespace cleave::train
