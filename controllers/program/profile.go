//go:build profile

package program

import (
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof" // registers its handlers with the default mux
	"os"
)

// init serves net/http/pprof at the unix socket $WEFT_PPROF, in programs built with the tag "profile". The product is
// never built with it.
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
