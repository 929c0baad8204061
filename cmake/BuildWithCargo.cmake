# Target boxwise_cargo: the library and the programs, built by cargo and laid out as they will be installed.
# Cargo is asked at every build: only it knows when something has to be done, and it is quick to say so.

find_program(BOXWISE_CARGO cargo HINTS "$ENV{CARGO_HOME}/bin" "$ENV{HOME}/.cargo/bin" DOC "The build tool of Rust")
if(NOT BOXWISE_CARGO)
    message(FATAL_ERROR "boxwise is built by Rust's cargo, which was not found: install Rust or set BOXWISE_CARGO")
endif()

set(cargo_target_dir "${CMAKE_CURRENT_BINARY_DIR}/cargo")

# Debug information and messages name source files: keep this machine's folders out of what is installed.
set(cargo_home "$ENV{CARGO_HOME}")
if(NOT cargo_home)
    set(cargo_home "$ENV{HOME}/.cargo")
endif()
set(remap_flags
    "'--remap-path-prefix=${cargo_home}=cargo'"
    "'--remap-path-prefix=${PROJECT_SOURCE_DIR}=boxwise'"
    "'--remap-path-prefix=${cargo_target_dir}=target'")
list(JOIN remap_flags "," remap_flags)

set(built_programs ${boxwise_programs})
list(TRANSFORM built_programs REPLACE ".*/" "${cargo_target_dir}/release/")

set(cargo_features)
set(cargo_environment)
if(BOXWISE_BUILD_CUDA)
    set(cargo_features --features cuda)
    # What kernels/build.rs reads, as it was when first configured.
    foreach(variable IN ITEMS BOXWISE_NVCC CUDA_HOME NVSHMEM_HOME BOXWISE_CUDA_ARCHITECTURES BOXWISE_KERNELS_FORM)
        set(${variable} "$ENV{${variable}}" CACHE STRING "For the compilation of the kernels: see docs/gpu.md")
        # Semicolons would part arguments.
        string(REPLACE ";" "," value "${${variable}}")
        list(APPEND cargo_environment "${variable}=${value}")
    endforeach()
endif()

add_custom_target(boxwise_cargo ALL
    COMMAND "${CMAKE_COMMAND}" -E env ${cargo_environment}
            "${BOXWISE_CARGO}" build --release --locked --lib --bins ${cargo_features}
            --manifest-path "${PROJECT_SOURCE_DIR}/Cargo.toml" --target-dir "${cargo_target_dir}"
            --config "build.rustflags=[${remap_flags}]"
    COMMAND "${CMAKE_COMMAND}" -E make_directory lib bin
    COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${cargo_target_dir}/release/libboxwise.so" "${boxwise_library}"
    COMMAND "${CMAKE_COMMAND}" -E create_symlink "libboxwise.so.${PROJECT_VERSION}" "lib/${boxwise_soname}"
    COMMAND "${CMAKE_COMMAND}" -E create_symlink "${boxwise_soname}" lib/libboxwise.so
    COMMAND "${CMAKE_COMMAND}" -E copy_if_different ${built_programs} bin
    WORKING_DIRECTORY "${PROJECT_BINARY_DIR}"
    BYPRODUCTS "${boxwise_library}" ${boxwise_links} ${boxwise_programs}
    COMMENT "Building boxwise with cargo"
    USES_TERMINAL
    VERBATIM)
