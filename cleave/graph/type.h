#pragma once

#include <string>
#include <vector>

#include "cleave/core/dtype.h"
#include "cleave/core/shape.h"

namespace cleave {

// The type of a value or attribute.
//   Tensor    tensor<2x?xf32>, with an optional encoding kept as text
//   Scalar    f32, i64, index: of attributes and of block arguments of scalar regions
//   Token     !stablehlo.token
//   Tuple     tuple<tensor<2xf32>, ...>          `elements`
//   Function  (tensor<2xf32>) -> tensor<2xf32>   `elements` are the inputs, then the results
//   Opaque    anything else, as `text`
struct Type {
  enum class Kind : uint8_t { None, Tensor, Scalar, Token, Tuple, Function, Opaque };

  Kind kind = Kind::None;
  DType dtype = DType::F32;
  bool unranked = false;    // tensor<*xf32>
  uint32_t num_inputs = 0;  // of a Function
  Shape shape;
  std::vector<Type> elements;
  std::string text;      // Opaque, or the element type if dtype is Other
  std::string encoding;  // of a Tensor: `#stablehlo.bounds<3, ?>`

  static Type tensor(DType dtype, Shape shape);
  static Type scalar(DType dtype);
  static Type token();
  static Type tuple(std::vector<Type> elements);
  static Type function(std::vector<Type> inputs, std::vector<Type> results);
  static Type opaque(std::string text);

  bool is_tensor() const { return kind == Kind::Tensor; }
  size_t rank() const { return shape.size(); }
  bool has_static_shape() const;
  int64_t byte_count() const;  // of a static tensor; 0 for everything else
  bool operator==(const Type&) const = default;
};

std::string to_string(const Type& type);  // as MLIR prints it

}  // namespace cleave
