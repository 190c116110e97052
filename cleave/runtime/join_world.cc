#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/runtime/roll_call.h"
#include "cleave/runtime/world.h"

// Where the build and the installation put the MPI library; set by CMake.
#ifndef CLEAVE_MPI_PLACES
#define CLEAVE_MPI_PLACES ""
#endif

namespace cleave {
namespace {

constexpr const char* kLibrary = "libcleave_mpi.so";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The folder of the shared library that this code is part of, such as the Python package; that of
// the program if it is linked into one.
std::filesystem::path own_folder() {
  Dl_info found;
  if (!dladdr(reinterpret_cast<const void*>(&own_folder), &found) || !found.dli_fname) return {};
  return std::filesystem::path(found.dli_fname).parent_path();
}

// The place that the user names; beside the program or the library; where the loader looks; where
// it was built or installed.
std::vector<std::string> places() {
  if (const std::string named = variable("CLEAVE_MPI_LIBRARY"); !named.empty()) return {named};
  std::vector<std::string> paths;
  if (const std::filesystem::path folder = own_folder(); folder.is_absolute())
    paths.push_back(folder / "lib" / kLibrary);
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const std::filesystem::path folder = program.parent_path();
    paths.push_back(folder / kLibrary);
    paths.push_back(folder.parent_path() / "lib" / kLibrary);
  }
  paths.push_back(kLibrary);
  const std::string known = CLEAVE_MPI_PLACES;
  for (size_t at = 0; at < known.size();) {
    const size_t end = std::min(known.find(':', at), known.size());
    if (end > at) paths.push_back(std::filesystem::path(known.substr(at, end - at)) / kLibrary);
    at = end + 1;
  }
  return paths;
}

std::shared_ptr<Wire> open_wire() {
  std::string tried;
  for (const std::string& path : places()) {
    if (path.find('/') != std::string::npos && !std::filesystem::exists(path)) {
      tried += fmt::format("\n  {}: is not there", path);
      continue;
    }
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      tried += fmt::format("\n  {}", dlerror());
      continue;
    }
    const auto open = reinterpret_cast<OpenWire>(dlsym(library, kOpenWire));
    if (!open) throw_user("{}: is not Cleave's MPI library", path);
    try {
      return {open(), [](Wire*) {}};
    } catch (const std::runtime_error& error) {
      throw_user("MPI cannot be started: {}{}", error.what(), missing_ranks());
    }
  }
  throw_user(
      "this process was started as one of several ranks, but Cleave's MPI library was not found; "
      "say where it is in CLEAVE_MPI_LIBRARY. Tried:{}",
      tried);
}

std::unique_ptr<World> join_world() {
  if (!World::is_rank()) return nullptr;
  sign_in(World::rank_of_process());
  join_patience();  // refuses what is no number
  World::Options options;
  options.silence = seconds_in("CLEAVE_RANK_TIMEOUT", options.silence);
  options.patience = seconds_in("CLEAVE_DEADLOCK_TIMEOUT", options.patience);
  return std::make_unique<World>(open_wire(), options);
}

}  // namespace

bool World::is_rank() {
  // mpirun says the number of ranks; other launchers that speak PMIx only which one this is.
  const std::string size = variable("OMPI_COMM_WORLD_SIZE");
  return size.empty() ? !variable("PMIX_RANK").empty() : size != "1";
}

int World::rank_of_process() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"})
    if (const std::string rank = variable(name); !rank.empty()) return std::atoi(rank.c_str());
  return 0;
}

World* World::of_process() {
  // Who has failed to join does not try again: the others do not wait for it twice.
  struct Joined {
    std::unique_ptr<World> world;
    std::exception_ptr error;

    Joined() {
      try {
        world = join_world();
      } catch (...) {
        error = std::current_exception();
      }
    }
  };
  static const Joined joined;
  if (joined.error) std::rethrow_exception(joined.error);
  return joined.world.get();
}

}  // namespace cleave
