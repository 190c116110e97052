# The scripts that `cleave calibrate --emit` prints, as text in the program.
foreach(framework jax torch)
  set(script ${CMAKE_SOURCE_DIR}/cleave/cli/measure/measure_${framework}.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script})
  string(TOUPPER ${framework} name)
  file(READ ${script} MEASURE_${name})
endforeach()
set(MEASURE_SCRIPTS ${CMAKE_BINARY_DIR}/measure_scripts.cc)
configure_file(${CMAKE_CURRENT_LIST_DIR}/measure_scripts.cc.in ${MEASURE_SCRIPTS} @ONLY)
