// SPDX-License-Identifier: Apache-2.0

// The messages of process.v1, encoded by hand: no generated code, no protoc.
package main

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

type message interface {
	encode() []byte
	decode([]byte) error
}

// codec hands our messages to grpc under the name the clients ask for.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) ([]byte, error) {
	m, ok := v.(message)
	if !ok {
		return nil, fmt.Errorf("no codec for %T", v)
	}
	return m.encode(), nil
}

func (codec) Unmarshal(data []byte, v any) error {
	m, ok := v.(message)
	if !ok {
		return fmt.Errorf("no codec for %T", v)
	}
	return m.decode(data)
}

// fields calls f for each field of b with its number, and its bytes or its
// number as the wire type says.
func fields(b []byte, f func(n protowire.Number, data []byte, v uint64) error,
) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var data []byte
		var v uint64
		switch typ {
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(num, data, v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// putInt writes an int32; zero is not sent, a negative one takes ten bytes.
func putInt(b []byte, num protowire.Number, v int32) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, num, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(int64(v)))
}

func putBytes(b []byte, num protowire.Number, v []byte) []byte {
	b = protowire.AppendTag(b, num, protowire.BytesType)
	return protowire.AppendBytes(b, v)
}

type config struct {
	command []string
	env     map[string]string
	cwd     string
}

func (c *config) decode(b []byte) error {
	c.env = map[string]string{}
	return fields(b, func(n protowire.Number, data []byte, _ uint64) error {
		switch n {
		case 1:
			c.command = append(c.command, string(data))
		case 2:
			var k, v string
			err := fields(data, func(n protowire.Number, d []byte,
				_ uint64) error {
				switch n {
				case 1:
					k = string(d)
				case 2:
					v = string(d)
				}
				return nil
			})
			c.env[k] = v
			return err
		case 3:
			c.cwd = string(data)
		}
		return nil
	})
}

// runRequest is StartRequest and ExecuteRequest; pty only in the first.
type runRequest struct {
	config config
	pty    bool
}

func (r *runRequest) encode() []byte { return nil }

func (r *runRequest) decode(b []byte) error {
	return fields(b, func(n protowire.Number, data []byte, _ uint64) error {
		switch n {
		case 1:
			return r.config.decode(data)
		case 2:
			r.pty = true
		}
		return nil
	})
}

// event is StartResponse: one of its four kinds, by field number.
type event struct {
	kind protowire.Number
	num  int32
	data []byte
}

const (
	eventInit   = 1
	eventStdout = 2
	eventStderr = 3
	eventExit   = 4
)

func (e *event) decode([]byte) error { return nil }

func (e *event) encode() []byte {
	if e.kind == eventInit || e.kind == eventExit {
		return putBytes(nil, e.kind, putInt(nil, 1, e.num))
	}
	return putBytes(nil, e.kind, e.data)
}

type executeResponse struct {
	code           int32
	stdout, stderr []byte
}

func (r *executeResponse) decode([]byte) error { return nil }

func (r *executeResponse) encode() []byte {
	b := putInt(nil, 1, r.code)
	if len(r.stdout) > 0 {
		b = putBytes(b, 2, r.stdout)
	}
	if len(r.stderr) > 0 {
		b = putBytes(b, 3, r.stderr)
	}
	return b
}

// stdinRequest is WriteStdinRequest.
type stdinRequest struct {
	id    int32
	input []byte
	eof   bool
}

func (r *stdinRequest) encode() []byte { return nil }

func (r *stdinRequest) decode(b []byte) error {
	return fields(b, func(n protowire.Number, data []byte, v uint64) error {
		switch n {
		case 1:
			r.id = int32(v)
		case 2:
			r.input, r.eof = append([]byte{}, data...), false
		case 3:
			r.input, r.eof = nil, true
		}
		return nil
	})
}

// signalRequest is SendSignalRequest; of ResizeTTYRequest it reads the id.
type signalRequest struct {
	id     int32
	signal int32
}

func (r *signalRequest) encode() []byte { return nil }

func (r *signalRequest) decode(b []byte) error {
	return fields(b, func(n protowire.Number, _ []byte, v uint64) error {
		switch n {
		case 1:
			r.id = int32(v)
		case 2:
			r.signal = int32(v)
		}
		return nil
	})
}

type empty struct{}

func (empty) encode() []byte      { return nil }
func (empty) decode([]byte) error { return nil }
