# shellcheck shell=bash disable=SC2154,SC2034 # variables of other files
# The installed package, as users meet it: installed, moved to another folder, and used from there by separate
# projects (tests/package) with CMake, FetchContent and pkg-config.

test_package() {
    prefix=$scratch/moved
    consumers=$scratch/consumers
    # Copied, so that no project finds anything by lying in the source tree.
    cp -R tests/package "$consumers"

    run_test "tools are there" need_programs \
        cc:gcc c++:g++ gfortran:gfortran cmake:cmake make:make pkg-config:pkg-config
    run_test "install" install_and_move
    last_passed || return
    run_test "no installed file names the build folders" names_no_folder
    run_test "soname" has_soname
    local project
    for project in c cxx fortran; do
        run_test "find_package: $project" build_and_test "$project" -DCMAKE_PREFIX_PATH="$prefix"
    done
    test_what_find_package_refuses
    for project in c cpp f90; do
        run_test "pkg-config: $project" build_with_pkg_config "$project"
    done
    run_test "FetchContent" build_and_test fetchcontent -DBOXWISE_SOURCE_DIR="$root"
}

install_and_move() {
    within 900 cmake -S "$root" -B "$scratch/build" -DCMAKE_INSTALL_PREFIX="$scratch/installed" \
        -DCMAKE_INSTALL_LIBDIR=lib -DBOXWISE_BUILD_EXAMPLES=ON
    within 900 cmake --build "$scratch/build" --parallel 2
    cmake --install "$scratch/build"
    mv "$scratch/installed" "$prefix"
}

# Neither texts nor programs: not the source, not the build, not where it was first installed.
names_no_folder() {
    local folder found=no
    for folder in "$root" "$scratch" "${CARGO_HOME:-$HOME/.cargo}"; do
        ! grep -rlF -- "$folder" "$prefix" || found=yes
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
}

find_it() {
    local version=$1 components=$2
    rm -rf "$consumers/refused/build"
    cmake -S "$consumers/refused" -B "$consumers/refused/build" -DCMAKE_PREFIX_PATH="$prefix" \
        -DVERSION="$version" -DCOMPONENTS="$components"
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
