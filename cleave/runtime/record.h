#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cleave/graph/builder.h"
#include "cleave/graph/graph.h"
#include "cleave/runtime/tensor.h"

// What stands behind Tensor: records of ops, and the signatures that they share.
namespace cleave {

// The type and layout of a value. There is one object for all values alike, so that comparing two
// in full is comparing pointers.
struct Aval {
  Type type;
  ShardingSpec spec;  // no mesh: whole on one device
};
using AvalPtr = std::shared_ptr<const Aval>;
AvalPtr shared_aval(Type type, ShardingSpec spec);

// Writes an op into a function whose arguments are the operands, and gives its results. A form is
// usually one op; small compositions (broadcasting, softmax) are one form as well. It reads operand
// types from the builder, and everything else from `params`.
using FormFn = std::vector<ValueId> (*)(GraphBuilder& b, std::span<const int64_t> params);

// All that is known of a recorded op before its operands have values: validated, inferred and
// partitioned once, then found again by form, params and operand avals.
struct Signature {
  FormFn form = nullptr;
  std::vector<int64_t> params;
  std::vector<AvalPtr> operands;
  std::vector<AvalPtr> results;
  std::shared_ptr<const Graph> graph;  // function "main"; null for a value that is there already
  MeshPtr mesh;                        // of the results; null: one device
  bool constant = false;               // nothing but constants: a trace takes it in
};
using SignaturePtr = std::shared_ptr<const Signature>;

// The shards of a value where Cleave's kernels cannot read them: on the devices of another engine
// (cleave/pjrt). They may still be computed there. A Tensor that has its value in this way fetches
// it when somebody reads it.
class RemoteValue {
 public:
  virtual ~RemoteValue() = default;
  virtual std::vector<Array> fetch() const = 0;           // by device; waits
  virtual std::vector<int64_t> device_bytes() const = 0;  // by device
};
using RemotePtr = std::shared_ptr<const RemoteValue>;

// One recorded op. It keeps its operands until it is computed, then its values.
struct Record : RecordHead {
  SignaturePtr signature;
  std::vector<Tensor> operands;
  // The trace that it depends on: 0 for none, else the number of the innermost TraceScope.
  uint64_t level = 0;
  bool placeholder = false;
  bool computed = false;
  bool constant = false;                   // may be written into a trace instead of captured
  std::vector<std::vector<Array>> values;  // by result, then by device; if computed
  // Of values that are on the devices of another engine, by result. `values` has what was fetched.
  std::vector<RemotePtr> remote;
  // How `values` lie, by result, if that is not as recorded: of a pending sum that an op has
  // completed the sum is kept, so that it is completed once. Its layout stays what it was.
  std::vector<AvalPtr> held;
  Record* next = nullptr;  // while being freed

  ~Record();
  const Aval& aval(size_t i) const { return *signature->results[i]; }
};

// Records an op and gives its results. Throws UserError if the operands do not fit.
//   record([](GraphBuilder& b, auto) { return std::vector{b.emit("stablehlo.sine", {b.arg(0)})}; },
//          {}, {x})
std::vector<Tensor> record(FormFn form, std::span<const int64_t> params,
                           std::span<const Tensor> operands);
Tensor record_one(FormFn form, std::span<const int64_t> params, std::span<const Tensor> operands);

// Records an op whose signature is known to be that of these operands.
std::vector<Tensor> record_known(const SignaturePtr& signature, std::span<const Tensor> operands);

// Records any function of one op or several on tensors: one argument per operand.
std::vector<Tensor> record_function(Graph graph, std::span<const Tensor> operands);

// What is recorded on this thread belongs at least to this trace; 0: to none.
uint64_t& trace_level();

// A value that is there: its parts by device.
Tensor make_computed(AvalPtr aval, std::vector<Array> shards);
// A value that another engine has, or is computing.
Tensor make_computed(AvalPtr aval, RemotePtr remote);
// Where another engine has a tensor's value as well; null if it has not. Both have the tensor's
// layout.
RemotePtr remote_value(const Tensor& tensor);
void keep_remote(const Tensor& tensor, RemotePtr remote);
// Gives record its values, and lets its operands go. `held` are the avals of the values: those of
// the results, or completed sums if those are pending.
void set_computed(Record& record, std::vector<AvalPtr> avals,
                  std::vector<std::vector<Array>> values, std::vector<AvalPtr> held = {});

// The parts of a computed tensor by device, in the tensor's layout. Throws UserError if they
// were taken.
std::vector<Array> values_of(const Tensor& tensor);
// The same as they are held, and how that is.
const std::vector<Array>& held_values(const Tensor& tensor);
const AvalPtr& held_aval(const Tensor& tensor);
// Takes them away, for a caller that will overwrite them: the tensor has no value any more.
std::vector<Array> take_values(const Tensor& tensor);
// The same for a caller that needs only what another engine has, which it holds already.
void drop_values(const Tensor& tensor);

// Copies the nodes of a function into a region, calls and composites written out, and gives what
// it returns.
std::vector<ValueId> splice(const Graph& from, const Function& function, Graph& to, RegionId target,
                            std::span<const ValueId> args);
// The same for one node: `inputs` are the values that it and its regions use from outside, and the
// first arguments of `target` stand for them.
std::vector<ValueId> splice_node(const Graph& from, NodeId node, Graph& to, RegionId target,
                                 std::span<const ValueId> inputs);

}  // namespace cleave
