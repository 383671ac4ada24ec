// SPDX-License-Identifier: Apache-2.0

// ProcessService of process.v1.
package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// pipeGrace is how long Start waits, after the child's end, for others that
// hold its pipes.
const pipeGrace = 5 * time.Second

type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

type processes struct {
	root  root
	chunk int

	mu   sync.Mutex
	last int32
	byID map[int32]*process
}

func processesNew(r root, chunk int) *processes {
	return &processes{root: r, chunk: chunk, byID: map[int32]*process{}}
}

func unary[R any, P interface {
	*R
	message
}](name string, f func(*processes, context.Context, P) (message, error),
) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any,
		ctx context.Context, dec func(any) error,
		_ grpc.UnaryServerInterceptor) (any, error) {
		req := P(new(R))
		if err := dec(req); err != nil {
			return nil, err
		}
		return f(srv.(*processes), ctx, req)
	}}
}

var serviceDesc = grpc.ServiceDesc{
	ServiceName: "process.v1.ProcessService",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		unary("Execute", (*processes).execute),
		unary("WriteStdin", (*processes).writeStdin),
		unary("SendSignal", (*processes).sendSignal),
		unary("ResizeTTY", (*processes).resize),
	},
	Streams: []grpc.StreamDesc{{
		StreamName: "Start", ServerStreams: true,
		Handler: func(srv any, s grpc.ServerStream) error {
			return srv.(*processes).start(s)
		}}},
}

// command is what both ways to run have in common.
func (p *processes) command(ctx context.Context, c *config) (*exec.Cmd, error) {
	if len(c.command) == 0 || c.command[0] == "" {
		return nil, status.Error(codes.InvalidArgument,
			"command is required")
	}
	dir, err := p.root.resolve(c.cwd)
	if err != nil {
		return nil, startError(err)
	}
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	cmd.Dir = dir
	cmd.Env = os.Environ()
	for k, v := range c.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd, nil
}

func startError(err error) error {
	code := codes.Internal
	switch {
	case errors.Is(err, errOutside), errors.Is(err, fs.ErrPermission):
		code = codes.PermissionDenied
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		code = codes.NotFound
	}
	return status.Error(code, err.Error())
}

func (p *processes) execute(ctx context.Context, r *runRequest,
) (message, error) {
	cmd, err := p.command(ctx, &r.config)
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, startError(err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, startError(err)
	}
	return &executeResponse{int32(cmd.ProcessState.ExitCode()),
		out.Bytes(), errs.Bytes()}, nil
}

func (p *processes) add(c *process) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	p.byID[p.last] = c
	return p.last
}

func (p *processes) remove(id int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byID, id)
}

func (p *processes) find(id int32) (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.byID[id]; c != nil {
		return c, nil
	}
	return nil, status.Errorf(codes.NotFound, "process %d not found", id)
}

// reader turns what comes through f into events, one at a time.
func (p *processes) reader(ctx context.Context, f *os.File, kind protowire.Number,
	events chan<- *event, wg *sync.WaitGroup) {
	defer wg.Done()
	for {
		b := make([]byte, p.chunk)
		n, err := f.Read(b)
		if n > 0 {
			select {
			case events <- &event{kind: kind, data: b[:n]}:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// spawn starts cmd in its own group with pipes of ours, so that its end is seen
// even while others hold them.
func spawn(cmd *exec.Cmd) (stdin, out, errs *os.File, err error) {
	var r, w [3]*os.File
	for i := range r {
		if r[i], w[i], err = os.Pipe(); err != nil {
			return nil, nil, nil, startError(err)
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r[0], w[1], w[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	for _, f := range []*os.File{r[0], w[1], w[2]} {
		f.Close()
	}
	if err != nil {
		for _, f := range []*os.File{w[0], r[1], r[2]} {
			f.Close()
		}
		return nil, nil, nil, startError(err)
	}
	return w[0], r[1], r[2], nil
}

func (p *processes) start(s grpc.ServerStream) error {
	var req runRequest
	if err := s.RecvMsg(&req); err != nil {
		return err
	}
	if req.pty {
		return status.Error(codes.Unimplemented,
			"the fixture has no terminals")
	}
	ctx := s.Context()
	cmd, err := p.command(ctx, &req.config)
	if err != nil {
		return err
	}
	stdin, out, errs, err := spawn(cmd)
	if err != nil {
		return err
	}
	defer stdin.Close()
	id := p.add(&process{cmd, stdin})
	defer p.remove(id)

	events := make(chan *event)
	go p.pump(ctx, cmd, out, errs, events)
	err = s.SendMsg(&event{kind: eventInit, num: id})
	for e := range events {
		if err == nil {
			err = s.SendMsg(e)
		}
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		return err
	}
	return s.SendMsg(&event{kind: eventExit,
		num: int32(cmd.ProcessState.ExitCode())})
}

// pump feeds events until the child has ended and its pipes are empty or the
// grace is over, and then closes them.
func (p *processes) pump(ctx context.Context, cmd *exec.Cmd,
	out, errs *os.File, events chan<- *event) {
	var wg sync.WaitGroup
	wg.Add(2)
	go p.reader(ctx, out, eventStdout, events, &wg)
	go p.reader(ctx, errs, eventStderr, events, &wg)
	_ = cmd.Wait()
	idle := make(chan struct{})
	go func() { wg.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-time.After(pipeGrace):
	}
	out.Close()
	errs.Close()
	<-idle
	close(events)
}

func (p *processes) writeStdin(_ context.Context, r *stdinRequest,
) (message, error) {
	c, err := p.find(r.id)
	if err != nil {
		return nil, err
	}
	if r.eof {
		err = c.stdin.Close()
	} else {
		_, err = c.stdin.Write(r.input)
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return empty{}, nil
}

func (p *processes) sendSignal(_ context.Context, r *signalRequest,
) (message, error) {
	c, err := p.find(r.id)
	if err != nil {
		return nil, err
	}
	switch sig := syscall.Signal(r.signal); sig {
	case syscall.SIGINT, syscall.SIGKILL, syscall.SIGTERM:
		err = syscall.Kill(-c.cmd.Process.Pid, sig)
	default:
		return nil, status.Errorf(codes.InvalidArgument,
			"unsupported signal %d", r.signal)
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return empty{}, nil
}

func (p *processes) resize(_ context.Context, r *signalRequest,
) (message, error) {
	if _, err := p.find(r.id); err != nil {
		return nil, err
	}
	return nil, status.Error(codes.FailedPrecondition, "no terminal")
}

// stop ends what still runs: TERM, two seconds, KILL.
func (p *processes) stop() {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		p.mu.Lock()
		n := len(p.byID)
		for _, c := range p.byID {
			_ = syscall.Kill(-c.cmd.Process.Pid, sig)
		}
		p.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(2 * time.Second)
	}
}
