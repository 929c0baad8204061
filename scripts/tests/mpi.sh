# shellcheck shell=bash disable=SC2154,SC2034,SC2054 # variables of other files; commas of flags
# MPI communicators, under Open MPI and under MPICH: one library, and beside it a plugin for each.
#
# In the `run:` lines of tests/mpi (see scripts/lib/programs.sh) `mpirun` is that of the MPI under test, and
# $OTHER_PLUGIN the plugin of the other one. A random case that went wrong says how it is played again:
#     CASE='openmpi 5 multiple tcp 0,0,1 plain copy 1234' scripts/test mpi
# SEED=N gives the random cases another start.

# shellcheck source=../lib/programs.sh
source "$here/lib/programs.sh"

families=(openmpi mpich)
# The library and its plugins, found by looking beside it.
library_dir=$scratch/lib
# Pretended nodes for the examples: number of ranks, and what BOXWISE_NODE says.
example_nodes=("2 0,1" "3 0,1,1" "4 0,1,2,3")
# Jobs of the random cases: number of ranks, thread level, and what MPI sends by: shared memory, TCP on this host, TCP
# between two hosts that are network namespaces.
differential_jobs=(
    "1 multiple shm" "2 multiple shm" "3 multiple shm" "4 multiple shm" "5 multiple shm" "6 multiple shm"
    "7 multiple shm" "8 multiple shm" "2 funneled shm" "3 funneled shm" "5 funneled shm" "8 funneled shm"
    "2 serialized shm" "4 serialized shm" "7 serialized shm"
    "2 multiple tcp" "3 funneled tcp" "5 multiple tcp" "8 serialized tcp"
    "2 multiple hosts" "4 funneled hosts" "5 multiple hosts"
)
# For each communicator on each layout of nodes; a multiple of the three kinds of memory.
cases_per_job=9

test_mpi() {
    run_test "tools are there" need_mpi_tools
    run_test "release build" build_release
    last_passed || return
    run_test "library in a place of its own" place_library
    run_test "random cases compile" build_differential
    last_passed || return
    for family in "${families[@]}"; do
        run_test "$family: plugin" build_plugin
        last_passed || return
    done
    if [ -n "${CASE:-}" ]; then
        play_again
        return
    fi
    differential_seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
    for family in "${families[@]}"; do
        enter_family
        test_mpi_programs
        test_lost_ranks
        test_mpi_examples
        test_mpi_fortran
        test_differential
    done
    run_test "nobody is left behind" nobody_left
}

need_mpi_tools() {
    need_programs cc:gcc c++:g++ gfortran:gfortran pkg-config:pkg-config ip:iproute2 unshare:util-linux \
        mpicc.openmpi:libopenmpi-dev mpirun.openmpi:openmpi-bin mpicc.mpich:libmpich-dev mpirun.mpich:mpich
    echo '#include <fftw3.h>' | cc -fsyntax-only -x c - 2>/dev/null || install_packages libfftw3-dev
}

place_library() {
    mkdir -p "$library_dir"
    cp "$release_dir/libboxwise.so" "$library_dir/libboxwise.so.0"
    ln -s libboxwise.so.0 "$library_dir/libboxwise.so"
}

plugin_of() {
    echo "$library_dir/libboxwise_mpi_$1.so"
}

build_plugin() {
    "mpicc.$family" -std=c99 "${warnings[@]}" -O2 -fPIC -shared -Iinclude mpi/boxwise_mpi.c -o "$(plugin_of "$family")"
}

# Once for both: it is Rust and links no MPI.
build_differential() {
    local message='"name":"differential_mpi".*"executable":"\([^"]*\)"'
    cargo test --locked --no-run --test differential_mpi --message-format json >"$scratch/built.json"
    ln -s "$(sed -n "s|.*$message.*|\1|p" "$scratch/built.json")" "$scratch/differential_mpi"
}

# The compilers, the launcher and the folders of the MPI under test.
enter_family() {
    programs_dir=$scratch/$family
    commands_dir=$programs_dir/bin
    c_compiler=("mpicc.$family")
    cxx_compiler=("mpicxx.$family" -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX)
    fortran_compiler=("mpifort.$family" "-I$(pkg-config --variable=includedir fftw3)")
    # Files of MPI's and of FFTW's that programs include do not keep to the standard.
    fortran_standard=gnu
    link=(-L"$library_dir" -lboxwise -Wl,-rpath,"$library_dir" -Wl,--as-needed -lfftw3 -lpthread -lm)
    case $family in
        openmpi) other_plugin=$(plugin_of mpich) ;;
        mpich) other_plugin=$(plugin_of openmpi) ;;
    esac
    mkdir -p "$commands_dir"
    cat >"$commands_dir/mpirun" <<EOF
#!/bin/sh
# As root, and with more ranks than cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
exec mpirun.$family "\$@"
EOF
    chmod +x "$commands_dir/mpirun"
    run_test "$family: shim" "${c_compiler[@]}" -std=gnu11 "${warnings[@]}" -O1 -fPIC -shared tests/mpi/shim.c \
        -o "$programs_dir/shim.so"
}

test_mpi_programs() {
    local source name run runs
    for source in tests/mpi/*.c; do
        name=${source##*/}
        [ "$name" != shim.c ] || continue
        mapfile -t runs < <(runs_of "$source")
        build_program "$name" "$source" || continue
        for run in "${runs[@]}"; do
            run_test "$family: $name, $run" run_program "${run//\$OTHER_PLUGIN/$other_plugin}" "$programs_dir/$name"
        done
    done
}

# What a job that loses a rank comes to. MPI cannot go on, so the job fails; but it ends.
test_lost_ranks() {
    local how timeout_ms nodes
    for how in killed leaves; do
        for timeout_ms in 0 500; do
            for nodes in 0 0,1,2; do
                run_test "$family: job ends, nodes $nodes, timeout $timeout_ms ms, a rank $how" \
                    job_ends "$how" "$timeout_ms" "$nodes"
            done
        done
        # The launcher of MPICH ends the others when one was killed, whatever it is told.
        [ "$family $how" != 'mpich killed' ] || continue
        run_test "$family: the others return, a rank $how" others_return "$how"
    done
}

job_ends() {
    local status=0 output
    output=$(PATH=$commands_dir:$PATH within 60 env BOXWISE_NODE="$3" mpirun -n 3 "$programs_dir/suite_lost.c" \
        "$1" "$2" 2>&1) || status=$?
    printf '%s\n' "$output"
    nobody_left
    grep -q ': all are there' <<<"$output" && [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
}

# Where the launcher lets them live.
others_return() {
    local let_live output
    case $family in
        openmpi) let_live=--enable-recovery ;;
        mpich) let_live=-disable-auto-cleanup ;;
    esac
    output=$(PATH=$commands_dir:$PATH within 60 env BOXWISE_NODE=0,1,2 mpirun "$let_live" \
        -n 3 "$programs_dir/suite_lost.c" "$1" 500 2>&1) || true
    printf '%s\n' "$output"
    nobody_left
    grep -q '^rank 0: after .* s lost' <<<"$output" && grep -q '^rank 1: after .* s lost' <<<"$output"
}

# No process of a program that was started from the scratch folder is there any more, or soon will not be.
nobody_left() {
    local i left
    for i in {1..50}; do
        left=$(find /proc/[0-9]*/exe -lname "$scratch/*" 2>/dev/null || true)
        [ -n "$left" ] || return 0
        sleep 0.1
    done
    echo "left behind: $left"
    return 1
}

test_mpi_examples() {
    local source
    for source in c_examples/mpi/[0-9]*.c c_examples/mpi/[0-9]*.cpp; do
        build_program "${source##*/}" "$source" && test_mpi_example "${source##*/}"
    done
}

test_mpi_fortran() {
    local source
    build_fortran_objects boxwise check || return
    for source in fortran/mpi/[0-9]*.f90; do
        build_program "${source##*/}" "$source" && test_mpi_example "${source##*/}"
    done
}

# On one node, and on some that are pretended.
test_mpi_example() {
    local name=$1 ranks nodes
    for ranks in "${example_ranks[@]}"; do
        run_test "$family: $name, $ranks ranks" run_program "mpirun -n $ranks" "$programs_dir/$name"
    done
    for nodes in "${example_nodes[@]}"; do
        run_test "$family: $name, ${nodes% *} ranks on nodes ${nodes#* }" \
            run_program "env BOXWISE_NODE=${nodes#* } mpirun -n ${nodes% *}" "$programs_dir/$name"
    done
}

test_differential() {
    local job ranks level network why hosts=yes
    if ! why=$(tests/mpi/two_hosts.sh "$family" possible 2>&1); then
        echo "skipped $current_label: $family: two hosts: $why"
        hosts=no
    fi
    for job in "${differential_jobs[@]}"; do
        read -r ranks level network <<<"$job"
        [ "$network" != hosts ] || [ "$hosts" = yes ] || continue
        run_test "$family: random cases, SEED=$differential_seed, $ranks ranks, $level, $network" \
            differential "$ranks" "$level" "$network"
    done
    # The example ends MPI, in which this MPICH may hang: see `differential`.
    [ "$hosts $family" = 'yes openmpi' ] || return 0
    run_test "$family: example on two hosts" within 60 tests/mpi/two_hosts.sh "$family" 2 \
        "$programs_dir/01_slab_to_pencil.c"
}

# differential RANKS LEVEL NETWORK
differential() {
    local ranks=$1 level=$2 network=$3 launcher=(mpirun -n "$1") status=0 leaves=no verdict
    verdict=$(mktemp "$scratch/verdict.XXXXXX")
    local variables=("TEST_JOB=$family $ranks $level $network" "TEST_LEVEL=$level" "TEST_SHIM=$programs_dir/shim.so"
        "TEST_SEED=$differential_seed" "TEST_CASES=$cases_per_job" "TEST_VERDICT=$verdict"
        "BOXWISE_MPI_PLUGIN=$(plugin_of "$family")")
    if [ "$network" = hosts ]; then
        launcher=(tests/mpi/two_hosts.sh "$family" "$ranks")
        variables+=(TEST_HOSTS=2)
    fi
    case $family-$network in
        openmpi-tcp) variables+=(OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self) ;;
        mpich-tcp) variables+=(UCX_TLS=tcp,self MPIR_CVAR_NOLOCAL=1) ;;
    esac
    case $family-$network in
        # This MPICH hangs in MPI_Finalize over TCP, most of the time and in any program. Ranks that leave without it
        # are no success to its launcher, so what they say must do.
        mpich-tcp | mpich-hosts)
            leaves=yes
            variables+=(TEST_NO_FINALIZE=1)
            launcher+=(-disable-auto-cleanup)
            ;;
    esac
    PATH=$commands_dir:$PATH within 120 env "${variables[@]}" "${launcher[@]}" "$scratch/differential_mpi" || status=$?
    [ "$leaves" = yes ] || [ "$status" -eq 0 ]
    grep -q '^all cases were right' "$verdict"
}

# Plays the case that CASE names, many times.
play_again() {
    local ranks level network rest
    read -r family ranks level network rest <<<"$CASE"
    differential_seed=0
    enter_family
    export TEST_AGAIN=$rest
    run_test "CASE='$CASE'" differential "$ranks" "$level" "$network"
}
