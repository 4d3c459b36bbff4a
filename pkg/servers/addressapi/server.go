package addressapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

const (
	// bodyTime is how long a client may take to send a body, and headerTime to send the headers.
	bodyTime   = 10 * time.Second
	headerTime = 10 * time.Second
	// requestTime bounds a request with its response. A release of 100 addresses is 300 requests to the API server.
	requestTime = 2 * time.Minute
	idleTime    = 2 * time.Minute
	// shutdownTime is how long requests may take to end when the process ends.
	shutdownTime = 20 * time.Second
	// largestHeader bounds the headers in bytes. Tokens of identity providers have several kB.
	largestHeader = 64 << 10
)

// Certificate is a server's certificate in PEM files. It is read for each connection, so that replacing it needs no
// restart. While the files are unreadable, such as between the two writes of a replacement, the last one stays in use.
type Certificate struct {
	PrivateKey, Certificate string
	Log                     logr.Logger

	mu   sync.Mutex
	last *tls.Certificate
}

// read returns the certificate of the files.
func (c *Certificate) read() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.Certificate, c.PrivateKey)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.last = &pair
	case c.last == nil:
		return nil, fmt.Errorf("certificate %s with key %s: %w", c.Certificate, c.PrivateKey, err)
	default:
		c.Log.Error(err, "cannot read the certificate; the previous one stays in use", "certificate", c.Certificate, "key", c.PrivateKey)
	}
	return c.last, nil
}

// Serve answers at a listener until ctx ends, and then lets the requests end that it has begun.
func (a *API) Serve(ctx context.Context, listener net.Listener, certificate *Certificate) error {
	if _, err := certificate.read(); err != nil {
		return errors.Join(err, listener.Close()) // at the start, an absent file is an error of the installation
	}
	server := &http.Server{Handler: a, ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: requestTime,
		IdleTimeout: idleTime, MaxHeaderBytes: largestHeader, ErrorLog: log.New(quiet{a.log}, "", 0),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return certificate.read()
		}}}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err := server.Shutdown(limited); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// quiet logs what net/http reports, such as handshakes that clients end, where only a developer sees it.
type quiet struct{ logr.Logger }

// Write implements io.Writer.
func (q quiet) Write(text []byte) (int, error) {
	q.V(1).Info("the HTTPS server reports", "text", string(text))
	return len(text), nil
}
