#pragma once

#include <string>

#include "cleave/cli/ranks.h"

namespace cleave::cli {

// Called first of all. A stream that the caller closed gets a stand-in, so that no file that is
// opened later takes its number: what is printed to a closed standard output is an error, not a
// line in the middle of another file. A reader that goes away, or a limit on the size of files,
// makes a write fail instead of ending the process by a signal.
void prepare_streams();

// Called last of all: whether everything that was printed has arrived. If not, a good outcome
// becomes a bad one.
//
//   error: standard output cannot be written: No space left on device
void finish_output(Outcome& outcome);

// The line for wrong arguments, which end with status 2: "error: ...; see cleave run --help".
Outcome wrong_arguments(std::string what, const std::string& command);

}  // namespace cleave::cli
