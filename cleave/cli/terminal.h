#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/shape.h"
#include "cleave/core/sharding.h"

namespace cleave::cli {

// What standard output shows. A file or a pipe shows text as it is.
struct Terminal {
  bool colours =
      false;          // not if NO_COLOR is set or TERM is "dumb"; CLICOLOR_FORCE=1: in a pipe too
  bool bars = false;  // a terminal whose characters are UTF-8
  int width = 0;      // columns; 0: any
};
Terminal terminal_of_output();

// The text for a person at this terminal:
//
//   - an axis in quotes has the colour that it also has on pages, `axes` in the order of the mesh
//   - a share at the end of the figures of a row has a bar
//   - titles are bold, notes yellow
//   - what is wider than the terminal goes on in the next line, further in
//
//       all_gather "data"      4.505 ms   10.1% █▌           x159, 300.8 MiB received
std::string painted(std::string_view text, const Terminal& terminal,
                    const std::vector<std::string>& axes);

// A picture of a sharding (core/picture.h): ranges have the colour of the axis that splits them.
std::string painted_picture(const std::string& picture, const Terminal& terminal,
                            const ShardingSpec& spec, const Shape& shape);

// Whether no line is wider than the terminal.
bool fits(std::string_view text, const Terminal& terminal);

std::vector<std::string> axis_names(const Mesh& mesh);

// Prints it painted for standard output.
void print_painted(std::string_view text, const std::vector<std::string>& axes);

}  // namespace cleave::cli
