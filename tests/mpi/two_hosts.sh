#!/usr/bin/env bash
# Runs an MPI program on two hosts that are network namespaces of this machine, with MPI over TCP between them.
#
#     tests/mpi/two_hosts.sh openmpi|mpich RANKS PROGRAM [ARGUMENT…]
#     tests/mpi/two_hosts.sh openmpi|mpich possible     exit status 1 and a reason if this machine does not let us
#
# Rank r is on host r mod 2. Variables BOXWISE_… and TEST_… reach all ranks. Afterwards the namespaces and all
# processes in them are gone, also when this script is told to end.
set -euo pipefail

family=$1
shift
# Names and addresses that two runs at once do not share.
id=$((BASHPID % 4096))
hosts=("bwa$id" "bwb$id")
network=10.$((64 + id / 64)).$((id % 64))
addresses=("$network.1" "$network.2")
scratch=$(mktemp -d -t boxwise-hosts.XXXXXX)

clean_up() {
    local host
    for host in "${hosts[@]}"; do
        # Only processes that were started in this namespace.
        ip netns pids "$host" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
        ip netns del "$host" 2>/dev/null || true
    done
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 143' TERM INT HUP

# An interface `wire` in each namespace, the two ends of one cable.
make_hosts() {
    local i
    for i in 0 1; do
        ip netns add "${hosts[i]}"
        ip -n "${hosts[i]}" link set lo up
    done
    ip -n "${hosts[0]}" link add wire type veth peer name wire netns "${hosts[1]}"
    for i in 0 1; do
        ip -n "${hosts[i]}" address add "${addresses[i]}/24" dev wire
        ip -n "${hosts[i]}" link set wire up
    done
    # A cable needs a moment, and UCX looks but once.
    for i in 0 1; do
        until ip -n "${hosts[i]}" link show wire | grep -q 'state UP'; do
            sleep 0.02
        done
    done
}

# on_host 0|1 COMMAND…: there, with a host name of its own, by which MPI tells hosts apart.
on_host() {
    local host=${hosts[$1]}
    shift
    # shellcheck disable=SC2016 # for the inner shell
    ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$host" "$@"
}

# What the launchers use in place of ssh: agent ADDRESS COMMAND…
write_agent() {
    cat >"$scratch/agent" <<EOF
#!/bin/sh
case \$1 in
    ${addresses[0]}) host=${hosts[0]} ;;
    ${addresses[1]}) host=${hosts[1]} ;;
    *) echo "no host \$1" >&2; exit 1 ;;
esac
shift
exec ip netns exec "\$host" unshare --uts sh -c "hostname \$host; \$*"
EOF
    chmod +x "$scratch/agent"
}

run_openmpi() {
    local ranks=$1 name exported=()
    shift
    while read -r name; do
        exported+=(-x "$name")
    done < <(compgen -e | grep -E '^(BOXWISE|TEST)_')
    on_host 0 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        mpirun.openmpi -n "$ranks" --host "${addresses[0]}:$ranks,${addresses[1]}:$ranks" --map-by node \
        --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 \
        --mca plm_rsh_agent "$scratch/agent" --mca oob_tcp_if_include wire \
        --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include wire "${exported[@]}" "$@"
}

run_mpich() {
    local ranks=$1
    shift
    export UCX_TLS=tcp,self UCX_NET_DEVICES=wire
    on_host 0 mpirun.mpich -n "$ranks" -hosts "${addresses[0]},${addresses[1]}" -ppn 1 \
        -iface wire -launcher rsh -launcher-exec "$scratch/agent" "$@"
}

make_hosts
if [ "$1" = possible ]; then
    on_host 1 true
    exit
fi
write_agent
# While bash waits, it hears signals.
"run_$family" "$@" &
wait $!
