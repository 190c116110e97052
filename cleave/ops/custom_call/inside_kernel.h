#pragma once

namespace cleave {

// Whether this thread runs a kernel that a program registered (register_op.h). Such a kernel is
// part of a run, and cannot begin another one that waits for it.
bool inside_registered_kernel();

}  // namespace cleave
