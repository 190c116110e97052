#include "cleave/machine/host_profile.h"

#include <cstdlib>
#include <filesystem>

#include "cleave/core/output_file.h"

namespace cleave {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::string host_profile_path() {
  if (std::string path = environment("CLEAVE_HOST_PROFILE"); !path.empty()) return path;
  std::string cache = environment("XDG_CACHE_HOME");
  if (cache.empty()) cache = environment("HOME") + "/.cache";
  return cache + "/cleave/host.json";
}

void write_profile(const std::string& path, const MachineProfile& profile) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  write_file(path, to_json(profile) + "\n");
}

}  // namespace cleave
