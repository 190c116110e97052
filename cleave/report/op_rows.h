#pragma once

#include <string>
#include <vector>

#include "cleave/report/planned_program.h"
#include "cleave/report/report_tables.h"

namespace cleave::report {

// Time by groups of like ops and like changes of layout, the dearest first. Rows are entered in the
// order of the program; every row has a group, and the groups sum to all rows.
class GroupRows {
 public:
  // The number of the group, which is final after `finish`.
  int add(const std::string& what, int example, const std::string& type, const std::string& layouts,
          double times, double seconds);
  // The dearest first. Gives for every number of before the number of now.
  std::vector<int> sort();
  Json take(ReportTables& tables) const;

 private:
  struct Group {
    std::string what, type, layouts;
    int example = -1;
    int64_t count = 0;
    double times = 0, seconds = 0;
  };
  std::vector<Group> groups_;
  std::unordered_map<std::string, int> known_;
};

// "dot_general" of "stablehlo.dot_general".
std::string kind_of(const std::string& op);

// The tables `args`, `arg_groups`, `ops`, `ways` and `patterns` of a report.
Json source_json(const PlannedProgram::Source& source);
struct ArgumentTables {
  Json args, groups;
  std::vector<std::string> roles;  // by argument
};
ArgumentTables argument_rows(const PlannedProgram& planned, ReportTables& tables);
// `blocks`: by op. Enters the ops into the groups.
Json op_rows(const PlannedProgram& planned, const std::vector<int>& blocks, ReportTables& tables,
             GroupRows& groups);
// The table `ways`; `ops` gets its column `alternatives`.
Json way_rows(const PlannedProgram& planned, ReportTables& tables, Json& ops);
Json pattern_rows(const PlannedProgram& planned);

// What a plan says without its module: names, layouts and seconds.
Json op_rows(const Plan& plan, ReportTables& tables, GroupRows& groups);
ArgumentTables argument_rows(const Plan& plan, ReportTables& tables);

}  // namespace cleave::report
