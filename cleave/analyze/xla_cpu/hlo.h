#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "cleave/graph/graph.h"

// What XLA's compiler for CPUs makes of a module, as far as its memory depends on it: the module in
// the terms of HLO, and the passes that decide which values are buffers and how long they live.
// docs/internals/memory.md says where each rule comes from.
namespace cleave::analyze::hlo {

enum class Op : uint8_t {
  Parameter,
  Constant,
  Iota,
  Elementwise,  // `def` says which function; also copies
  Broadcast,
  Reshape,  // the same bytes: all arrays are in row-major order
  Transpose,
  Reorder,  // a transpose of memory alone, for a collective
  Slice,
  Pad,
  Reverse,
  Concatenate,
  DynamicSlice,
  Update,  // dynamic_update_slice: in the place of operand 0
  Gather,
  Scatter,  // in the place of operand 0
  Reduce,
  Window,  // reduce_window
  Dot,
  Convolution,
  Sort,
  Loop,
  Branches,
  Collective,
  Barrier,
  Element,  // of an op with several results
  Copy,
  Fusion,
  Library,  // a fusion that a library runs
  Other,    // a kernel of its own
  Tuple,    // the results of a computation
};

struct Inst {
  Op op = Op::Other;
  const OpDef* def = nullptr;
  std::string detail = {};  // attributes that tell two of the same op apart
  std::vector<Type> types = {};
  std::vector<int> operands = {};
  std::vector<int64_t> dims =
      {};                        // permutation, places of a broadcast, dimensions that are reduced
  std::vector<int> called = {};  // computations: condition and body, branches, what is fused
  std::vector<int> users = {};   // each once
  bool is_lhs_turned = false, is_rhs_turned = false;  // of a Dot: contracted along the other one
  bool is_taken = false;  // of a Convolution or a reduction: a library may take it
  bool adds = false;      // of a reduction or a Scatter
  bool is_dead = false;
  int number = 0;  // of a parameter or an element
  int64_t origin = -1;

  const Type& type() const { return types[0]; }
  const Shape& shape() const { return types[0].shape; }
  bool is_array() const { return types.size() == 1; }
};

struct Computation {
  std::vector<Inst> insts;
  std::vector<int> params;
  int root = -1;  // a Tuple; of what is fused, its result

  int add(Inst inst);
  void replace_uses(int from, int to);  // by all users
  void set_operand(int user, size_t i, int to);
  void remove(int id);  // and what nothing else reads then
  // Operands before users, from the ends of the computation in order.
  std::vector<int> post_order() const;
  std::vector<bool> ancestors(int id) const;  // what it is computed from, itself included
};

struct Module {
  std::deque<Computation> computations;  // references stay valid
  int entry = 0;
  bool has_library = true;       // this XLA gives products and reductions to YNNPACK
  std::vector<int> alias_of;     // by result: the donated argument whose memory it takes, or -1
  std::vector<bool> is_donated;  // by argument
};

void drop_user(std::vector<int>& users, int user);
int64_t bytes_of(const Type& type);
int64_t elements_of(const Type& type);
bool is_scalar(const Type& type);              // one element
inline constexpr int64_t kFewElements = 4096;  // ops on fewer are no library's

// From a module of one function for one device.
Module lower(const Graph& graph, const std::string& entry);
void simplify(Module& module);
// Drops what loops carry for nothing, and takes out what they compute again and again.
void prune_loops(Module& module);
void hoist_invariants(Module& module);
void fuse_library_ops(Module& module);
void fuse_loops(Module& module);
void combine_all_reduces(Module& module);
void insert_copies(Module& module);
// An order for each computation: as soon as operands are there, in order of readiness.
std::vector<std::vector<int>> schedule(const Module& module);

// A fusion of one instruction, which takes its place. Gives its number.
int make_fusion(Module& module, Computation& computation, int id, Op kind);
// Computes an operand of a fusion inside it; the operand goes if nothing else reads it.
void fuse_operand(Module& module, Computation& computation, int fusion, int operand);
// Computes the only user of a library's fusion inside it. Gives the fusion's new number.
int fuse_user(Module& module, Computation& computation, int fusion, int user);
bool is_expensive(const Computation& computation, const Inst& inst);

// Whether a user may write its result into the memory of operand i, if that ends there.
bool can_share(const Module& module, const Computation& computation, int user, size_t i);
// The operand in whose place an op must write; -1 if there is none.
int updated_operand(const Module& module, const Computation& computation, int id);

struct Memory {
  int64_t arguments = 0, results = 0, aliased = 0, temporaries = 0;
  int64_t total() const { return arguments + results - aliased + temporaries; }
};
Memory assign_buffers(const Module& module, const std::vector<std::vector<int>>& order);

std::string to_string(const Module& module, const std::vector<std::vector<int>>& order);

}  // namespace cleave::analyze::hlo
