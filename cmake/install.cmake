# Installs the library as a CMake package: find_package(cleave), target cleave::cleave.
include(CMakePackageConfigHelpers)

install(TARGETS cleave EXPORT cleave-targets)
install(TARGETS cleave_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS cleave_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The public headers, cleave/*.h, and what they include; found when they are installed, so that an #include that was added
# since the build was configured counts.
install(CODE "set(source \"${CMAKE_SOURCE_DIR}\")
set(destination \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")")
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/install_headers.cmake)
install(EXPORT cleave-targets NAMESPACE cleave:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cleave)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/cleave-config.cmake.in
                              ${CMAKE_BINARY_DIR}/cleave-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cleave)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cleave-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cleave-config.cmake ${CMAKE_BINARY_DIR}/cleave-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cleave)
