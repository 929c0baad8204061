# shellcheck shell=bash disable=SC2154,SC2034 # variables of other files
# The installed package, as users meet it: installed, moved to another folder, and used from there by separate
# projects (tests/package) with CMake, FetchContent and pkg-config; with MPI, by each family of it.

mpi_families=(openmpi mpich)

test_package() {
    prefix=$scratch/moved
    consumers=$scratch/consumers
    # Copied, so that no project finds anything by lying in the source tree.
    cp -R tests/package "$consumers"

    run_test "tools are there" need_programs \
        cc:gcc c++:g++ gfortran:gfortran cmake:cmake make:make pkg-config:pkg-config \
        mpicc.openmpi:libopenmpi-dev mpirun.openmpi:openmpi-bin mpicc.mpich:libmpich-dev mpirun.mpich:mpich
    run_test "install" install_and_move
    last_passed || return
    run_test "no installed file names the build folders" names_no_folder "$prefix"
    run_test "soname" has_soname
    local project
    for project in c cxx fortran; do
        run_test "find_package: $project" build_and_test "$project" -DCMAKE_PREFIX_PATH="$prefix"
    done
    test_what_find_package_refuses
    for project in c cpp f90; do
        run_test "pkg-config: $project" build_with_pkg_config "$project"
    done
    run_test "FetchContent" with_launchers build_and_test fetchcontent -DBOXWISE_SOURCE_DIR="$root"
    test_mpi_consumers
}

install_and_move() {
    within 900 cmake -S "$root" -B "$scratch/build" -DCMAKE_INSTALL_PREFIX="$scratch/installed" \
        -DCMAKE_INSTALL_LIBDIR=lib -DBOXWISE_BUILD_EXAMPLES=ON -DMPI_C_COMPILER=mpicc.openmpi \
        -DMPI_Fortran_COMPILER=mpifort.openmpi
    within 900 cmake --build "$scratch/build" --parallel 2
    cmake --install "$scratch/build"
    mv "$scratch/installed" "$prefix"
}

# names_no_folder FOLDER: neither texts nor programs in it name the source, the build, or where it was first installed.
names_no_folder() {
    local folder found=no
    for folder in "$root" "$scratch" "${CARGO_HOME:-$HOME/.cargo}"; do
        ! grep -rlF -- "$folder" "$1" || found=yes
    done
    [ "$found" = no ]
}

# The name that programs will look for exists, as a link, and is the one the library goes by.
has_soname() {
    local soname
    soname=$(readelf -d "$prefix/lib/libboxwise.so" | sed -n 's/.*SONAME.*\[\(.*\)\].*/\1/p')
    echo "soname: $soname"
    [ -L "$prefix/lib/$soname" ]
    cmp "$prefix/lib/$soname" "$prefix/lib/libboxwise.so"
}

# build_and_test PROJECT [CMAKE OPTION…]
build_and_test() {
    local project=$1
    shift
    within 900 cmake -S "$consumers/$project" -B "$consumers/$project/build" "$@"
    within 900 cmake --build "$consumers/$project/build" --parallel 2
    within 60 ctest --test-dir "$consumers/$project/build" --output-on-failure --no-tests=error
}

test_what_find_package_refuses() {
    run_test "find_package: this version is accepted" find_it "$(version)" C
    run_test "find_package: a later patch is refused" refuses "version: $(version)" find_it 0.1.99 C
    run_test "find_package: another minor version is refused" refuses "version: $(version)" find_it 0.2 C
    run_test "find_package: another major version is refused" refuses "version: $(version)" find_it 1.0 C
    run_test "find_package: an unknown component is refused" refuses "no component Cobol" find_it "$(version)" Cobol
    run_test "find_package: Fortran needs the language" \
        refuses "enable the language Fortran" find_it "$(version)" Fortran
    run_test "find_package: CUDA needs a boxwise with it" \
        refuses "has no NVSHMEM backend; build one" find_it "$(version)" CUDA
    run_test "find_package: MPI needs the language C" \
        refuses "enable the language C" find_it "$(version)" MPI -DLANGUAGE=CXX
    run_test "find_package: MPI needs an MPI" \
        refuses "finds none: install one" find_it "$(version)" MPI -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON
}

# find_it VERSION COMPONENT [CMAKE OPTION…]
find_it() {
    local version=$1 components=$2
    shift 2
    rm -rf "$consumers/refused/build"
    cmake -S "$consumers/refused" -B "$consumers/refused/build" -DCMAKE_PREFIX_PATH="$prefix" \
        -DVERSION="$version" -DCOMPONENTS="$components" -DLANGUAGE=C "$@"
}

version() {
    sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1
}

build_with_pkg_config() {
    local language=$1 program=$scratch/pkg-config-$1 source=$consumers/programs/rows_to_columns.$1 flags
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    read -ra flags <<<"$(pkg-config --cflags --libs "boxwise = $(version)")"
    flags+=("-Wl,-rpath,$(pkg-config --variable=libdir boxwise)")
    case $language in
        c) cc "$source" -o "$program" "${flags[@]}" ;;
        cpp) c++ -std=c++17 "$source" -o "$program" "${flags[@]}" ;;
        f90) gfortran -J "$scratch" "$(pkg-config --variable=fortran_source boxwise)" "$source" \
            -o "$program" "${flags[@]}" ;;
    esac
    within 60 "$prefix/bin/boxwise-run" -n 2 "$program" 2
}

# The plugin is first compiled by each consumer's own project, then by hand and installed, then built with boxwise.
test_mpi_consumers() {
    local family
    for family in "${mpi_families[@]}"; do
        run_test "find_package: MPI, $family" use_mpi "$family" own
        run_test "find_package: MPI, $family, the consumer is installed and moved" use_installed_consumer "$family"
    done
    for family in "${mpi_families[@]}"; do
        run_test "pkg-config: the plugin, $family" build_plugin_with_pkg_config "$family"
        run_test "find_package: MPI, $family, the plugin is installed" use_mpi "$family" installed
    done
    run_test "pkg-config: MPI" run_with_pkg_config
    run_test "BOXWISE_BUILD_MPI" install_with_plugin
    prefix=$scratch/with_mpi run_test "find_package: MPI, the plugin came with boxwise" use_mpi openmpi with_boxwise
}

# use_mpi FAMILY WHOSE_PLUGIN: a copy of the project for each of the two, because of what CMake remembers.
use_mpi() {
    local family=$1 project=mpi-$1-$2 built
    cp -R "$consumers/mpi" "$consumers/$project"
    with_launchers build_and_test "$project" -DCMAKE_PREFIX_PATH="$prefix" -DMPI_C_COMPILER="mpicc.$family" \
        -DMPI_CXX_COMPILER="mpicxx.$family" -DMPI_Fortran_COMPILER="mpifort.$family" \
        -DMPIEXEC_EXECUTABLE="$(command -v "mpirun.$family")"
    built=$(find "$consumers/$project/build" -name 'libboxwise_mpi*.so')
    echo "plugin built by the project: ${built:-none}"
    case $2 in
        own) [ "${built##*/}" = "libboxwise_mpi_$family.so" ] ;;
        *) [ -z "$built" ] ;;
    esac
}

# As root, and with more ranks than cores, Open MPI wants to be told.
with_launchers() {
    local -x OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    local -x OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    "$@"
}

# With its project gone, so that it finds what it needs where it was installed.
use_installed_consumer() {
    local family=$1 project=$consumers/mpi-$1-own moved=$scratch/consumer-$1 program
    cmake --install "$project/build" --prefix "$scratch/consumer"
    rm -r "$project"
    mv "$scratch/consumer" "$moved"
    for program in c_static c_shared cxx fortran; do
        with_launchers within 60 "mpirun.$family" -n 2 "$moved/bin/$program" 2
    done
}

# The line that the README gives.
build_plugin_with_pkg_config() {
    local family=$1 flags
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    read -ra flags <<<"$(pkg-config --cflags boxwise)"
    "mpicc.$family" -O2 -fPIC -shared "${flags[@]}" "$(pkg-config --variable=mpi_source boxwise)" \
        -o "$(pkg-config --variable=libdir boxwise)/libboxwise_mpi_$family.so"
}

# Both plugins lie beside the library; each program gets its own.
run_with_pkg_config() {
    local family flags
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    read -ra flags <<<"$(pkg-config --cflags --libs boxwise)"
    flags+=("-Wl,-rpath,$(pkg-config --variable=libdir boxwise)")
    for family in "${mpi_families[@]}"; do
        "mpicc.$family" "$consumers/mpi/main.c" "$consumers/mpi/solver.c" -o "$scratch/pkg-config-$family" "${flags[@]}"
        with_launchers within 60 "mpirun.$family" -n 3 "$scratch/pkg-config-$family" 3
    done
}

# The folder in which boxwise was built before is told to build the plugin, too.
install_with_plugin() {
    within 900 cmake "$scratch/build" -DBOXWISE_BUILD_MPI=ON
    within 900 cmake --build "$scratch/build" --parallel 2
    cmake --install "$scratch/build" --prefix "$scratch/with_mpi"
    [ -e "$scratch/with_mpi/lib/libboxwise_mpi_openmpi.so" ]
    names_no_folder "$scratch/with_mpi"
}
