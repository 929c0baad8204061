# Target boxwise::mpi: the library, and the plugin by which it takes MPI communicators, compiled by the project's own
# MPI, because compiled code of one MPI is of no use to another. Used in the source tree and by the installed package,
# after find_package(MPI COMPONENTS C).

# boxwise_add_mpi(SOURCE FOLDER): a plugin for this MPI that lies in FOLDER already is taken as it is.
function(boxwise_add_mpi source folder)
    boxwise_mpi_plugin_name(name)
    if(folder AND EXISTS "${folder}/lib${name}.so")
        add_library(boxwise_mpi_plugin SHARED IMPORTED GLOBAL)
        set_target_properties(boxwise_mpi_plugin PROPERTIES
            IMPORTED_LOCATION "${folder}/lib${name}.so"
            IMPORTED_SONAME "lib${name}.so")
    else()
        add_library(boxwise_mpi_plugin SHARED EXCLUDE_FROM_ALL "${source}")
        set_target_properties(boxwise_mpi_plugin PROPERTIES
            OUTPUT_NAME "${name}"
            INSTALL_RPATH_USE_LINK_PATH ON)
        target_include_directories(boxwise_mpi_plugin PRIVATE
            "$<TARGET_PROPERTY:boxwise::boxwise,INTERFACE_INCLUDE_DIRECTORIES>")
        target_link_libraries(boxwise_mpi_plugin PRIVATE MPI::MPI_C)
    endif()

    # Programs link the plugin: so they have it loaded, from wherever their run path says, when boxwise asks for it by
    # its name. No program uses a symbol of it, so linkers that drop such libraries are told to keep this one; that is
    # one argument, because CMake may move arguments apart. The target after it is for the run path.
    add_library(boxwise_mpi INTERFACE)
    target_link_libraries(boxwise_mpi INTERFACE
        boxwise::boxwise
        "-Wl,--push-state,--no-as-needed,$<TARGET_FILE:boxwise_mpi_plugin>,--pop-state"
        boxwise_mpi_plugin)
    add_library(boxwise::mpi ALIAS boxwise_mpi)
endfunction()

# The name by which boxwise looks for a plugin of this MPI, without `lib` and `.so`. Intel's MPI and MVAPICH are MPICHs.
function(boxwise_mpi_plugin_name variable)
    include(CheckSymbolExists)
    set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
    set(CMAKE_REQUIRED_QUIET ON)
    check_symbol_exists(OPEN_MPI mpi.h BOXWISE_MPI_IS_OPENMPI)
    check_symbol_exists(MPICH_VERSION mpi.h BOXWISE_MPI_IS_MPICH)
    check_symbol_exists(MPI_ABI_VERSION mpi.h BOXWISE_MPI_IS_ABI)
    set(name boxwise_mpi)
    foreach(family IN ITEMS openmpi mpich abi)
        string(TOUPPER "BOXWISE_MPI_IS_${family}" found)
        if(${found})
            set(name "boxwise_mpi_${family}")
            break()
        endif()
    endforeach()
    set(${variable} "${name}" PARENT_SCOPE)
endfunction()
