#!/bin/sh
# Installs the servers and programs that only the tests need. Without them the tests that use them are skipped, with the reason.
set -eu

present() {
    case $1 in
        postgresql) ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null ;;
        chromium) command -v chromium >/dev/null ;;
        bubblewrap) command -v bwrap >/dev/null ;;
    esac
}

missing=
for package in postgresql chromium bubblewrap; do
    present "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing for the tests:$missing"
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
else
    echo "Some tests will be skipped until these are installed:$missing (Debian: sudo apt-get install$missing)"
fi
