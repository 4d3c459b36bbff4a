//go:build profile

package main

import (
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof" // registers its handlers with the default mux
	"os"
)

// A program that is built with the tag "profile" serves net/http/pprof at the unix socket $WEFT_PPROF; the product never does.
func init() {
	path := os.Getenv("WEFT_PPROF")
	if path == "" {
		return
	}
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pprof:", err)
		return
	}
	go func() { _ = http.Serve(listener, nil) }()
}
