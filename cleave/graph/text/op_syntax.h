#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/attribute.h"

namespace cleave::text {

// How an op is written. `format` is the text as MLIR prints it, with placeholders in braces; white
// space counts when printing only. An op without a format is written in the generic syntax.
//
//   {operands}     %0, %1
//   {attrs}        the attributes that the format does not mention, with a space before, or nothing
//   {signature}    (tensor<2xf32>) -> tensor<2xf32>
//   {same}         one type if all operands and results have it, else the signature
//   {results}      the types of the results
//   {operand_types} the types of the operands
//   {like_operands} the types of the operands, which are those of the results too
//   {first_type}   the type of the first operand, of which all others and the results are
//   {name:kind}    the attribute `name`, written as its kind says
//   {name:kind?, } the same with the text after '?' before it; nothing if it is absent
//
// Other placeholders ({window}, {slice_ranges}, ...) stand for several attributes; see
// op_format.cc.
struct OpSyntax {
  std::string name;
  std::string format;
  // The attributes that belong to the op: they print in <{...}> in the generic syntax.
  std::vector<std::string> properties;

  // Compiled from `format`.
  struct Piece {
    enum Kind : uint8_t { Literal, Attrs, Operands, Types, Attribute, Special };
    Kind kind;
    std::string text;       // of a literal; the name of an attribute, special or types
    std::string attr_kind;  // of an Attribute
    std::string prefix;     // of an optional attribute
    bool optional = false;
  };
  std::vector<Piece> pieces;
  std::vector<std::string> mentioned;  // attributes that pieces print

  bool has_format() const { return !pieces.empty(); }
  bool is_property(std::string_view attribute) const;
  bool mentions(std::string_view attribute) const;
};

// Null for an op that is unknown here.
const OpSyntax* find_syntax(std::string_view op);

// The value that an attribute has if it is not written, or null. It is not printed in the pretty
// syntax.
const Attribute* default_attribute(std::string_view op, std::string_view attribute);

}  // namespace cleave::text
