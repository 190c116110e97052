#include "cleave/cli/commands.h"

namespace cleave::cli {

void add_solve_command(CLI::App& app) {
  app.add_subcommand("solve", "Solve a plain planning problem (IOPDDL JSON)");
}

}  // namespace cleave::cli
