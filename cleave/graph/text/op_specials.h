#pragma once

#include <string_view>

#include "cleave/graph/text/module_parser.h"
#include "cleave/graph/text/printer.h"

namespace cleave::text {

// The placeholders of op formats that stand for several attributes, or for a part with a syntax of
// its own: {window}, {slice_ranges}, {dot_dims}, {precision}, {precision_and_algorithm},
// {exponent_mantissa}, {return}, {return_attrs_first}, {barrier}, {composite_regions}.
void parse_special(ModuleParser& parser, std::string_view special, ParsedOp& op);
void print_special(Printer& printer, std::string_view special, const Node& node);

}  // namespace cleave::text
