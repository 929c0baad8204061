# shellcheck shell=bash disable=SC2154,SC2034 # variables of other files
# C, C++ and Fortran programs of the tests: compiled once, and run as the comment in their first lines says.
#
# Each of these lines is one test; the rest of the line is a command. {} in it stands for the program, which is its
# last word where {} is missing:
#     run: boxwise-run -n 3
#     run: env BOXWISE_CMA=0 boxwise-run -n 2 {} --size 100
# Without such a line the program runs alone.

# What a label sets: its compilers and the Fortran they keep to, what programs are linked with, where they go, and where
# `run:` finds its commands.
c_compiler=(cc)
cxx_compiler=(c++)
fortran_compiler=(gfortran)
fortran_standard=f2018
link=()
programs_dir=$scratch
commands_dir=

example_ranks=(1 2 3 4 5 8)
warnings=(-Wall -Wextra -pedantic -Werror)

# The commands of its `run:` lines, or the program alone.
runs_of() {
    head -n 10 "$1" | sed -n 's/.*\<run: *\(.*[^ ]\) *$/\1/p' | sed 's| *\*/$||' | grep . || echo '{}'
}

# build_program NAME SOURCE [FLAG…]: compiles into the programs' folder, once; fails, as a test, if that fails.
build_program() {
    local name=$1 source=$2
    shift 2
    [ ! -e "$programs_dir/$name" ] || return 0
    run_test "$name compiles" compile "$source" -o "$programs_dir/$name" "$@"
    last_passed
}

compile() {
    local source=$1
    shift
    case $source in
        *.c) "${c_compiler[@]}" -std=gnu11 "${warnings[@]}" -g -O1 -Iinclude "$source" "$@" "${link[@]}" ;;
        *.cpp) "${cxx_compiler[@]}" -std=c++17 "${warnings[@]}" -g -O1 -Iinclude "$source" "$@" "${link[@]}" ;;
        *.f90) compile_fortran "${fortran_objects[@]}" "$source" "$@" "${link[@]}" ;;
    esac
}

compile_fortran() {
    "${fortran_compiler[@]}" "-std=$fortran_standard" -Wall -Wextra -g -O1 -J "$programs_dir" "$@"
}

# The objects that every Fortran program is linked with, each compiled from fortran/NAME.f90.
fortran_objects=()

# build_fortran_objects NAME…: in this order; fails, as a test, if one does not compile.
build_fortran_objects() {
    local name
    fortran_objects=()
    for name in "$@"; do
        run_test "$name.f90 compiles" compile_fortran -c "fortran/$name.f90" -o "$programs_dir/$name.o"
        last_passed || return
        fortran_objects+=("$programs_dir/$name.o")
    done
}

# run_program RUN PROGRAM…: RUN is what a `run:` line says, PROGRAM the program with the tool it runs under, if any.
run_program() {
    local run=$1 word words command=() placed=no
    shift
    read -ra words <<<"$run"
    for word in "${words[@]}"; do
        if [ "$word" = '{}' ]; then
            command+=("$@")
            placed=yes
        else
            command+=("$word")
        fi
    done
    [ "$placed" = yes ] || command+=("$@")
    PATH=$commands_dir:$PATH within 120 "${command[@]}"
}
