// SPDX-License-Identifier: Apache-2.0

// sandboxd is the runtime fixture of the cluster tests: it speaks the two
// protocols of the runtime that sandbox pods run, written from their
// description (contract 3): gRPC for processes on 9090, REST for files on 8080.
// No authentication, no TLS. It keeps the odd sides a client has to live with:
// a cancelled call kills the direct child only, the standard input of Start
// stays open, Execute waits for whoever holds the pipe. It has no terminals.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
)

type options struct {
	host        string
	grpcPort    int
	restPort    int
	root        string
	envPrefix   string
	shutdown    time.Duration
	idle        time.Duration
	streamChunk int
}

func parse() options {
	var o options
	flag.StringVar(&o.host, "listen-host", "0.0.0.0", "address of both")
	flag.IntVar(&o.grpcPort, "grpc-port", 9090, "processes")
	flag.IntVar(&o.restPort, "rest-port", 8080, "files")
	flag.StringVar(&o.root, "root-dir", "/workspace", "confinement root")
	flag.StringVar(&o.envPrefix, "metadata-env-prefix", "SANDBOX_",
		"what /v1/metadata shows")
	flag.DurationVar(&o.shutdown, "shutdown-timeout", 10*time.Second,
		"hard bound")
	flag.DurationVar(&o.idle, "http-idle-timeout", 60*time.Second,
		"keep-alive")
	flag.IntVar(&o.streamChunk, "stream-chunk-size", 0, "0 is 4096")
	flag.Parse()
	for _, p := range []int{o.grpcPort, o.restPort} {
		if p < 1 || p > 65535 || o.grpcPort == o.restPort {
			log.Fatal("ports must be 1 to 65535 and different")
		}
	}
	if o.streamChunk == 0 {
		o.streamChunk = 4096
	}
	return o
}

func listen(host string, port int) net.Listener {
	l, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err != nil {
		log.Fatal(err)
	}
	return l
}

func main() {
	o := parse()
	if err := os.MkdirAll(o.root, 0o755); err != nil {
		log.Fatal(err)
	}
	root, err := rootOpen(o.root)
	if err != nil {
		log.Fatal(err)
	}
	procs := processesNew(root, o.streamChunk)
	g := grpc.NewServer(grpc.ForceServerCodec(codec{}))
	g.RegisterService(&serviceDesc, procs)
	files := filesNew(root, o.envPrefix)
	h := &http.Server{Handler: files.mux(), IdleTimeout: o.idle,
		ReadHeaderTimeout: 10 * time.Second}
	go func() { log.Fatal(g.Serve(listen(o.host, o.grpcPort))) }()
	go func() { log.Print(h.Serve(listen(o.host, o.restPort))) }()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	files.stopping.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), o.shutdown)
	defer cancel()
	procs.stop()
	_ = h.Shutdown(ctx)
}
