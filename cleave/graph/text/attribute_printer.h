#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/attribute.h"

namespace cleave::text {

// Appends to a text, as MLIR prints. Big constants print as hex above `hex_limit` elements.
void append_type(std::string& out, const Type& type);
void append_types(std::string& out, std::span<const Type> types);  // a, b
void append_attribute(std::string& out, const Attribute& attribute, size_t hex_limit = 100,
                      bool elide_type = false);
void append_named(std::string& out, const NamedAttribute& attribute, size_t hex_limit);
void append_dict(std::string& out, const AttrDict& dict, size_t hex_limit);  // {a = 1 : i64, b}
void append_string(std::string& out, std::string_view text);                 // "a\0A"
void append_symbol(std::string& out, std::string_view name);                 // @a or @"a b"
void append_keyword_or_string(std::string& out, std::string_view text);
void append_int(std::string& out, int64_t value);
void append_ints(std::string& out, std::span<const int64_t> values);   // [0, 1]
void append_bools(std::string& out, std::span<const int64_t> values);  // [true, false]
void append_float_attr(std::string& out, const FloatAttr& attribute);
// Whether the dimensions of each tensor are a permutation, so that [b, 0, f]x[0, i, o]->[b, 0, f]
// says all.
bool is_plain_convolution(const StructAttr& dims);
void append_convolution_dims(std::string& out, const StructAttr& dims);
void append_struct_body(std::string& out, const StructAttr& value);    // <a = [0], b = 1>
void append_axis_lists(std::string& out, const AxisListsAttr& lists);  // [{"x"}, {}] or {"x"}
void append_moves(std::string& out, const AllToAllAttr& moves);
void append_manual_axes(std::string& out, const ManualAxesAttr& axes);

// The integers of array<i64: ...> or of a dense constant.
std::vector<int64_t> ints_of(const Attribute& attribute);

}  // namespace cleave::text
