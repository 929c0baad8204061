# The numbered programs of c_examples/ and fortran/, and the demonstration; those of their folders mpi/ where there is
# an MPI, and FFTW for those that use it.

# boxwise_add_example(SOURCE LIBRARY…)
function(boxwise_add_example source)
    cmake_path(GET source STEM name)
    cmake_path(GET source PARENT_PATH folder)
    string(REPLACE "/" "_" target "boxwise_${folder}_${name}")
    add_executable(${target} "${source}")
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME "${name}"
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${folder}")
    target_link_libraries(${target} PRIVATE ${ARGN} m)
    # fftw3.f03 lies where Fortran compilers do not look by themselves.
    if(name MATCHES "pseudo_spectral")
        target_include_directories(${target} PRIVATE "${BOXWISE_FFTW_INCLUDE_DIR}")
        target_link_libraries(${target} PRIVATE "${BOXWISE_FFTW_LIBRARY}")
    endif()
endfunction()

# boxwise_example_sources(VARIABLE PATTERN…): relative to the source folder, without what this machine cannot build.
function(boxwise_example_sources variable)
    file(GLOB sources CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" ${ARGN})
    if(NOT BOXWISE_FFTW_INCLUDE_DIR OR NOT BOXWISE_FFTW_LIBRARY)
        list(FILTER sources EXCLUDE REGEX "pseudo_spectral")
    endif()
    set(${variable} "${sources}" PARENT_SCOPE)
endfunction()

if(TARGET boxwise::mpi)
    find_path(BOXWISE_FFTW_INCLUDE_DIR fftw3.h DOC "Where fftw3.h is, for the examples")
    find_library(BOXWISE_FFTW_LIBRARY fftw3 DOC "FFTW, for the examples")
endif()

boxwise_example_sources(sources c_examples/*.c)
foreach(source IN LISTS sources)
    boxwise_add_example("${source}" boxwise::boxwise)
endforeach()

if(TARGET boxwise::mpi)
    boxwise_example_sources(sources c_examples/mpi/*.c)
    include(CheckLanguage)
    check_language(CXX)
    if(CMAKE_CXX_COMPILER)
        enable_language(CXX)
        set(CMAKE_CXX_STANDARD 17)
        boxwise_example_sources(cxx_sources c_examples/mpi/*.cpp)
    endif()
    foreach(source IN LISTS sources cxx_sources)
        boxwise_add_example("${source}" boxwise::mpi MPI::MPI_C)
    endforeach()
endif()

if(TARGET boxwise::fortran)
    add_library(boxwise_fortran_check STATIC fortran/check.f90)
    set_target_properties(boxwise_fortran_check PROPERTIES
        Fortran_MODULE_DIRECTORY "${PROJECT_BINARY_DIR}/boxwise_check_module")
    target_include_directories(boxwise_fortran_check INTERFACE "${PROJECT_BINARY_DIR}/boxwise_check_module")
    target_link_libraries(boxwise_fortran_check PUBLIC boxwise::fortran)
    boxwise_example_sources(sources fortran/[0-9]*.f90)
    foreach(source IN LISTS sources)
        boxwise_add_example("${source}" boxwise_fortran_check)
    endforeach()
endif()

if(TARGET boxwise::fortran AND TARGET boxwise::mpi)
    find_package(MPI QUIET COMPONENTS Fortran)
    if(MPI_Fortran_HAVE_F08_MODULE)
        boxwise_example_sources(sources fortran/mpi/[0-9]*.f90)
        foreach(source IN LISTS sources)
            boxwise_add_example("${source}" boxwise_fortran_check boxwise::mpi MPI::MPI_Fortran)
        endforeach()
    endif()
endif()
