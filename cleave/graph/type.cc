#include "cleave/graph/type.h"

#include <algorithm>

namespace cleave {
namespace {

std::string join(const Type* begin, const Type* end) {
  std::string text;
  for (const Type* type = begin; type != end; ++type) {
    if (type != begin) text += ", ";
    text += to_string(*type);
  }
  return text;
}

}  // namespace

Type Type::tensor(DType dtype, Shape shape) {
  Type type;
  type.kind = Kind::Tensor;
  type.dtype = dtype;
  type.shape = std::move(shape);
  return type;
}

Type Type::scalar(DType dtype) {
  Type type;
  type.kind = Kind::Scalar;
  type.dtype = dtype;
  return type;
}

Type Type::token() {
  Type type;
  type.kind = Kind::Token;
  return type;
}

Type Type::tuple(std::vector<Type> elements) {
  Type type;
  type.kind = Kind::Tuple;
  type.elements = std::move(elements);
  return type;
}

Type Type::function(std::vector<Type> inputs, std::vector<Type> results) {
  Type type;
  type.kind = Kind::Function;
  type.num_inputs = static_cast<uint32_t>(inputs.size());
  type.elements = std::move(inputs);
  type.elements.insert(type.elements.end(), results.begin(), results.end());
  return type;
}

Type Type::opaque(std::string text) {
  Type type;
  type.kind = Kind::Opaque;
  type.text = std::move(text);
  return type;
}

bool Type::has_static_shape() const {
  return is_tensor() && !unranked &&
         std::find(shape.begin(), shape.end(), kDynamicSize) == shape.end();
}

int64_t Type::byte_count() const {
  return has_static_shape() ? num_elements(shape) * byte_size(dtype) : 0;
}

std::string to_string(const Type& type) {
  const std::string element =
      type.dtype == DType::Other ? type.text : std::string(name(type.dtype));
  switch (type.kind) {
    case Type::Kind::None:
      return "none";
    case Type::Kind::Tensor: {
      std::string text = "tensor<";
      if (type.unranked) text += "*x";
      if (!type.shape.empty()) text += to_string(type.shape) + "x";
      text += element;
      if (!type.encoding.empty()) text += ", " + type.encoding;
      return text + ">";
    }
    case Type::Kind::Scalar:
      return element;
    case Type::Kind::Token:
      return "!stablehlo.token";
    case Type::Kind::Tuple:
      return "tuple<" + join(type.elements.data(), type.elements.data() + type.elements.size()) +
             ">";
    case Type::Kind::Function: {
      const Type* inputs = type.elements.data();
      const Type* results = inputs + type.num_inputs;
      const Type* end = inputs + type.elements.size();
      const bool bare = end - results == 1 && results->kind != Type::Kind::Function;
      return "(" + join(inputs, results) + ") -> " +
             (bare ? to_string(*results) : "(" + join(results, end) + ")");
    }
    case Type::Kind::Opaque:
      return type.text;
  }
  return "none";
}

}  // namespace cleave
