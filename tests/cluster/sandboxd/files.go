// SPDX-License-Identifier: Apache-2.0

// The REST side: files below the root.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

type files struct {
	root     root
	env      map[string]string
	began    time.Time
	stopping atomic.Bool
}

var (
	modeForm = regexp.MustCompile(`^0[0-7]{3}$`)
	secrets  = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CRED",
		"KEY", "AUTH", "BEARER", "PRIVATE", "CERT"}
)

func filesNew(r root, prefix string) *files {
	f := &files{root: r, env: map[string]string{}, began: time.Now()}
	for _, e := range os.Environ() {
		k, v, _ := strings.Cut(e, "=")
		if strings.HasPrefix(k, prefix) && !secret(k) {
			f.env[k] = v
		}
	}
	return f
}

func secret(name string) bool {
	for _, s := range secrets {
		if strings.Contains(strings.ToUpper(name), s) {
			return true
		}
	}
	return false
}

func (f *files) mux() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/files/{path...}", f.get)
	m.HandleFunc("PUT /v1/files/{path...}", f.put)
	m.HandleFunc("DELETE /v1/files/{path...}", f.remove)
	m.HandleFunc("GET /v1/health", f.health)
	m.HandleFunc("GET /v1/metadata", func(w http.ResponseWriter,
		_ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"env": f.env})
	})
	return m
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func fail(w http.ResponseWriter, status int, code, message string) {
	answer(w, status, map[string]string{"code": code, "message": message})
}

func failError(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errOutside), errors.Is(err, fs.ErrPermission):
		fail(w, http.StatusForbidden, "PERMISSION_DENIED", err.Error())
	case errors.Is(err, fs.ErrNotExist):
		fail(w, http.StatusNotFound, "NOT_FOUND", err.Error())
	default:
		fail(w, http.StatusInternalServerError, "INTERNAL", err.Error())
	}
}

func (f *files) health(w http.ResponseWriter, _ *http.Request) {
	if f.stopping.Load() {
		fail(w, http.StatusServiceUnavailable, "UNAVAILABLE",
			"shutting down")
		return
	}
	answer(w, http.StatusOK, map[string]any{"status": "ok",
		"uptime_seconds": int(time.Since(f.began).Seconds())})
}

// path resolves what the request names; false when it has been answered.
func (f *files) path(w http.ResponseWriter, r *http.Request) (string, bool) {
	p := r.PathValue("path")
	if escapes(p) {
		failError(w, errOutside)
		return "", false
	}
	full, err := f.root.resolve(p)
	if err != nil {
		failError(w, err)
		return "", false
	}
	return full, true
}

func (f *files) get(w http.ResponseWriter, r *http.Request) {
	full, ok := f.path(w, r)
	if !ok {
		return
	}
	file, err := os.OpenFile(full, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		failError(w, err)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		failError(w, err)
		return
	}
	if info.IsDir() {
		f.list(w, r, full)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", info.ModTime(), file)
}

type entry struct {
	Name       string `json:"name"`
	Size       int64  `json:"size"`
	Type       string `json:"type"`
	ModifiedAt string `json:"modified_at"`
	Mode       string `json:"mode"`
}

// list leaves out links that are broken or lead out of the root.
func (f *files) list(w http.ResponseWriter, r *http.Request, full string) {
	names, err := os.ReadDir(full)
	if err != nil {
		failError(w, err)
		return
	}
	entries := []entry{}
	for _, n := range names {
		real, err := filepath.EvalSymlinks(filepath.Join(full, n.Name()))
		if err != nil || !f.root.has(real) {
			continue
		}
		info, err := os.Stat(real)
		if err != nil {
			continue
		}
		e := entry{Name: n.Name(), Size: info.Size(), Type: "file",
			ModifiedAt: info.ModTime().UTC().Format(time.RFC3339),
			Mode:       fmt.Sprintf("%04o", info.Mode().Perm())}
		if info.IsDir() {
			e.Type = "directory"
		}
		entries = append(entries, e)
	}
	answer(w, http.StatusOK, map[string]any{
		"path": "/" + r.PathValue("path"), "entries": entries})
}

// body is the raw body, or the part `file` of a form.
func body(r *http.Request) (io.Reader, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		return r.Body, nil
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, err
	}
	for {
		p, err := parts.NextPart()
		if err != nil {
			return nil, errors.New("no part named file")
		}
		if p.FormName() == "file" {
			return p, nil
		}
	}
}

func (f *files) put(w http.ResponseWriter, r *http.Request) {
	full, ok := f.path(w, r)
	if !ok {
		return
	}
	mode := r.URL.Query().Get("mode")
	if mode == "" {
		mode = "0644"
	}
	if !modeForm.MatchString(mode) {
		fail(w, http.StatusBadRequest, "INVALID_ARGUMENT", "bad mode")
		return
	}
	if info, err := os.Stat(full); err == nil && info.IsDir() {
		fail(w, http.StatusBadRequest, "INVALID_ARGUMENT",
			"path is a directory")
		return
	}
	from, err := body(r)
	if err != nil {
		fail(w, http.StatusBadRequest, "INVALID_ARGUMENT", err.Error())
		return
	}
	bits, _ := strconv.ParseUint(mode, 8, 32)
	if err := replace(full, from, fs.FileMode(bits)); err != nil {
		failError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// replace writes full whole or not at all.
func replace(full string, from io.Reader, mode fs.FileMode) error {
	dir := filepath.Dir(full)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".sandboxd-tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if _, err := io.Copy(tmp, from); err != nil {
		return err
	}
	if err := tmp.Chmod(mode); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), full)
}

func (f *files) remove(w http.ResponseWriter, r *http.Request) {
	full, ok := f.path(w, r)
	if !ok {
		return
	}
	all, err := false, error(nil)
	if v := r.URL.Query().Get("recursive"); v != "" {
		if all, err = strconv.ParseBool(v); err != nil {
			fail(w, http.StatusBadRequest, "INVALID_ARGUMENT",
				"bad recursive")
			return
		}
	}
	top := full == string(f.root)
	if _, err = os.Lstat(full); err == nil && top && all {
		err = clear(full)
	} else if err == nil && all {
		err = os.RemoveAll(full)
	} else if err == nil && top {
		err = syscall.ENOTEMPTY
	} else if err == nil {
		err = os.Remove(full)
	}
	if errors.Is(err, syscall.ENOTEMPTY) {
		fail(w, http.StatusConflict, "CONFLICT", err.Error())
		return
	}
	if err != nil {
		failError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// clear empties a folder that has to stay.
func clear(dir string) error {
	names, err := os.ReadDir(dir)
	for _, n := range names {
		if e := os.RemoveAll(filepath.Join(dir, n.Name())); e != nil {
			err = e
		}
	}
	return err
}
