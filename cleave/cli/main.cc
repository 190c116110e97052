#include <CLI/CLI.hpp>

#include <cstdio>
#include <iostream>
#include <new>
#include <sstream>

#include "cleave/cli/commands.h"
#include "cleave/cli/ranks.h"
#include "cleave/cli/streams.h"
#include "cleave/cli/unknown_arguments.h"
#include "cleave/cli/version.h"
#include "cleave/core/available_memory.h"
#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/runtime/world.h"

#ifdef CLEAVE_MIMALLOC
#include <mimalloc.h>
#endif

int main(int argc, char** argv) {
#ifdef CLEAVE_MIMALLOC
  // What is freed is needed again at once; to give it back after 25 ms is a sixth of a planning.
  mi_option_set(mi_option_decommit_delay, 1000);
#endif
  cleave::cli::prepare_streams();
  // Without a handler of ours, the allocator ends the process.
  std::set_new_handler([] { throw std::bad_alloc(); });
  CLI::App app{
      "cleave: split tensor programs over a mesh of devices, and prove that nothing changed"};
  app.set_version_flag("--version", cleave::cli::kVersion);
  app.require_subcommand(1);
  cleave::cli::add_reshard_command(app);
  cleave::cli::add_show_command(app);
  cleave::cli::add_discover_command(app);
  cleave::cli::add_explain_command(app);
  cleave::cli::add_rules_command(app);
  cleave::cli::add_solve_command(app);
  cleave::cli::add_run_command(app);
  cleave::cli::add_opt_command(app);
  cleave::cli::add_trace_command(app);
  cleave::cli::add_plan_command(app);
  cleave::cli::add_launch_command(app);
  cleave::cli::Outcome outcome;
  cleave::cli::add_calibrate_command(app);
  cleave::cli::add_verify_command(app);
  cleave::cli::add_report_command(app);
  cleave::cli::add_ops_command(app);
  cleave::cli::add_hlo_command(app);
  cleave::cli::add_devices_command(app);
  cleave::cli::add_train_command(app);
  cleave::cli::add_generate_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {
    outcome.status = error.get_exit_code();
  } catch (const CLI::Success& help) {
    std::ostringstream out;
    outcome.status = app.exit(help, out, out);
    if (cleave::World::rank_of_process() == 0) std::fputs(out.str().c_str(), stdout);
  } catch (const CLI::ParseError& error) {
    const auto commands = app.get_subcommands();
    const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) ||
                            dynamic_cast<const CLI::ExtrasError*>(&error);
    const std::string unknown = is_missing ? cleave::cli::unknown_argument(app) : "";
    outcome = cleave::cli::wrong_arguments(unknown.empty() ? error.what() : unknown,
                                           commands.empty() ? "" : commands[0]->get_name());
  } catch (const cleave::TransportError& error) {
    outcome = {1, true, fmt::format("error: {}", error.what())};
  } catch (const cleave::UserError& error) {
    outcome = {1, false, fmt::format("error: {}", error.what())};
  } catch (const std::bad_alloc&) {
    outcome = {
        1, false,
        fmt::format("error: out of memory; {} are available now",
                    cleave::bytes_text(cleave::available_memory(), cleave::BytesStyle::Estimate))};
  } catch (const std::length_error& error) {
    outcome = {1, false, fmt::format("error: a size is beyond all memory ({})", error.what())};
  } catch (const std::exception& error) {
    outcome = {70, false, fmt::format("internal error (a bug in cleave): {}", error.what())};
  }
  cleave::cli::finish_output(outcome);
  return cleave::cli::conclude(outcome);
}
