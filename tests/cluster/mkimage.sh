#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mkimage.sh NAME:TAG ROOT CONFIG OUT: the folder ROOT as an image of one layer,
# in the form `ctr images import` takes.  CONFIG is the image's config object
# in JSON.  Names are localhost/X:1, so that the kubelet asks no registry.

set -euo pipefail
name=$1 root=$2 config=$3 out=$4
w=$(mktemp -d)
trap 'rm -rf "$w"' EXIT

tar --sort=name --mtime=@0 --numeric-owner -C "$root" -cf "$w/layer.tar" .
sum=$(sha256sum "$w/layer.tar" | cut -d' ' -f1)
cat > "$w/config.json" <<J
{"architecture":"amd64","os":"linux","created":"1970-01-01T00:00:00Z",
 "config":$config,
 "rootfs":{"type":"layers","diff_ids":["sha256:$sum"]},
 "history":[{"created":"1970-01-01T00:00:00Z"}]}
J
cat > "$w/manifest.json" <<J
[{"Config":"config.json","RepoTags":["$name"],"Layers":["layer.tar"]}]
J
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
    -C "$w" -cf "$out" config.json layer.tar manifest.json
