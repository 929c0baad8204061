# shellcheck shell=bash disable=SC2154,SC2034 # variables of other files
# Format, lints, documentation, the Rust tests, and the model check of the waiting protocol.

test_unit() {
    run_test "tools are there" need_unit_tools
    run_test "cargo fmt" cargo fmt --all --check -- --color never
    run_test "cargo clippy" cargo clippy --locked --all-targets -- -D warnings
    run_test "cargo doc" env RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps
    run_cargo_tests "cargo test" 1500 cargo test --locked --no-fail-fast
    # Built apart: the flag changes every crate.
    run_cargo_tests "model check" 900 \
        env RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$target_dir/loom" cargo test --locked --test loom
}

# Some tests compile C and C++, and list symbols.
need_unit_tools() {
    need_cargo_components rustfmt clippy
    need_programs cc:gcc c++:g++ nm:binutils
}
