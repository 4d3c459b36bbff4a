package cniserver

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Keep serves as Serve does. When another program deletes the socket at path, or its directory, Keep listens there again. Requests of
// the former listener go on. A socket that a newer agent made stays. Keep fails if it cannot listen again, so that a new process tries.
func (s *Server) Keep(ctx context.Context, listener *net.UnixListener, path string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var serving sync.WaitGroup
	serve := func(l *net.UnixListener) {
		serving.Go(func() {
			if err := s.Serve(ctx, l); err != nil {
				cancel(err)
			}
		})
	}
	serve(listener)
	if err := s.keepSocket(ctx, path, serve); err != nil {
		cancel(err)
	}
	<-ctx.Done()
	serving.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// keepSocket listens at path again whenever no socket is there, until ctx ends. Without inotify it returns, and the server works as
// long as nobody deletes the socket.
func (s *Server) keepSocket(ctx context.Context, path string, serve func(*net.UnixListener)) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.options.Log.Error(err, "cannot watch the CNI socket", "socket", path)
		return nil
	}
	defer watcher.Close()
	for {
		err := watcher.Add(filepath.Dir(path)) // again, because the directory may be another one
		if isGone(path) {
			listener, err := Listen(path)
			if err != nil {
				return err
			}
			s.options.Log.Info("another program had deleted the CNI socket; listening there again", "socket", path)
			serve(listener)
			continue
		}
		if err != nil {
			s.options.Log.Error(err, "cannot watch the CNI socket", "socket", path)
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			s.options.Log.Error(err, "an event of the CNI socket's directory is missing", "socket", path)
		case <-watcher.Events:
		}
	}
}

// isGone reports whether there is no socket at path.
func isGone(path string) bool {
	info, err := os.Lstat(path)
	return err != nil || info.Mode().Type() != fs.ModeSocket
}
