# shellcheck shell=bash disable=SC2034 # variables for other files
# Where things are: the source tree, cargo's output, and a scratch folder that goes away at exit.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d -t boxwise.XXXXXX)
trap 'rm -rf "$scratch"' EXIT

require_rust() {
    command -v cargo >/dev/null || {
        echo "cargo was not found: install Rust $(minimum_rust) or later first" >&2
        exit 2
    }
}

minimum_rust() {
    sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml"
}

# Cargo's folder, whatever the user's settings say.
find_target_dir() {
    cargo metadata --manifest-path "$root/Cargo.toml" --format-version 1 --no-deps \
        | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

build_release() {
    cargo build --manifest-path "$root/Cargo.toml" --release --locked
}

require_rust
target_dir=$(find_target_dir)
# What build_release makes: libboxwise.so and the programs.
release_dir=$target_dir/release
