package member

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
)

// target is the other end of a link: a socket of this host (local), or a protocol of another member (address and
// protocol).
type target struct{ local, address, protocol string }

// links are sockets of this host that forward their connections to a target.
type links struct {
	all map[string]*link // by path
}

type link struct {
	target target
	end    context.CancelFunc
	done   sync.WaitGroup
}

// set opens the missing links and closes those absent from wanted. A link whose target changed is closed with its
// connections and reopened.
func (l *links) set(ctx context.Context, wanted map[string]target, open func(context.Context, target) (net.Conn, error)) error {
	for path, have := range l.all {
		if t, ok := wanted[path]; !ok || t != have.target {
			have.stop()
			delete(l.all, path)
		}
	}
	if l.all == nil {
		l.all = map[string]*link{}
	}
	var failed []error
	for path, t := range wanted {
		if l.all[path] != nil {
			continue
		}
		made, err := start(path, t, open)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		l.all[path] = made
	}
	return errors.Join(append(failed, ctx.Err())...)
}

func (l *links) close() {
	for _, have := range l.all {
		have.stop()
	}
	l.all = nil
}

func (l *link) stop() {
	l.end()
	l.done.Wait()
}

func start(path string, t target, open func(context.Context, target) (net.Conn, error)) (*link, error) {
	if err := os.RemoveAll(path); err != nil { // a killed process leaves its socket behind
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	// The link outlives the order that opened it, so it does not use the context of that request.
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{target: t, end: cancel}
	context.AfterFunc(ctx, func() { listener.Close() })
	l.done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.done.Go(func() {
				defer conn.Close()
				if far, err := open(ctx, t); err == nil {
					join(ctx, conn, far)
				}
			})
		}
	})
	return l, nil
}
