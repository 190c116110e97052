#pragma once

#include <string>

namespace cleave::cli {

// Whether this process prints results and writes files: it runs alone, or is rank 0 of several.
bool speaks();

// How a command ended.
struct Outcome {
  int status = 0;
  bool consequence = false;  // it follows from what happened to another rank
  std::string error;         // the line to print; empty: none
};

// The end of the process: prints the error and returns the exit status. If there are several ranks,
// one of them prints for all: a message that several ranks share appears once, and consequences
// appear only if no rank names a cause.
//
//   error: rank 0: device 0 waits in sdy.all_reduce: rank 2 has died: its process has ended ...
int conclude(const Outcome& outcome);

// Whether a rank has left an outcome in a report (cleave/runtime/roll_call.h).
bool has_outcomes(const std::string& path);
// Prints what the ranks left there, in the same way.
void print_report(const std::string& path, int ranks);

}  // namespace cleave::cli
