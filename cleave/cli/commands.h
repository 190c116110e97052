#pragma once

#include <CLI/CLI.hpp>

namespace cleave::cli {

// Every command lives in its own file and adds itself to the app. A command's callback throws
// UserError for bad input; main prints it on one line and exits with 1. A callback that wants
// another exit status throws CLI::RuntimeError(status).
void add_reshard_command(CLI::App& app);
void add_show_command(CLI::App& app);
void add_discover_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_rules_command(CLI::App& app);
void add_solve_command(CLI::App& app);
void add_trace_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_opt_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_launch_command(CLI::App& app);
void add_calibrate_command(CLI::App& app);
void add_verify_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_ops_command(CLI::App& app);
void add_hlo_command(CLI::App& app);
void add_devices_command(CLI::App& app);
void add_train_command(CLI::App& app);
void add_generate_command(CLI::App& app);

}  // namespace cleave::cli
