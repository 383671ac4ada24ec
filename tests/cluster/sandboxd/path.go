// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

var errOutside = errors.New("path is outside the root")

// root is the folder everything is confined to, itself without links.
type root string

func rootOpen(dir string) (root, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	dir, err = filepath.EvalSymlinks(dir)
	return root(dir), err
}

func (r root) has(p string) bool {
	return p == string(r) || strings.HasPrefix(p, string(r)+"/")
}

// resolve makes a request's path a real one: an absolute path below the root is
// itself, any other is taken inside; links are followed, of the nearest
// ancestor that exists when the path does not, and must not lead out.
func (r root) resolve(p string) (string, error) {
	p = filepath.Clean("/" + p)[1:]
	full := filepath.Join(string(r), p)
	if r.has("/" + p) {
		full = "/" + p
	}
	rest := ""
	for at := full; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			real = filepath.Join(real, rest)
			if !r.has(real) {
				return "", errOutside
			}
			return real, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || at == "/" {
			return "", err
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// escapes tells whether a relative path climbs over its start.
func escapes(p string) bool {
	p = filepath.Clean(p)
	return p == ".." || strings.HasPrefix(p, "../")
}
