# shellcheck shell=bash disable=SC2154,SC2034 # variables of other files
# Runs named tests one after another, goes on after a failure, and counts.

passed=0
failed=0
last_status=0
current_label=

# run_test NAME COMMAND [ARGUMENT…]: one test; it passes if the command succeeds. The output is shown on failure only.
# The command may be a function: it runs in a subshell in which the first failing command ends it.
run_test() {
    local name="$current_label: $1" log started=$SECONDS
    shift
    log=$(mktemp "$scratch/log.XXXXXX")
    # Not in a condition: there bash would ignore `set -e` inside the command.
    (
        set -euo pipefail
        "$@"
    ) >"$log" 2>&1 </dev/null
    last_status=$?
    report_test "$name" "$last_status" "$log" $((SECONDS - started))
}

report_test() {
    local name=$1 status=$2 log=$3 seconds=$4
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
        printf 'ok      %s (%s s)\n' "$name" "$seconds"
    else
        failed=$((failed + 1))
        printf 'FAILED  %s (%s s, status %s)\n' "$name" "$seconds" "$status"
        print_log "$log"
    fi
}

print_log() {
    sed 's/^/        | /' "$1"
}

# Whether the test just run passed; for tests that make no sense after a failed one.
last_passed() {
    [ "$last_status" -eq 0 ]
}

# within SECONDS COMMAND…: the command, killed with all it started when it takes longer.
within() {
    local seconds=$1
    shift
    timeout --kill-after=5 "$seconds" "$@" || {
        local status=$?
        if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
            echo "stopped: took longer than $seconds s"
        fi
        return "$status"
    }
}

# refuses TEXT COMMAND…: succeeds if the command fails and says TEXT.
refuses() {
    local text=$1 output
    shift
    if output=$("$@" 2>&1); then
        printf '%s\nwas accepted: %s\n' "$output" "$*"
        return 1
    fi
    printf '%s\n' "$output"
    # A text may be broken over lines: compare with all white space alike.
    tr -s '[:space:]' ' ' <<<"$output" | grep -qF -- "$text" || {
        printf 'failed, but did not say: %s\n' "$text"
        return 1
    }
}

# The last line of every run.
finish() {
    printf '%s passed, %s failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
}
