#!/bin/sh
# Sees that what the service's tests use is here: PostgreSQL, Chromium, nginx and ps. Installs what is missing with
# apt-get.
set -eu

missing=""
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
    [ -x "${POSSE_CHROMIUM:-}" ] || missing="$missing chromium"
PATH=$PATH:/usr/sbin command -v nginx >/dev/null || missing="$missing nginx"
command -v ps >/dev/null || missing="$missing procps"

if [ -z "$missing" ]; then
    echo "test-service: PostgreSQL, Chromium, nginx and ps are here"
    exit 0
fi
root=""
[ "$(id -u)" = 0 ] || root="sudo"
if ! command -v apt-get >/dev/null || { [ -n "$root" ] && ! command -v sudo >/dev/null; }; then
    echo "test-service needs$missing: install them first (on macOS: brew install postgresql nginx; brew install --cask" \
        "chromium, and POSSE_CHROMIUM=/path/to/it)" >&2
    exit 1
fi
echo "test-service: installing with apt-get:$missing"
$root apt-get update -q
# shellcheck disable=SC2086  # several words are meant
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
