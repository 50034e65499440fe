#!/bin/sh
# Says what to do when Node.js is missing or too old for the canvas.
set -eu
if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
    echo "The canvas is built with Node.js 20.19 or newer and npm, and there is none here. Install them and run make again." >&2
    exit 1
fi
if ! node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)'; then
    echo "The canvas is built with Node.js 20.19 or newer; this is $(node --version). Install a newer one and run make again." >&2
    exit 1
fi
