package extender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Paths of the verbs, below the extender's urlPrefix.
const (
	PathFilter     = "/filter"
	PathPrioritize = "/prioritize"
	PathPreempt    = "/preempt"
	PathBind       = "/bind"
)

const (
	// largestBody bounds a request in bytes. Without nodeCacheCapable, it has all nodes.
	largestBody = 64 << 20
	// shutdownTime is how long requests may take to end when the process ends.
	shutdownTime = 10 * time.Second
)

// Handler serves the verbs.
func (e *Extender) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+PathFilter, handle(e, func(ctx context.Context, args *extenderv1.ExtenderArgs) (any, error) {
		return e.Filter(ctx, args), nil
	}))
	mux.HandleFunc("POST "+PathPrioritize, handle(e, func(ctx context.Context, args *extenderv1.ExtenderArgs) (any, error) {
		return e.Prioritize(ctx, args)
	}))
	mux.HandleFunc("POST "+PathPreempt, handle(e, func(ctx context.Context, args *extenderv1.ExtenderPreemptionArgs) (any, error) {
		return e.Preempt(ctx, args)
	}))
	mux.HandleFunc("POST "+PathBind, handle(e, func(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (any, error) {
		result := &extenderv1.ExtenderBindingResult{}
		if err := e.BindPod(ctx, args); err != nil {
			result.Error = err.Error()
		}
		return result, nil
	}))
	return mux
}

// handle decodes a request, and encodes the response. The responses of prioritize and preempt have no field for an error, so
// handle returns status 500, which kube-scheduler logs.
func handle[Args any](e *Extender, answer func(context.Context, *Args) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args Args
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, largestBody)).Decode(&args); err != nil {
			http.Error(w, "decode the request: "+err.Error(), http.StatusBadRequest)
			return
		}
		result, err := answer(r.Context(), &args)
		if err != nil {
			e.Log.Error(err, "cannot answer kube-scheduler", "path", r.URL.Path)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(result); err != nil {
			e.Log.V(1).Info("kube-scheduler did not read the response", "path", r.URL.Path, "error", err.Error())
		}
	}
}

// TLS names the PEM files of the server. They are read for each connection, so that replacing them needs no restart.
type TLS struct {
	PrivateKey, Certificate string
	// ClientCA has the authorities that sign kube-schedulers' certificates. A client without one gets no answer,
	// because bind schedules pods.
	ClientCA string
}

// Config returns the configuration of a listener.
func (t TLS) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return t.read()
	}}
}

// read reads the files.
func (t TLS) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(t.Certificate, t.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", t.Certificate, t.PrivateKey, err)
	}
	text, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("authorities of clients: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("authorities of clients %s: the file holds no certificate", t.ClientCA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}, nil
}

// Serve answers at a listener until ctx ends.
func (e *Extender) Serve(ctx context.Context, listener net.Listener, files TLS) error {
	if _, err := files.read(); err != nil {
		return errors.Join(err, listener.Close()) // at the start, an absent file is an error of the installation
	}
	server := &http.Server{Handler: e.Handler(), TLSConfig: files.Config(), ReadHeaderTimeout: 10 * time.Second}
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
