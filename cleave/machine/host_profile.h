#pragma once

#include <string>

#include "cleave/machine/profile.h"

namespace cleave {

// The place of this host's profile, which `--machine host` reads: $CLEAVE_HOST_PROFILE, or
// cleave/host.json in $XDG_CACHE_HOME or ~/.cache. Written by `cleave calibrate`.
std::string host_profile_path();

// Makes the folders on the way. Throws UserError if the file cannot be written.
void write_profile(const std::string& path, const MachineProfile& profile);

}  // namespace cleave
