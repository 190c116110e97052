#include <CLI/CLI.hpp>

#include <cstdio>

#include "cleave/cli/commands.h"
#include "cleave/core/error.h"

int main(int argc, char** argv) {
  CLI::App app{
      "cleave: split tensor programs over a mesh of devices, and prove that nothing changed"};
  app.require_subcommand(1);
  cleave::cli::add_reshard_command(app);
  cleave::cli::add_show_command(app);
  cleave::cli::add_discover_command(app);
  cleave::cli::add_explain_command(app);
  cleave::cli::add_rules_command(app);
  cleave::cli::add_solve_command(app);
  cleave::cli::add_run_command(app);
  cleave::cli::add_opt_command(app);
  cleave::cli::add_plan_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const cleave::UserError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "internal error (a bug in cleave): {}\n", error.what());
    return 70;
  }
  return 0;
}
