#!/bin/sh
# Puts uv into .tools/uv, a virtual environment of its own.  usage: install_uv.sh PYTHON VERSION
set -eu
python=$1
version=$2

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Molecule needs Python 3.11 or newer, and '$python' is not. Install one, or name it: make PYTHON=python3.12" >&2
    exit 1
fi

if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "Installing python3-venv, which Debian leaves out of Python."
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv
    else
        echo "This Python cannot make virtual environments. Install its venv package (Debian: sudo apt-get install python3-venv)." >&2
        exit 1
    fi
fi

rm -rf .tools/uv
mkdir -p .tools
"$python" -m venv .tools/uv
.tools/uv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$version"
