// Package program has the entry points of weft, weft operands and weft preflight.
package program

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weft-network/weft/pkg/process/leadership"
)

// leaseIf returns nil if there is certainly one process.
func leaseIf(elect bool, lease leadership.Lease) *leadership.Lease {
	if !elect {
		return nil
	}
	return &lease
}

// together runs all functions until one returns or ctx ends, and then ends the others. It does not wait for the
// others after leadership.ErrHung, because the process must exit.
func together(ctx context.Context, all ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, len(all))
	for _, one := range all {
		go func() { ended <- one(ctx) }()
	}
	var errs []error
	for range all {
		err := <-ended
		if errs = append(errs, err); errors.Is(err, leadership.ErrHung) {
			break
		}
		stop()
	}
	return errors.Join(errs...)
}

// serveMetrics returns a function that serves metrics at an address. "0" serves nothing.
func serveMetrics(config *rest.Config, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		server, err := metricsserver.NewServer(metricsserver.Options{BindAddress: address}, config, http.DefaultClient)
		if err != nil {
			return err
		}
		if server == nil { // switched off
			<-ctx.Done()
			return nil
		}
		return server.Start(ctx)
	}
}
