// SPDX-License-Identifier: Apache-2.0

// A hello-world MCP server on the official Go SDK, on stdio or "http PORT": a
// peer of make bench.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type greeting struct {
	Name string `json:"name" jsonschema:"whom to greet"`
}

func hello(_ context.Context, _ *mcp.CallToolRequest, in greeting) (
	*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: "Hello, " + in.Name},
	}}, nil, nil
}

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "hello", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "hello", Description: "greets"}, hello)
	if len(os.Args) > 2 && os.Args[1] == "http" {
		log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[2],
			mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
				return s
			}, nil)))
	}
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
