#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Build what up.sh starts: Kubernetes as one binary (kt), and the images pause,
# busybox, git and sandboxd.  Ten CPU minutes with an empty Go cache, seconds after
# that.  Idempotent.  Never run `go vet` or `go test` in this folder: they
# compile all of Kubernetes again with other flags.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

PACKAGES='containerd runc containernetworking-plugins busybox-static openssl
    iproute2 ca-certificates curl gcc libc6-dev python3 git'

# packages_install: what is missing of PACKAGES, as root.
packages_install()
{
	local p need=

	for p in $PACKAGES; do
		dpkg -s "$p" > /dev/null 2>&1 || need="$need $p"
	done
	[ -n "$need" ] || return 0
	[ "$(id -u)" = 0 ] || die "run as root: apt-get install$need"
	apt-get update -q
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt-get install -yq \
	    --no-install-recommends $need
}

# go_find: a Go that can fetch the version go.mod asks for by itself (1.21 or
# later), from the path, its usual place, or the distribution.
go_find()
{
	local v

	PATH=$PATH:/usr/local/go/bin
	if ! command -v go > /dev/null && [ "$(id -u)" = 0 ]; then
		v=$(apt-cache policy golang-go |
		    sed -n 's/.*Candidate: *\([0-9]*:\)\?//p')
		dpkg --compare-versions "${v:-0}" ge 1.21 &&
		    apt-get install -yq --no-install-recommends golang-go
	fi
	command -v go > /dev/null ||
	    die "needs Go 1.21 or later (this release's own is" \
		"${v:-not offered}): install it in /usr/local/go"
}

# kt_build: version flags, else the API server calls itself v0.0.0 and the
# clients refuse it.
kt_build()
{
	local v p flags='-s -w'

	v=$(sed -nE 's#^\tk8s.io/kubernetes (v[0-9.]+)$#\1#p' "$H/go.mod")
	for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		flags="$flags -X $p.gitVersion=$v -X $p.gitMajor=${v:1:1}"
		flags="$flags -X $p.gitMinor=$(echo "$v" | cut -d. -f2)"
		flags="$flags -X $p.gitTreeState=clean"
	done
	(cd "$H" && CGO_ENABLED=0 go build -trimpath -ldflags "$flags" \
	    -o "$C/bin/kt" .)
	ln -sf kt "$C/bin/kubectl"
}

# root_busybox DIR: a root folder with a shell, its tools and a user 1000.
root_busybox()
{
	local a

	mkdir -p "$1/bin" "$1/etc" "$1/tmp" "$1/workspace"
	cp /bin/busybox "$1/bin/busybox"
	for a in $(/bin/busybox --list | grep -vx busybox); do
		ln -sf busybox "$1/bin/$a"
	done
	printf '%s\n' root:x:0:0::/:/bin/sh \
	    sandbox:x:1000:1000::/workspace:/bin/sh \
	    nobody:x:65534:65534::/:/bin/sh > "$1/etc/passwd"
	printf '%s\n' root:x:0: sandbox:x:1000: > "$1/etc/group"
	chmod 1777 "$1/tmp"
	chown 1000:1000 "$1/workspace"
}

# root_git DIR: this machine's git with what it loads, beside that.
root_git()
{
	local b=/usr/lib/git-core f

	mkdir -p "$1/$b" "$1/usr/bin" "$1/usr/share" "$1/lib64"
	cp /usr/bin/git "$1/usr/bin/"
	cp -r /usr/share/git-core "$1/usr/share/"
	ln -s /usr/bin/git "$1/$b/git"
	for f in git-remote-https git-submodule git-sh-setup git-sh-i18n \
	    git-sh-i18n--envsubst; do
		cp -L "$b/$f" "$1/$b/"
	done
	for f in $(ldd /usr/bin/git "$b/git-remote-https" \
	    "$b/git-sh-i18n--envsubst" | grep -oE '\s/lib[^ ]*' | sort -u); do
		mkdir -p "$1/${f%/*}"
		cp -L "$f" "$1/$f"
	done
}

# root_python DIR: the tests' own Python with what the legacy runtime's fixture
# loads, and that fixture.
root_python()
{
	local py lib site f

	py=$("$H/../venv.sh")
	lib=$("$py" -c 'import os; print(os.path.dirname(os.__file__))')
	site=$("$py" -c 'import aiohttp; print(aiohttp.__path__[0])')
	mkdir -p "$1/usr/lib/${lib##*/}" "$1/usr/bin" "$1/site" "$1/lib64"
	cp -L "$py" "$1/usr/bin/python3"
	tar -C "$lib" --exclude='*-packages' --exclude=test --exclude=idlelib \
	    --exclude=__pycache__ --exclude='config-*' --exclude=tkinter \
	    --exclude='_tkinter*' -c . | tar -C "$1/usr/lib/${lib##*/}" -x
	for f in aiohappyeyeballs aiohttp aiosignal attr frozenlist idna \
	    multidict propcache typing_extensions.py yarl; do
		cp -r "${site%/*}/$f" "$1/site/"
	done
	cp "$H/../runtime/legacy.py" "$1/site/"
	for f in $(find "$1" -name '*.so' -exec ldd {} + | cat - \
	    <(ldd "$1/usr/bin/python3") | grep -oE '\s/[^ ]+' | sort -u); do
		mkdir -p "$1/${f%/*}"
		cp -L "$f" "$1/$f"
	done
}

images_build()
{
	local w

	w=$(mktemp -d)
	# shellcheck disable=SC2064
	trap "rm -rf '$w'" EXIT
	mkdir "$w/pause"
	gcc -Os -Wall -static -s -o "$w/pause/pause" "$H/pause.c"
	"$H/mkimage.sh" localhost/pause:1 "$w/pause" \
	    '{"Entrypoint":["/pause"]}' "$C/img/pause.tar"

	root_busybox "$w/busybox"
	"$H/mkimage.sh" localhost/busybox:1 "$w/busybox" \
	    '{"Env":["PATH=/bin"],"Cmd":["sh"]}' "$C/img/busybox.tar"

	cp -a "$w/busybox" "$w/git"
	root_git "$w/git"
	"$H/mkimage.sh" localhost/git:1 "$w/git" \
	    '{"Env":["PATH=/bin:/usr/bin"],"Cmd":["sh"]}' "$C/img/git.tar"

	cp -a "$w/busybox" "$w/python"
	root_python "$w/python"
	"$H/mkimage.sh" localhost/legacy:1 "$w/python" \
	    '{"Env":["PATH=/bin","PYTHONHOME=/usr","PYTHONPATH=/site",
	      "PYTHONDONTWRITEBYTECODE=1","SANDBOX_BASE_DIR=/workspace"],
	      "User":"1000:1000","WorkingDir":"/workspace",
	      "Entrypoint":["/usr/bin/python3","-S","/site/legacy.py"]}' \
	    "$C/img/legacy.tar"

	(cd "$H/sandboxd" && CGO_ENABLED=0 go build -trimpath \
	    -ldflags '-s -w' -o "$w/busybox/bin/sandboxd" .)
	"$H/mkimage.sh" localhost/sandboxd:1 "$w/busybox" \
	    '{"Env":["PATH=/bin","HOME=/workspace","SANDBOX_FLAVOUR=fixture"],
	      "User":"1000:1000","WorkingDir":"/workspace",
	      "Entrypoint":["/bin/sandboxd"]}' "$C/img/sandboxd.tar"
}

# Two at once (CI starts one early): the second waits and finds it done.
mkdir -p "$C/bin" "$C/img"
exec 9> "$C/build.lock"
flock 9
packages_install
go_find
kt_build
say "kt"
images_build
say "images"
