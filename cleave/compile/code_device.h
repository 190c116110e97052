#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cleave/compile/device_code.h"
#include "cleave/compile/meetings.h"
#include "cleave/runtime/interpreter.h"

namespace cleave {

// A device's code with the memory in which it runs. One run: `bind`, advance(frame), `collect`.
class CodeDevice {
 public:
  explicit CodeDevice(DeviceCode code) : code(std::move(code)) {}

  // Takes memory. `options` are asked for when the first op of a run needs more than its operands:
  // they make the interpreter that runs such ops until the end of the run.
  void prepare(int64_t index, Team* team, Meetings* meetings,
               std::function<Interpreter::Options()> options);
  // Sets the buffers of a run of `entry`. Arrays of `results` that fit and are held nowhere else
  // are overwritten.
  void bind(const std::string& entry, std::vector<Array>& args, std::vector<Array>& results);
  // Completes the results, and takes donated arguments away.
  void collect(std::vector<Array>& args, std::vector<Array>& results);

  DeviceCode code;
  Frame frame;
  Buffer arena;
  std::vector<NodeId> done;  // transfers, in order

 private:
  Array memory_for(const Type& type);

  Buffer scratch_;
  std::function<Interpreter&()> interpreter_;
  std::unique_ptr<EvalContext> context_;
  std::optional<Interpreter> made_;
  std::vector<Array> spare_;  // donated arguments that became no result: for those of the next run
};

}  // namespace cleave
