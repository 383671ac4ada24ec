// SPDX-License-Identifier: Apache-2.0

// A session of the official Go SDK's client: "stdio PROGRAM ARGS..." or
// "http URL". It makes a sandbox and runs a command in it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func call(ctx context.Context, s *mcp.ClientSession, name string,
	args map[string]any) map[string]any {
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name,
		Arguments: args})
	if err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	if r.IsError {
		text, _ := json.Marshal(r.Content)
		log.Fatalf("%s: %s", name, text)
	}
	out, ok := r.StructuredContent.(map[string]any)
	if !ok {
		log.Fatalf("%s: no object in it", name)
	}
	return out
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var way mcp.Transport
	if os.Args[1] == "http" {
		way = &mcp.StreamableClientTransport{Endpoint: os.Args[2]}
	} else {
		way = &mcp.CommandTransport{
			Command: exec.Command(os.Args[2], os.Args[3:]...)}
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, nil)
	s, err := c.Connect(ctx, way, nil)
	if err != nil {
		log.Fatal(err)
	}
	list, err := s.ListTools(ctx, nil)
	if err != nil || len(list.Tools) < 10 {
		log.Fatalf("tools: %v, %v", list, err)
	}
	made := call(ctx, s, "create_sandbox", map[string]any{
		"warmpool": "py-pool", "namespace": "default"})
	done := call(ctx, s, "execute_command", map[string]any{
		"sandbox_claim_name": made["sandbox_claim_name"],
		"namespace":          "default", "command": "echo hi"})
	fmt.Print(done["stdout"])
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
}
