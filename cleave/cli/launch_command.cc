#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "cleave/cli/commands.h"
#include "cleave/cli/ranks.h"
#include "cleave/core/error.h"
#include "cleave/runtime/roll_call.h"

namespace cleave::cli {
namespace {

struct LaunchOptions {
  int ranks = 0;
  std::string hostfile;
  std::vector<std::string> mpirun;
  std::vector<std::string> program;
  bool dry = false;
};

std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "cleave" : path.string();
}

// mpirun would end without a word.
void require_program(const std::string& program) {
  if (program == "cleave") return;
  const char* path_list = std::getenv("PATH");
  const std::string places = program.find('/') != std::string::npos || !path_list ? "" : path_list;
  for (size_t at = 0; at <= places.size();) {
    const size_t end = std::min(places.find(':', at), places.size());
    const std::string path = places.empty() ? program : places.substr(at, end - at) + "/" + program;
    if (access(path.c_str(), X_OK) == 0 && !std::filesystem::is_directory(path)) return;
    at = end + 1;
  }
  throw_user("launch: there is no program {}{}", program,
             places.empty() ? " that can be run" : " in PATH; say its path, such as ./" + program);
}

// The variables that mean something to Cleave.
std::vector<std::string> own_variables() {
  std::set<std::string> names{kReportVariable};
  for (char** each = environ; *each; ++each) {
    const std::string text = *each;
    if (text.starts_with("CLEAVE_")) names.insert(text.substr(0, text.find('=')));
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> command_line(const LaunchOptions& options) {
  if (options.ranks < 1) throw_user("launch -n {}: start at least one rank", options.ranks);
  std::vector<std::string> line{"mpirun", "-n", std::to_string(options.ranks)};
  // More ranks than processors are normal; ranks have threads, which find their own processors.
  for (const char* flag : {"--oversubscribe", "--bind-to", "none", "--quiet"}) line.push_back(flag);
  if (geteuid() == 0) line.push_back("--allow-run-as-root");
  if (!options.hostfile.empty()) {
    line.push_back("--hostfile");
    line.push_back(options.hostfile);
  } else if (!std::getenv("OMP_NUM_THREADS")) {
    const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
    line.push_back("-x");
    line.push_back(fmt::format("OMP_NUM_THREADS={}",
                               std::max(1u, processors / static_cast<unsigned>(options.ranks))));
  }
  // Daemons on other machines give ranks only what is asked for.
  for (const std::string& name : own_variables()) {
    line.push_back("-x");
    line.push_back(name);
  }
  line.insert(line.end(), options.mpirun.begin(), options.mpirun.end());
  line.insert(line.end(), options.program.begin(), options.program.end());
  if (options.program[0] == "cleave") line[line.size() - options.program.size()] = own_path();
  return line;
}

constexpr int kStopped = 1;  // the status if mpirun had to be killed: that of a failed rank

pid_t running = -1;
volatile std::sig_atomic_t asked_to_end = 0;  // by which signal
volatile std::sig_atomic_t must_end = 0;      // mpirun has been terminated, or is being
bool at_terminal = false;  // mpirun reads it, and so is of the same process group

// mpirun ends its ranks within a second when it is terminated; a second signal would make it leave
// them. It passes SIGUSR1 on to all of them: programs that know it save first, as `cleave train`
// does, and others end. A second signal, or a terminal that hangs up, lets nothing finish.
void pass_on(int signal, siginfo_t* from, void*) {
  const bool gently = asked_to_end == 0 && signal != SIGHUP;
  asked_to_end = signal;
  if (running > 0 && gently) kill(running, SIGUSR1);
  if (gently || must_end) return;
  must_end = 1;
  const bool heard = signal == SIGHUP && at_terminal && from->si_code == SI_KERNEL;
  if (running > 0 && !heard) kill(running, SIGTERM);
}

// Until mpirun has ended, whose status it gives. When ranks have failed, the others hear of it and
// end, but mpirun may wait for a machine that has been cut off: it gets some seconds.
int await_mpirun(const std::string& report) {
  constexpr std::chrono::seconds kPatience(6);
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> failed;
  Clock::time_point asked = Clock::now();
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(running, &status, WNOHANG);
    if (ended == running) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended < 0 && errno != EINTR) throw_user("mpirun is lost: {}", std::strerror(errno));
    if (!failed && (must_end || has_outcomes(report))) failed = Clock::now();
    // What came before there were ranks, mpirun has passed on to none.
    if (!asked_to_end) asked = Clock::now();
    if (!must_end && Clock::now() - asked > std::chrono::seconds(1)) {
      kill(running, SIGUSR1);
      asked = Clock::now();
    }
    // Asked to end, it would wait as well.
    if (failed && Clock::now() - *failed > kPatience) {
      kill(running, SIGKILL);
      while (waitpid(running, &status, 0) < 0 && errno == EINTR) {
      }
      return kStopped;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Starts mpirun, which is terminated when this process is killed and cannot tell it. It does not
// hear what a terminal sends on Ctrl-C; its ranks, which it starts without the mask, are groups of
// their own.
pid_t start_mpirun(const std::vector<char*>& argv) {
  int words[2];  // errno, if the program cannot be run; closed if it can
  if (pipe2(words, O_CLOEXEC) != 0) throw_user("launch: no pipe: {}", std::strerror(errno));
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    if (!at_terminal) setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t interrupts;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupts, nullptr);
    if (getppid() == parent) execvp(argv[0], argv.data());
    const int error = errno;
    if (write(words[1], &error, sizeof error) < 0) _exit(126);
    _exit(127);
  }
  int error = child < 0 ? errno : 0;
  close(words[1]);
  if (child > 0 && read(words[0], &error, sizeof error) > 0) waitpid(child, nullptr, 0);
  close(words[0]);
  if (error != 0)
    throw_user("mpirun cannot be started: {}; install Open MPI (on Debian: openmpi-bin)",
               std::strerror(error));
  return child;
}

// Runs mpirun and gives its exit status; signals that ask to end are passed on to it.
int run(std::vector<std::string>& line, const std::string& report) {
  std::vector<char*> argv;
  for (std::string& word : line) argv.push_back(word.data());
  argv.push_back(nullptr);
  setenv(kReportVariable, report.c_str(), 1);
  setenv("HWLOC_HIDE_ERRORS", "2", 0);  // containers without /sys: Open MPI runs without it
  at_terminal = isatty(STDIN_FILENO);
  struct sigaction action = {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  running = start_mpirun(argv);
  if (asked_to_end && !must_end) kill(running, SIGTERM);
  if (asked_to_end) must_end = 1;
  return await_mpirun(report);
}

void launch(const LaunchOptions& options) {
  std::vector<std::string> line = command_line(options);
  if (!options.dry && options.hostfile.empty()) require_program(options.program[0]);
  // mpirun would not say why either.
  if (!options.dry && !options.hostfile.empty() && access(options.hostfile.c_str(), R_OK) != 0)
    throw_user("launch --hostfile {}: {}", options.hostfile, std::strerror(errno));
  if (options.dry) {
    for (size_t i = 0; i < line.size(); ++i) fmt::print("{}{}", i ? " " : "", line[i]);
    fmt::print("\n");
    return;
  }
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error)
    throw_user("launch: no folder for temporary files: {}; say one with TMPDIR", error.message());
  std::string report = (folder / "cleave-launch-XXXXXX").string();
  const int file = mkstemp(report.data());
  if (file < 0)
    throw_user("launch: {} cannot be made: {}; say another folder with TMPDIR", report,
               std::strerror(errno));
  close(file);
  const int status = run(line, report);
  // What ranks say of each other while all are being ended is not the cause. If none failed, the
  // program has ended as it does when it is interrupted.
  if (asked_to_end && status != 0) {
    std::filesystem::remove(report, error);
    fmt::print(stderr, "error: launch: ended by signal {} ({})\n", int{asked_to_end},
               strsignal(asked_to_end));
    throw CLI::RuntimeError(128 + asked_to_end);
  }
  print_report(report, options.ranks);
  if (status != 0 && !has_outcomes(report))
    fmt::print(stderr, "error: {} ended with status {}, and no rank has said why\n",
               options.program[0], status);
  std::filesystem::remove(report);
  if (status != 0) throw CLI::RuntimeError(status);
}

}  // namespace

void add_launch_command(CLI::App& app) {
  auto options = std::make_shared<LaunchOptions>();
  CLI::App* command = app.add_subcommand(
      "launch",
      "Run a program as several ranks with MPI: cleave launch -n 4 -- cleave run FILE ...\n"
      "The ranks divide the devices of a mesh into blocks; 8 over 3 ranks: 0 1 2 | 3 4 5 | 6 7.");
  command->add_option("-n,--ranks", options->ranks, "number of ranks")->required();
  command->add_option("--hostfile", options->hostfile, "the hosts to use, as mpirun takes them");
  command
      ->add_option("--mpirun", options->mpirun,
                   "a further argument of mpirun, e.g. --mpirun=-v; may be given several times")
      ->allow_extra_args(false);
  command->add_flag("--dry-run", options->dry, "print the mpirun command instead of running it");
  command->add_option("program", options->program, "after --: the program and its arguments")
      ->required();
  command->footer(
      "Environment of the ranks:\n"
      "  CLEAVE_JOIN_TIMEOUT      seconds in which all ranks must have joined (60)\n"
      "  CLEAVE_RANK_TIMEOUT      seconds of silence after which a rank counts as dead (60)\n"
      "  CLEAVE_DEADLOCK_TIMEOUT  seconds after which ranks that all wait for each other get an "
      "error (10)\n"
      "  OMP_NUM_THREADS          threads of a rank (the processors here divided by the ranks,\n"
      "                           unless there is a --hostfile)\n"
      "All variables CLEAVE_... reach the ranks, on other machines too.\n"
      "A mesh needs at least as many devices as there are ranks; if they do not divide evenly, "
      "the\n"
      "first ranks have one more. A mesh of one device is run by every rank for itself.\n"
      "A rank that dies, and the collective in which the others waited for it, are named, and the\n"
      "command ends with a status that is not zero.\n"
      "Ctrl-C (or SIGTERM) reaches the ranks as SIGUSR1: cleave train saves and ends, other "
      "programs\n"
      "end at once unless they handle it. A second one ends all of them.");
  command->callback([options] { launch(*options); });
}

}  // namespace cleave::cli
