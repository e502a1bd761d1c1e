#!/bin/sh
# What a fresh machine lacks: `require.sh build` (compiling), `require.sh services` (Kafka and PostgreSQL for the tests),
# `require.sh plugins` (what brings the tools of other languages).
# Installs it where it may (root, apt-get); otherwise says exactly what to install and exits with 3.
set -eu

missing=
lacks() { missing="$missing $1"; }
has() { command -v "$1" >/dev/null 2>&1; }

java_is_new_enough() {
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${version:-0}" -ge 17 ]
}

for group in "$@"; do
    case $group in
    build)
        { has cc && has c++ && has make; } || lacks build-essential
        has pkg-config || lacks pkg-config
        # Without pkg-config nothing can be asked; the packages do no harm where they are there already.
        { has pkg-config && pkg-config --exists libssl; } || lacks libssl-dev
        { has pkg-config && pkg-config --exists zlib; } || lacks zlib1g-dev
        ;;
    services)
        { has initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; } || lacks postgresql
        { has java && java_is_new_enough; } || lacks default-jre-headless
        has mvn || lacks maven
        has docker-registry || lacks docker-registry
        ;;
    plugins)
        { has python3 && python3 -c 'import ensurepip, venv' >/dev/null 2>&1; } || lacks python3-venv
        has npm || lacks npm
        has go || lacks golang
        ;;
    *)
        echo "require.sh: unknown group '$group' (build, services, plugins)" >&2
        exit 2
        ;;
    esac
done

if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && has apt-get; then
        echo "installing:$missing" >&2
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq >&2
        # shellcheck disable=SC2086 # a list of package names
        apt-get install -y -qq --no-install-recommends $missing >&2
    else
        echo "missing packages. On Debian or Ubuntu:" >&2
        echo "    sudo apt-get install$missing" >&2
        echo "(elsewhere: a C and C++ compiler, make, pkg-config, OpenSSL and zlib with headers;" >&2
        echo "for the tests a Docker registry, PostgreSQL's server, Java 17 or newer and Maven, or KAFKA_BOOTSTRAP and DATABASE_URL set;" >&2
        echo "for plugins in other languages Python 3.10 with venv, Node.js 18 with npm, and Go)" >&2
        exit 3
    fi
fi

if ! has cargo; then
    echo "cargo is missing: install Rust by rustup (https://rustup.rs); rust-toolchain.toml pins the version" >&2
    exit 3
fi
target=wasm32-unknown-unknown
if has rustup && ! rustup target list --installed | grep -qx $target; then
    rustup target add $target || {
        echo "the plugins need Rust's $target target: rustup target add $target" >&2
        exit 3
    }
fi
