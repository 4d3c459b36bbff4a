package member

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
)

// target is where a link goes: to a socket of this host, or to another member.
type target struct{ local, address, protocol string }

// links are sockets of this host whose connections go somewhere else.
type links struct {
	all map[string]*link // by path
}

type link struct {
	target target
	end    context.CancelFunc
	done   sync.WaitGroup
}

// set has those links and no others. One whose target is another is ended, with its connections.
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
	if err := os.RemoveAll(path); err != nil { // of one that was killed
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	// It goes on after the order that wanted it was answered.
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
