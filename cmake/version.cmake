# The source file that says the version and the commit, for `cleave --version`. It is written again when HEAD has moved, and
# is compiled by itself: a commit costs one small file and the link of the command.
find_package(Git QUIET)
set(VERSION_FILE ${CMAKE_BINARY_DIR}/version.cc)
set(head)
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --git-path logs/HEAD WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                  OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(head)
    get_filename_component(head ${head} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
  endif()
  if(NOT EXISTS "${head}")
    set(head)
  endif()
endif()
add_custom_command(
  OUTPUT ${VERSION_FILE}
  COMMAND ${CMAKE_COMMAND} -DVERSION=${PROJECT_VERSION} -DGIT=${GIT_EXECUTABLE} -DSOURCE=${CMAKE_SOURCE_DIR}
          -DOUT=${VERSION_FILE} -P ${CMAKE_CURRENT_LIST_DIR}/write_version.cmake
  DEPENDS ${head} ${CMAKE_CURRENT_LIST_DIR}/write_version.cmake
  COMMENT "Writing version.cc"
  VERBATIM)
