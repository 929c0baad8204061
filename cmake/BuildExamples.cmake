# The numbered programs of c_examples/ and fortran/, and the demonstration.

function(boxwise_add_example source library)
    get_filename_component(name "${source}" NAME_WE)
    get_filename_component(folder "${source}" DIRECTORY)
    get_filename_component(folder "${folder}" NAME)
    set(target "boxwise_${folder}_${name}")
    add_executable(${target} "${source}")
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME "${name}"
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${folder}")
    target_link_libraries(${target} PRIVATE ${library} m)
endfunction()

file(GLOB sources CONFIGURE_DEPENDS c_examples/*.c)
foreach(source IN LISTS sources)
    boxwise_add_example("${source}" boxwise::boxwise)
endforeach()

if(TARGET boxwise::fortran)
    add_library(boxwise_fortran_check STATIC fortran/check.f90)
    target_link_libraries(boxwise_fortran_check PUBLIC boxwise::fortran)
    file(GLOB sources CONFIGURE_DEPENDS fortran/[0-9]*.f90)
    foreach(source IN LISTS sources)
        boxwise_add_example("${source}" boxwise_fortran_check)
    endforeach()
endif()
