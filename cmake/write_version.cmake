# Writes OUT, a C++ file with the version and the commit of SOURCE; without the commit if SOURCE is no checkout.
set(commit)
if(GIT)
  execute_process(COMMAND ${GIT} describe --always --tags WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(commit)
  string(PREPEND commit " (")
  string(APPEND commit ")")
endif()
file(WRITE ${OUT} "#include \"cleave/cli/version.h\"\n
namespace cleave::cli {
const char* const kVersion = \"cleave ${VERSION}${commit}\";
}  // namespace cleave::cli\n")
