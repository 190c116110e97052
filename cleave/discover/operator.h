#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cleave/core/dtype.h"
#include "cleave/core/error.h"
#include "cleave/core/placement.h"
#include "cleave/core/shape.h"
#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"

namespace cleave {

// The value of one attribute in a sweep: dim=0, keepdim=true, reduction='sum', shape=[4, 2].
using AttrValue = std::variant<int64_t, bool, double, std::string, std::vector<int64_t>>;
using AttrMap = std::map<std::string, AttrValue>;
std::string to_string(const AttrValue& value);
std::string to_string(const AttrMap& attrs);  // "dim=0, keepdim=true"

// Which numbers an operand may hold. Inputs stay inside; parts of a partial operand need not.
enum class Domain : uint8_t {
  Any,
  NonZero,
  Positive,
  Bool,
  Index,     // integers in [0, limit)
  Sorted,    // along the last dimension
  Definite,  // symmetric positive definite matrices in the last two dimensions
};

struct TensorDesc {
  DType dtype = DType::F64;
  Shape shape;
  Domain domain = Domain::Any;
  int64_t limit = 0;  // of Index
};

// One concrete call: global shapes and attributes.
struct Sample {
  std::vector<TensorDesc> operands;
  AttrMap attrs;
};
std::string to_string(const Sample& sample);  // "cross(8x3 f64, 8x3 f64; dim=1)" without the name

// What every device holds: [operand or result][device].
using DeviceArrays = std::vector<std::vector<Array>>;
// All devices of one call, made ready to run again and again, by one thread at a time.
using DeviceRun = std::function<DeviceArrays(const DeviceArrays&)>;
// One device's call, in the same way.
using ArrayCall = std::function<std::vector<Array>(std::span<const Array>)>;

// The operator does not work at all, as opposed to not accepting some operands: its program does
// not answer, or answers nonsense. It ends a run with its message.
class BrokenOperator : public UserError {
 public:
  using UserError::UserError;
};

// Any operator, as a black box.
struct Operator {
  std::string name;
  // Runs on one device's arrays. Throws UserError if the operator does not accept them; that is
  // told apart from a wrong result.
  std::function<std::vector<Array>(const AttrMap&, std::span<const Array>)> run;
  // Forgets what earlier calls may have left behind, by starting its program anew. May be empty.
  std::function<void()> restart;
  // The same made ready for arrays of these shapes, if that saves time. May be empty.
  std::function<ArrayCall(const AttrMap&, const std::vector<TensorDesc>&)> prepare;
  std::vector<Sample> samples;
  // The attribute that holds the global shape of result 0 (view, broadcast_to), if there is one. On
  // a device it becomes the shape of the result's shard, so the operator runs once per result
  // placement.
  std::string shape_attr;
  // For an operator whose part on a device is more than the operator on smaller operands (a slice
  // has bounds, a reduction starts once): makes the devices' parts for given placements on a mesh
  // of these sizes, devices in row-major order. Throws UserError if there is no such part.
  // Empty: `run` on every device.
  std::function<DeviceRun(const Sample&, const std::vector<Placements>& operands,
                          const Placements& result, const std::vector<int>& mesh)>
      localize;
  // The visible definition of a call, a graph with a function "main"; empty for a true black box.
  std::function<Graph(const Sample&)> define;
  // Results are compared bit for bit: less than rounding matters, as in nextafter.
  bool exact = false;
  // Attributes that name a dimension; a negative one counts from the end.
  std::vector<std::string> dim_attrs;
  // For reports: "cross(Tensor input, Tensor other, *, int dim)", and what it calls its operands.
  // Either may be empty.
  std::string signature;
  std::vector<std::string> operand_names;
};

}  // namespace cleave
