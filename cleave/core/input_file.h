#pragma once

#include <cstdint>
#include <string>

namespace cleave {

// The whole of a file that the user named. Throws UserError, one line, if it cannot be read:
//
//   cannot read 'x.mlir': No such file or directory
//   cannot read 'models': it is a folder
//   cannot read '/dev/zero': it is a device
//   cannot read 'pipe': nothing came through it for 10 s
//   cannot read 'big.mlir': 12 GiB are needed, and 8 GiB of memory are available
//
// It waits for a named pipe, but not for ever; the pipes of the shell, <(...) and /dev/stdin, are
// read to their end as standard input is.
std::string read_input_file(const std::string& path);

// Only the checks, for readers that open the file themselves: throws unless it is a regular file.
void check_regular_file(const std::string& path);

// Standard input, as far as memory is available.
std::string read_standard_input();

}  // namespace cleave
