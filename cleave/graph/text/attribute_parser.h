#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cleave/graph/attribute.h"
#include "cleave/graph/text/lexer.h"
#include "cleave/graph/text/resources.h"

namespace cleave::text {

// Types and attributes at the lexer's position. Knows the aliases (#a = ..., !t = ...) read so far
// and finds meshes through `meshes`.
class AttributeParser {
 public:
  AttributeParser(Lexer& lexer, MeshLookup meshes) : lex_(lexer), meshes_(std::move(meshes)) {}

  Type type();
  std::vector<Type> type_list();            // tensor<2xf32>, i32
  std::vector<Type> type_list_in_parens();  // (tensor<2xf32>, i32)
  std::vector<Type> result_types();         // one type, or a list in parentheses
  Type function_type();                     // (a, b) -> c

  Attribute attribute();
  AttrDict dict();  // {a = 1, b}
  bool at_dict() { return lex_.peek() == '{'; }
  AttrDict optional_dict() { return at_dict() ? dict() : AttrDict(); }

  std::vector<int64_t> int_list();            // [0, 1]
  ShardingSpec sharding_body();               // <@mesh, [{"x"}]>
  std::vector<ShardingSpec> sharding_list();  // [<@mesh, [{"x"}]>, ...]
  std::vector<std::string> manual_axes();     // {"x", "y"}
  // {"x"} or [{"x"}, {}], and [{"x"}: 0->1] as text; to be read again when the mesh is known.
  std::string_view axes_text();
  // [b, 0, f]x[0, i, o]->[b, 0, f]
  Attribute convolution_dims();
  // The fields of #stablehlo.gather<...> and its like, from the '<' on.
  Attribute struct_body(std::string name);
  Attribute dot_algorithm() { return struct_body("stablehlo.dot_algorithm"); }

  void define_attribute_alias(std::string name, Attribute value);
  void define_type_alias(std::string name, Type value);
  void set_resources(ResourceBlobs blobs) { resources_ = std::move(blobs); }
  const MeshLookup& meshes() const { return meshes_; }
  Lexer& lexer() { return lex_; }
  // Reads loc(...) if it is next; returns the text in parentheses.
  std::string optional_location();
  // Throws if the text uses more nesting than any real module.
  int& depth() { return depth_; }

 private:
  Type tensor_type();
  Type named_type(std::string_view word);
  Type dialect_type();
  Attribute number();
  Attribute dense();
  Attribute dense_array();
  Attribute dense_resource();
  Attribute symbol_reference();
  Attribute hash_attribute();
  Attribute dialect_attribute(std::string_view dialect, std::string_view mnemonic, size_t begin);
  Attribute opaque_from(size_t begin);
  Attribute field_value();

  Lexer& lex_;
  MeshLookup meshes_;
  std::unordered_map<std::string, Attribute> attribute_aliases_;
  std::unordered_map<std::string, Type> type_aliases_;
  ResourceBlobs resources_;
  int depth_ = 0;
};

// Names of enums by their order: sdy keeps them as integers in the generic syntax.
//   propagation_direction: NONE FORWARD BACKWARD BOTH      reduction_op: sum max min
Attribute enum_from_integer(std::string_view enum_name, int64_t value);  // throws UserError
int64_t enum_to_integer(const EnumAttr& attribute);                      // -1 if unknown

}  // namespace cleave::text
