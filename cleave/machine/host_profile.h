#pragma once

#include <string>

#include "cleave/machine/profile.h"

namespace cleave {

// Where the profile of this host is kept, that `--machine host` means: $CLEAVE_HOST_PROFILE, or
// cleave/host.json in $XDG_CACHE_HOME or ~/.cache. Written by `cleave calibrate`.
std::string host_profile_path();

// Makes the folders on the way. Throws UserError where the file cannot be written.
void write_profile(const std::string& path, const MachineProfile& profile);

}  // namespace cleave
