#pragma once

#include <string>

namespace cleave {

// The variable that names the file in which ranks started by `cleave launch` leave their outcomes,
// because what a rank prints while others die does not always arrive. A rank that has begun to join
// the others says so there as well, in a line of its rank and kPresent.
inline constexpr const char* kReportVariable = "CLEAVE_LAUNCH_REPORT";
inline constexpr const char* kPresent = "+";

// Appends one line to the report; false if there is none, or none on this machine.
bool leave_in_report(const std::string& line);

// Seconds that all ranks have to join each other: CLEAVE_JOIN_TIMEOUT, or 60. Throws UserError if
// that is no such number.
double join_patience();
// A number of seconds in the environment.
double seconds_in(const char* variable, double otherwise);

// This rank has come.
void sign_in(int rank);
// The ranks that have not come, in words: "; rank 2 has not come". Empty if that is not known.
std::string missing_ranks();

}  // namespace cleave
