#!/usr/bin/env bash
# Finds the tools that the Makefile needs, installing Debian packages where the user is root, and prints their paths.
#   toolchain.sh uv PYTHON          path of uv, put into .tools/venv if the machine has none
#   toolchain.sh cargo              path of a cargo that is new enough
#   toolchain.sh profdata           folder of an llvm-profdata that reads the profiles of this cargo's programs
#   toolchain.sh debian COMMAND:PACKAGE...   makes sure that the commands are there
#   toolchain.sh unpacked COMMAND:PACKAGE   path of a command, unpacked into .tools/debian if the machine has none: of a
#                                   package that would start a service if it were installed
set -euo pipefail
cd "$(dirname "$0")/.."

RUST_NEEDED=88

install() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "tidegate needs $*: run 'sudo apt-get install $*' and try again" >&2
        exit 1
    fi
    local log="$PWD/.tools/debian.log" get=(apt-get install -qq -y --no-install-recommends "$@")
    export DEBIAN_FRONTEND=noninteractive
    echo "installing $* from Debian" >&2
    mkdir -p .tools
    "${get[@]}" >"$log" 2>&1 || { apt-get update -qq && "${get[@]}"; } >"$log" 2>&1 ||
        { cat "$log" >&2; echo "installing $* failed: the lines above are apt-get's" >&2; exit 1; }
}

new_enough() {
    [ -x "$1" ] && [ -x "$(dirname "$1")/rustc" ] &&
        [ "$("$(dirname "$1")/rustc" --version 2>/dev/null | sed -E 's/^rustc 1\.([0-9]+).*/\1/')" -ge "$RUST_NEEDED" ] 2>/dev/null
}

find_uv() {
    mkdir -p .tools
    if ! command -v uv; then
        "$1" -c 'import ensurepip' 2>/dev/null || install python3-venv
        [ -x .tools/venv/bin/uv ] || { "$1" -m venv .tools/venv && .tools/venv/bin/pip install -q uv >&2; }
        echo "$PWD/.tools/venv/bin/uv"
    fi
}

find_cargo() {
    local found
    for found in "$(command -v cargo || true)" "$HOME/.cargo/bin/cargo" /usr/bin/cargo; do
        new_enough "$found" && { echo "$found"; return; }
    done
    install rustc-web cargo-web rustfmt-web rust-web-clippy
    new_enough /usr/bin/cargo || { echo "tidegate needs Rust 1.$RUST_NEEDED or newer and found $(/usr/bin/rustc --version)" >&2; exit 1; }
    echo /usr/bin/cargo
}

find_profdata() {
    local bin major place
    bin="$(dirname "$(find_cargo)")"
    # Profiles of another LLVM are of another format, so that the first llvm-profdata of PATH will not do.
    major="$("$bin/rustc" -vV | sed -nE 's/^LLVM version: ([0-9]+).*/\1/p')"
    for place in "$("$bin/rustc" --print target-libdir)/../bin" "/usr/lib/llvm-$major/bin"; do
        [ -x "$place/llvm-profdata" ] && { echo "$place"; return; }
    done
    if [ -x "$bin/rustup" ]; then
        "$bin/rustup" component add llvm-tools >&2
        echo "$("$bin/rustc" --print target-libdir)/../bin"
    else
        install "llvm-$major"
        echo "/usr/lib/llvm-$major/bin"
    fi
}

find_commands() {
    local pair missing=()
    # Debian keeps PostgreSQL's server out of PATH.
    PATH="$PATH:$(printf '%s:' /usr/lib/postgresql/*/bin)"
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
    done
    [ ${#missing[@]} = 0 ] || install "${missing[@]}"
}

find_unpacked() {
    local command="${1%%:*}" package="${1##*:}" aside
    local place="$PWD/.tools/debian/$package" get="apt-get -o APT::Sandbox::User=root download -qq"
    command -v "$command" && return
    if [ ! -d "$place" ]; then
        echo "unpacking $package from Debian" >&2
        mkdir -p .tools/debian
        aside="$(mktemp -d .tools/debian/.XXXXXX)"
        (cd "$aside" && { $get "$package" >&2 || { apt-get update -qq >&2 && $get "$package" >&2; }; }) ||
            { echo "tidegate needs $command: install $package and try again" >&2; exit 1; }
        dpkg -x "$aside/$package"_*.deb "$aside/root"
        mv -T "$aside/root" "$place" 2>/dev/null || [ -d "$place" ] # another one was faster
        rm -r "$aside"
    fi
    find "$place" -path "*/bin/$command" -print -quit
}

case "${1:-}" in
    uv) find_uv "${2:-python3}" ;;
    cargo) find_cargo ;;
    profdata) find_profdata ;;
    debian) shift; find_commands "$@" ;;
    unpacked) find_unpacked "$2" ;;
    *) sed -n '2,9p' "$0" >&2; exit 2 ;;
esac
