# shellcheck shell=bash disable=SC2154,SC2034 # variables of other files
# Tests that cargo runs, counted one by one.

# run_cargo_tests NAME SECONDS COMMAND…: as run_test, but counts the tests that cargo ran.
run_cargo_tests() {
    local name=$1 seconds=$2 started=$SECONDS log status passed_here failed_here
    shift 2
    log=$(mktemp "$scratch/log.XXXXXX")
    within "$seconds" "$@" >"$log" 2>&1 </dev/null
    status=$?
    print_cargo_tests "$name" "$log"
    read -r passed_here failed_here <<<"$(count_cargo_tests "$log")"
    passed=$((passed + passed_here))
    failed=$((failed + failed_here))
    if [ "$failed_here" -gt 0 ]; then
        print_log "$log"
    elif [ "$status" -ne 0 ]; then
        # No result line: the build failed, or a test program crashed or hung.
        report_test "$current_label: $name" "$status" "$log" $((SECONDS - started))
    elif [ "$passed_here" -eq 0 ]; then
        report_test "$current_label: $name ran no test" 1 "$log" $((SECONDS - started))
    fi
    fail_empty_programs "$name" "$log"
}

# A file of tests/ that runs nothing looks like success: its functions are not marked as tests, or it has a main of its
# own and Cargo.toml lacks `harness = false` for it. Only loom.rs is empty on purpose, without its flag.
fail_empty_programs() {
    local name=$1 log=$2 program
    for program in $(empty_programs "$log"); do
        echo "$program has 0 tests" >"$scratch/empty"
        report_test "$current_label: $name: $program runs its tests" 1 "$scratch/empty" 0
    done
}

empty_programs() {
    awk '
        /^ *Running / { program = $2 }
        /^ *Doc-tests / { program = "" }
        /^running 0 tests/ && program ~ /^tests\// && program != "tests/loom.rs" { print program }
    ' "$1"
}

# The names, in the form of report_test. Some test programs of ours add the time.
print_cargo_tests() {
    sed -n \
        -e "s/^test \(.*\) \.\.\. ok\( (.*)\)\?\$/ok      $current_label: $1: \1\2/p" \
        -e "s/^test \(.*\) \.\.\. FAILED\( (.*)\)\?\$/FAILED  $current_label: $1: \1\2/p" \
        -e "s/^test \(.*\) \.\.\. ignored\(.*\)\$/ignored $current_label: $1: \1\2/p" "$2"
}

# From `test result: ok. 12 passed; 0 failed; …` to "PASSED FAILED", summed over all test programs.
count_cargo_tests() {
    awk '/^test result: / { passed += $4; failed += $6 } END { print passed + 0, failed + 0 }' "$1"
}
