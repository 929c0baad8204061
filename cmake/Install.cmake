# What `cmake --install` puts where. No installed file names the folder it was built or installed in.

include(CMakePackageConfigHelpers)

install(PROGRAMS "${boxwise_library}" DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(FILES ${boxwise_links} DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(PROGRAMS ${boxwise_programs} DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(FILES include/boxwise.h include/boxwise.hpp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT DESTINATION "${CMAKE_INSTALL_DOCDIR}")

set(boxwise_fortran_dir "${CMAKE_INSTALL_DATADIR}/boxwise/fortran")
install(FILES fortran/boxwise.f90 DESTINATION "${boxwise_fortran_dir}")
set(boxwise_mpi_dir "${CMAKE_INSTALL_DATADIR}/boxwise/mpi")
install(FILES mpi/boxwise_mpi.c DESTINATION "${boxwise_mpi_dir}")
if(BOXWISE_BUILD_MPI)
    install(TARGETS boxwise_mpi_plugin LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()

# find_package(boxwise)
set(boxwise_has_cuda FALSE)
if(BOXWISE_BUILD_CUDA)
    set(boxwise_has_cuda TRUE)
endif()
set(boxwise_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/boxwise")
configure_package_config_file(cmake/boxwiseConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/boxwiseConfig.cmake"
    INSTALL_DESTINATION "${boxwise_package_dir}"
    PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_BINDIR boxwise_fortran_dir boxwise_mpi_dir)
# Before 1.0 every minor version may change the interface.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/boxwiseConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES
    "${CMAKE_CURRENT_BINARY_DIR}/boxwiseConfig.cmake"
    "${CMAKE_CURRENT_BINARY_DIR}/boxwiseConfigVersion.cmake"
    cmake/boxwiseFortran.cmake
    cmake/boxwiseMPI.cmake
    DESTINATION "${boxwise_package_dir}")

# pkg-config: the prefix is found from the place of boxwise.pc itself.
file(RELATIVE_PATH pc_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
foreach(dir IN ITEMS LIBDIR INCLUDEDIR DATADIR)
    string(TOLOWER "pc_${dir}" variable)
    set(${variable} "\${prefix}")
    cmake_path(APPEND ${variable} "${CMAKE_INSTALL_${dir}}")
endforeach()
configure_file(cmake/boxwise.pc.in "${CMAKE_CURRENT_BINARY_DIR}/boxwise.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/boxwise.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
