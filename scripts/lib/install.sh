# shellcheck shell=bash
# Installs what the tests need and the machine lacks; does nothing on a machine that has it all.

# need_programs PROGRAM:PACKAGE…: installs the Debian package of every program that is not there.
need_programs() {
    local pair packages=()
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null || packages+=("${pair#*:}")
    done
    [ ${#packages[@]} -eq 0 ] || install_packages "${packages[@]}"
}

install_packages() {
    command -v apt-get >/dev/null || {
        echo "missing, and no apt-get to install it: $*"
        return 1
    }
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

# need_cargo_components COMPONENT…: parts of the Rust toolchain, such as rustfmt and clippy.
need_cargo_components() {
    local component
    for component in "$@"; do
        cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 || rustup component add "$component"
    done
}
