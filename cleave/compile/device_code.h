#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cleave/compile/fused_loop.h"
#include "cleave/compile/memory_plan.h"
#include "cleave/compile/strided_copy.h"
#include "cleave/compile/team.h"
#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"
#include "cleave/ops/eval.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/spmd/program.h"

// What one device runs: steps over memory that was laid out beforehand.
namespace cleave {

// A tensor in a buffer of the code.
struct CodeView {
  uint32_t buffer = 0;
  int64_t offset = 0;  // in elements
  StridedType type;

  bool is_contiguous() const;
  int64_t num_bytes() const;
};

struct CodeBuffer {
  enum class Kind : uint8_t {
    Arena,     // planned
    Argument,  // the caller's
    Constant,  // kept with the code
    Held,      // an array that a kernel or a collective made
  };
  Kind kind = Kind::Arena;
  size_t bytes = 0;
  int64_t begin = INT64_MAX, end = -1;  // steps
  size_t argument = 0;
  bool donated = false;
  int64_t aliased = -1;  // the result that the argument is to become
  Array constant;
  int64_t output = -1;  // the result of the function that it becomes
};

struct Frame;

class CodeStep {
 public:
  // What happens after a step: the device goes on, or comes back to the same step when it is woken
  // (Wait) or when the block that was pushed has ended (Block).
  enum class Next : uint8_t { Continue, Wait, Block };

  virtual ~CodeStep() = default;
  virtual Next run(Frame& frame) const = 0;

  NodeId node;                     // what it computes, for observers
  std::vector<CodeView> results;   // of the node, in order; empty: nothing to tell
  std::vector<uint32_t> releases;  // held buffers that nothing reads after it
};

struct CodeBlock {
  std::vector<std::unique_ptr<CodeStep>> steps;
};

struct CodeStats {
  size_t steps = 0, fusions = 0, fused_ops = 0, matmuls = 0, convolutions = 0, copies = 0,
         transfers = 0, fallbacks = 0;
  // Products and convolutions with an epilogue, and the ops in these epilogues.
  size_t epilogues = 0, epilogue_ops = 0;
  size_t arena_bytes = 0, arena_lower_bound = 0;
  size_t argument_bytes = 0, result_bytes = 0, constant_bytes = 0;
  size_t held_bytes = 0;        // at most at one step, of arrays that kernels and collectives make
  size_t own_result_bytes = 0;  // of results that take the memory of no argument
  size_t donated = 0;           // results that take the memory of an argument
};

struct CodeResult {
  Type type;
  enum class Kind : uint8_t { Buffer, Argument, Held } kind = Kind::Buffer;
  uint32_t buffer = 0;
  size_t argument = 0;
  int64_t donor = -1;  // the argument whose memory the result takes
};

class RankTransfer;  // cleave/compile/rank_transfer.h
struct RankView;

struct DeviceCode {
  Graph graph;
  std::vector<std::shared_ptr<Transfer>> transfers;  // by node
  std::vector<NodeId> origin;                        // by node: in the Program
  CodeBlock main;
  std::vector<CodeBuffer> buffers;
  std::vector<size_t> offsets;              // by buffer: in the arena
  std::vector<std::vector<uint32_t>> same;  // by buffer: those that share its memory
  std::vector<CodeResult> results;
  std::vector<Type> arguments;
  std::vector<bool> donated;  // by argument: its memory is written
  size_t scratch_bytes = 0;
  // Where ranks meet, in the order of the code: the Program's node, and the device's part in it.
  std::vector<std::pair<uint32_t, std::shared_ptr<RankTransfer>>> rank_transfers;
  uint32_t num_states = 0;                   // of control flow and transfers
  std::shared_ptr<const Schedule> schedule;  // of the ops that run one by one
  bool needs_threads = false;                // some op blocks until other devices have met
  CodeStats stats;
};

class Meetings;

// One device while it runs.
struct Frame {
  const DeviceCode* code = nullptr;
  int64_t device = 0;
  Team* team = nullptr;          // threads that help with one op; may be null
  std::vector<std::byte*> base;  // by buffer
  std::vector<Buffer> held;      // by buffer: what keeps its memory
  int64_t held_bytes = 0, held_peak = 0;
  std::byte* scratch = nullptr;
  std::vector<int> state;  // by id: where control flow and transfers stand
  struct Position {
    const CodeBlock* block;
    size_t step;
  };
  std::vector<Position> stack;
  std::vector<RankTransfer*> under_way;  // started, not yet waited for
  double waits_since = 0;
  Meetings* meetings = nullptr;
  std::vector<NodeId>* done = nullptr;  // finished transfers; null if nothing logs them
  Observer* observer = nullptr;
  std::function<Interpreter&()> interpreter;  // for ops that need more than their operands
  EvalContext* alone = nullptr;               // for the others

  std::byte* data(const CodeView& view) const {
    return base[view.buffer] + view.offset * byte_size(view.type.dtype);
  }
  Array array(const CodeView& view) const;
  void hold(uint32_t buffer, const Array& array) {  // packed
    release(buffer);
    base[buffer] = array.raw();
    held[buffer] = array.buffer();
    held_bytes += static_cast<int64_t>(code->buffers[buffer].bytes);
    held_peak = std::max(held_peak, held_bytes);
  }
  void release(uint32_t buffer) {
    if (!held[buffer]) return;
    held_bytes -= static_cast<int64_t>(code->buffers[buffer].bytes);
    held[buffer].reset();
  }
};

// The bytes that a device needs at most, known before it runs, and the bytes that it held in a run:
// arguments, results (arrays that share memory count once), the arena, scratch memory, held arrays.
int64_t bytes_needed(const DeviceCode& code);
int64_t bytes_held(const Frame& frame, const std::vector<Array>& args,
                   const std::vector<Array>& results);

// Runs until the end (true) or until the device has to wait for others (false).
bool advance(Frame& frame);

struct LowerOptions {
  int threads = 1;
  // If devices are spread over ranks, the transfers of this rank's devices; null otherwise.
  const RankView* ranks = nullptr;
  int64_t device = 0;
};

// Whether the function and what it calls can be compiled: static shapes, dtypes with kernels, no
// tokens or tuples, no recursion.
bool can_lower(const Graph& graph, std::string_view entry);
DeviceCode lower(Instance instance, const LowerOptions& options);

}  // namespace cleave
