// Mutated modules, taken the whole way from text to a run; see pipeline.h.
//
//   fuzz --seconds 300 --seed 1 [--out FOLDER] FILE|FOLDER...
//   fuzz --replay FILE
//
// The corpus is every .mlir file given or found, in its parts between // ----- lines, and some
// random programs (../soak). Batches run in child processes with a limit of processor time, so that
// crashes and endless loops are findings, saved to FOLDER with what was seen in the first line.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "cleave/graph/text/text.h"
#include "mutate.h"
#include "pipeline.h"
#include "random_program.h"

namespace {

using namespace cleave::fuzz;
namespace fs = std::filesystem;

constexpr unsigned kSecondsOfOne = 20;  // of processor time, for one module
constexpr uint64_t kBatch = 64;

struct Options {
  std::vector<std::string> inputs;
  std::string replay, out = "fuzz-findings";
  double seconds = 60;
  uint64_t seed = 1, modules = 0;  // modules: at most so many; 0: as many as there is time for
};

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> corpus_of(const std::vector<std::string>& inputs) {
  std::vector<fs::path> files;
  for (const std::string& input : inputs) {
    if (!fs::is_directory(input)) {
      files.push_back(input);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(input))
      if (entry.path().extension() == ".mlir") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const fs::path& file : files) {
    const std::string text = read(file);
    for (const auto& chunk : cleave::split_input(text))
      if (chunk.text.size() > 10 && chunk.text.size() < 20000)
        corpus.push_back(std::string(chunk.text));
  }
  for (uint64_t seed = 0; seed < 300; ++seed)
    corpus.push_back(cleave::soak::random_program(seed).text());
  return corpus;
}

std::string module_of(const std::vector<std::string>& corpus, uint64_t seed) {
  cleave::RandomSource random(seed);
  for (int i = 0; i < 8; ++i) random.next();
  const auto count = static_cast<int64_t>(corpus.size());
  const std::string& text = corpus[random.below(count)];
  const std::string& other = corpus[random.below(count)];
  return mutate(random, text, other);
}

void limit_processor_time(unsigned seconds) {
  const rlimit limit{seconds, seconds + 1};
  setrlimit(RLIMIT_CPU, &limit);
}

void save(const Options& options, uint64_t seed, const std::string& what, const std::string& text) {
  fs::create_directories(options.out);
  const std::string file = fmt::format("{}/{}.mlir", options.out, seed);
  std::string line = what.substr(0, what.find('\n'));
  std::ofstream(file, std::ios::binary) << "// " << line << "\n" << text;
  fmt::print("fuzz: {}: {}\n", file, line);
  std::fflush(stdout);
}

// What a child tells in a file: it may end at any moment, with any status (a sanitizer's is 1).
struct Progress {
  uint64_t seed = 0;  // at work
  int failures = 0;   // saved
  bool finished = false;

  void write_to(int file) const {
    if (pwrite(file, this, sizeof *this, 0) != sizeof *this) _exit(1);
  }
};

// Child: [first, last).
[[noreturn]] void run_batch(const Options& options, const std::vector<std::string>& corpus,
                            uint64_t first, uint64_t last, int file) {
  Progress progress;
  rusage used{};
  for (uint64_t seed = first; seed < last; ++seed) {
    progress.seed = seed;
    progress.write_to(file);
    getrusage(RUSAGE_SELF, &used);
    limit_processor_time(static_cast<unsigned>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                         kSecondsOfOne);
    const std::string text = module_of(corpus, seed);
    try {
      whole_way(text, seed);
    } catch (const std::exception& error) {
      save(options, seed, error.what(), text);
      ++progress.failures;
    }
  }
  progress.finished = true;
  progress.write_to(file);
  _exit(0);
}

std::string death_of(int status) {
  if (WIFEXITED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  if (signal == SIGXCPU || signal == SIGKILL) return "takes too long, or too much memory";
  return fmt::format("signal {}", signal);
}

int replay(const std::string& file) {
  const std::string text = read(file);
  for (uint64_t seed = 0; seed < 4; ++seed) fmt::print("{}\n", whole_way(text, seed));
  return 0;
}

int fuzz(const Options& options) {
  const std::vector<std::string> corpus = corpus_of(options.inputs);
  const auto begin = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::FILE* scratch = std::tmpfile();
  uint64_t done = 0, next = options.seed * 100000000;
  int findings = 0;
  double told = 0;
  while (seconds() < options.seconds && (options.modules == 0 || done < options.modules)) {
    const uint64_t first = next, last = next + kBatch;
    std::fflush(stdout);
    Progress{.seed = first}.write_to(fileno(scratch));
    const pid_t child = fork();
    if (child == 0) run_batch(options, corpus, first, last, fileno(scratch));
    int status = 0;
    waitpid(child, &status, 0);
    Progress progress;
    if (pread(fileno(scratch), &progress, sizeof progress, 0) != sizeof progress) return 2;
    findings += progress.failures;
    next = last;
    if (!progress.finished) {  // the one it was at is the culprit; go on after it
      save(options, progress.seed, death_of(status), module_of(corpus, progress.seed));
      ++findings;
      next = progress.seed + 1;
    }
    done += next - first;
    if (seconds() - told >= 30) {
      told = seconds();
      fmt::print("fuzz: {} modules in {:.0f} s, {} findings\n", done, told, findings);
      std::fflush(stdout);
    }
  }
  std::fclose(scratch);
  fmt::print("fuzz: {} modules of a corpus of {} in {:.0f} s, {} findings\n", done, corpus.size(),
             seconds(), findings);
  return findings == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Mutated modules, taken the whole way from text to a run");
  app.add_option("inputs", options.inputs, "modules, or folders of them: the corpus");
  app.add_option("--seconds", options.seconds, "how long");
  app.add_option("--seed", options.seed, "of the mutations");
  app.add_option("--modules", options.modules, "at most so many; the same ones for the same seed");
  app.add_option("--out", options.out, "where findings are written");
  app.add_option("--replay", options.replay, "one finding, in this process");
  CLI11_PARSE(app, argc, argv);
  return options.replay.empty() ? fuzz(options) : replay(options.replay);
}
