//go:build e2e

package load

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// clients is the number of parallel calls to the API server.
const clients = 16

// inParallel calls do for n numbers from first on, in order, from several clients. It stops at the first error.
func inParallel(ctx context.Context, first, n int, do func(ctx context.Context, i int) error) error {
	numbers := make(chan int)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(numbers)
		for i := first; i < first+n; i++ {
			select {
			case numbers <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range clients {
		group.Go(func() error {
			for i := range numbers {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
