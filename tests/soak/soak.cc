// Random programs, each run in every way there is; see oracle.h.
//
//   soak --programs 100000 --seed 1 [--out FOLDER] [--jobs 2]
//
// A failure is shrunk, printed, and written to FOLDER as a module, whose first lines say what was
// seen. Programs run in batches in child processes, so that a crash is a failure like others.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "oracle.h"

namespace {

using namespace cleave::soak;

struct Options {
  uint64_t programs = 1000, seed = 1;
  int jobs = 2;
  uint64_t batch = 50;
  std::string out = "soak-failures";
};

void save(const Options& options, uint64_t seed, const std::string& fault,
          const RandomProgram& program) {
  std::string heading = fault;
  for (char& c : heading)
    if (c == '\n') c = ' ';
  const std::string text = fmt::format("// seed {}\n// {}\n{}", seed, heading, program.text());
  std::filesystem::create_directories(options.out);
  std::ofstream(fmt::format("{}/{}.mlir", options.out, seed)) << text;
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

// Runs [first, last); the number of failures, at most 100.
int run_batch(const Options& options, uint64_t first, uint64_t last) {
  int failures = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const RandomProgram program = random_program(seed);
    const auto fault = fault_of(program.text(), seed);
    if (!fault) continue;
    const RandomProgram small = shrink(program, seed);
    save(options, seed, fault_of(small.text(), seed, 8).value_or(*fault), small);
    failures = std::min(failures + 1, 100);
  }
  return failures;
}

pid_t start(const Options& options, uint64_t first, uint64_t last) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child != 0) return child;
  _exit(run_batch(options, first, last));
}

// A batch that crashed, program by program.
int run_alone(const Options& options, uint64_t first, uint64_t last) {
  int failures = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    int status = 0;
    waitpid(start(options, seed, seed + 1), &status, 0);
    if (WIFEXITED(status)) {
      failures += WEXITSTATUS(status);
      continue;
    }
    save(options, seed, fmt::format("crashed: signal {}", WTERMSIG(status)), random_program(seed));
    ++failures;
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Random programs, run whole, compiled and sharded: all must agree");
  app.add_option("--programs", options.programs, "how many");
  app.add_option("--seed", options.seed, "of the first; program i has seed * 10^6 + i");
  app.add_option("--jobs", options.jobs, "processes");
  app.add_option("--out", options.out, "where failures are written");
  CLI11_PARSE(app, argc, argv);
  const uint64_t begin = options.seed * 1000000, end = begin + options.programs;
  uint64_t next = begin, done = 0;
  int failures = 0;
  std::map<pid_t, std::pair<uint64_t, uint64_t>> running;
  for (uint64_t told = 0; next < end || !running.empty();) {
    while (next < end && static_cast<int>(running.size()) < options.jobs) {
      const uint64_t last = std::min(end, next + options.batch);
      running[start(options, next, last)] = {next, last};
      next = last;
    }
    int status = 0;
    const pid_t child = waitpid(-1, &status, 0);
    const auto [first, last] = running.at(child);
    running.erase(child);
    failures += WIFEXITED(status) ? WEXITSTATUS(status) : run_alone(options, first, last);
    done += last - first;
    if (done - told >= 1000 || done == options.programs) {
      fmt::print("soak: {} of {} programs, {} failures\n", done, options.programs, failures);
      std::fflush(stdout);
      told = done;
    }
  }
  return failures == 0 ? 0 : 1;
}
