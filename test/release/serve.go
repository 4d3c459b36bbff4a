package release

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Serve serves images at an address, over TLS, until the context ends. It keeps blobs in the folder, and manifests in memory. log gets a
// line for each request.
func Serve(ctx context.Context, listen, certFile, keyFile, folder string, log *log.Logger) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log,
		Handler: registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(folder)), registry.Logger(log))}
	// The registry holds a lock while it reads a blob. Blobs that share a connection, as of HTTP/2, would wait for each other for ever.
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.ServeTLS(listener, certFile, keyFile); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}
