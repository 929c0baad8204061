# shellcheck shell=bash disable=SC2154,SC2034,SC2054 # variables of other files; commas of linker flags
# C, C++ and Fortran programs on this machine: tests/c, the examples, the demonstration and the README.
#
# scripts/lib/programs.sh says what `run:` in the first lines of a program of tests/c means; without it the program is a
# world of one. `skip: valgrind` or `skip: sanitizers`, with a reason behind it, leaves out the runs under that tool.

# shellcheck source=../lib/programs.sh
source "$here/lib/programs.sh"

# The instrumented code has compilers warn where there is nothing.
sanitizers=(-fsanitize=address,undefined -fno-sanitize-recover=all -Wno-error)
memcheck=(env "LD_PRELOAD=$scratch/pidfd_stand_in.so"
    valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite)
link=(-L"$release_dir" -lboxwise -Wl,-rpath,"$release_dir" -lpthread -lm)
commands_dir=$release_dir

test_host() {
    run_test "tools are there" need_programs \
        cc:gcc c++:g++ gfortran:gfortran valgrind:valgrind cmake:cmake make:make pkg-config:pkg-config \
        mpicc:libopenmpi-dev mpirun:openmpi-bin
    run_test "release build" build_release
    last_passed || return
    run_test "stand-in for valgrind" \
        cc -shared -fPIC -O1 scripts/tests/pidfd_stand_in.c -o "$scratch/pidfd_stand_in.so" -ldl
    test_headers
    test_c_programs
    test_c_examples
    test_fortran_programs
    run_test "scripts/demo" within 300 scripts/demo -n 3 --shape 32,24,20 --repeat 3
    # Open MPI asks whether it may, as root and with few cores.
    run_test "README" within 600 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        OMPI_MCA_rmaps_base_oversubscribe=1 scripts/check-readme
}

# Each header alone, in every language version it is promised for.
test_headers() {
    local standard
    for standard in c99 c11; do
        run_test "boxwise.h as $standard" compile_header boxwise.h cc -x c "-std=$standard" -Wstrict-prototypes
    done
    for standard in c++11 c++17; do
        run_test "boxwise.h as $standard" compile_header boxwise.h c++ -x c++ "-std=$standard"
    done
    for standard in c++17 c++20; do
        run_test "boxwise.hpp as $standard" compile_header boxwise.hpp c++ -x c++ "-std=$standard"
    done
}

compile_header() {
    local header=$1
    shift
    printf '#include <%s>\nint main(void) { return 0; }\n' "$header" \
        | "$@" "${warnings[@]}" -I"$root/include" -fsyntax-only -
}

test_c_programs() {
    local source name run runs
    for source in tests/c/*.c tests/c/*.cpp; do
        name=${source##*/}
        mapfile -t runs < <(runs_of "$source")
        build_program "$name" "$source" || continue
        for run in "${runs[@]}"; do
            run_test "$name, ${run/#\{\}/alone}" run_program "$run" "$scratch/$name"
            test_under_tools "$name" "$source" "$run"
        done
    done
}

test_c_examples() {
    local source name ranks
    for source in c_examples/[0-9]*.c; do
        name=${source##*/}
        build_program "$name" "$source" || continue
        for ranks in "${example_ranks[@]}"; do
            run_test "$name, $ranks ranks" run_program "boxwise-run -n $ranks" "$scratch/$name"
        done
        test_under_tools "$name" "$source" "boxwise-run -n 3"
    done
}

# All programs of fortran/: the examples, and one that calls every procedure of the module.
test_fortran_programs() {
    local source name ranks
    build_fortran_objects boxwise check || return
    for source in fortran/*.f90; do
        name=${source##*/}
        case $name in boxwise.f90 | check.f90) continue ;; esac
        build_program "$name" "$source" || continue
        for ranks in "${example_ranks[@]}"; do
            run_test "$name, $ranks ranks" run_program "boxwise-run -n $ranks" "$scratch/$name"
        done
    done
}

# The same run under memcheck, and once more with the program compiled with sanitizers.
test_under_tools() {
    local name=$1 source=$2 run=$3 how=${3/#\{\}/alone}
    if ! skips "$source" valgrind; then
        run_test "$name under valgrind, $how" run_program "$run" "${memcheck[@]}" "$scratch/$name"
    fi
    if ! skips "$source" sanitizers; then
        build_program "$name with sanitizers" "$source" "${sanitizers[@]}" || return
        run_test "$name with sanitizers, $how" run_program "$run" "$scratch/$name with sanitizers"
    fi
}

skips() {
    head -n 10 "$1" | grep -q "\<skip: *$2"
}
