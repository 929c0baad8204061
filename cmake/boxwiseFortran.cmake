# Target boxwise::fortran: the module `boxwise`, compiled by the project's own Fortran compiler, because module files
# of one compiler are of no use to another. Used in the source tree and by the installed package.

function(boxwise_add_fortran source)
    set(modules "${CMAKE_CURRENT_BINARY_DIR}/boxwise_modules")
    add_library(boxwise_fortran STATIC EXCLUDE_FROM_ALL "${source}")
    set_target_properties(boxwise_fortran PROPERTIES
        Fortran_MODULE_DIRECTORY "${modules}"
        POSITION_INDEPENDENT_CODE ON)
    target_include_directories(boxwise_fortran INTERFACE "${modules}")
    target_link_libraries(boxwise_fortran PUBLIC boxwise::boxwise)
    add_library(boxwise::fortran ALIAS boxwise_fortran)
endfunction()
