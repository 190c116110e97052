# All Debian packages that the build needs and that are not there, in one line, before find_package stops at the first of
# them. Only the headers are looked for, so that libraries from elsewhere serve as well.
if(EXISTS /etc/debian_version)
  set(NEEDED fmt/core.h libfmt-dev CLI/CLI.hpp libcli11-dev nlohmann/json.hpp nlohmann-json3-dev simdjson.h libsimdjson-dev
             yaml-cpp/yaml.h libyaml-cpp-dev zlib.h zlib1g-dev dnnl.hpp libdnnl-dev openblas_config.h libopenblas-dev
             mpi.h libopenmpi-dev coin/CbcModel.hpp coinor-libcbc-dev)
  if(CLEAVE_MIMALLOC)
    list(APPEND NEEDED mimalloc.h libmimalloc-dev)
  endif()
  set(MISSING)
  while(NEEDED)
    list(POP_FRONT NEEDED header package)
    unset(folder)
    find_path(folder ${header} PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include
              PATH_SUFFIXES openblas openblas-pthread NO_CACHE)
    if(NOT folder)
      list(APPEND MISSING ${package})
    endif()
  endwhile()
  find_program(PKG_CONFIG_FOUND_HERE pkg-config NO_CACHE)
  if(NOT PKG_CONFIG_FOUND_HERE)
    list(APPEND MISSING pkg-config)
  endif()
  if(MISSING)
    list(JOIN MISSING " " MISSING)
    # A line that begins with a space is not wrapped.
    message(FATAL_ERROR " Debian packages are missing; as root: apt-get install ${MISSING}")
  endif()
endif()
