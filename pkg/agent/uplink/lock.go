package uplink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockTimeout limits the wait for another process that moves or restores a link.
	lockTimeout = 5 * time.Second
	// lockInterval is the time between attempts to take the lock.
	lockInterval = 50 * time.Millisecond
	// lockName is the name of the lock's file, in the directory of the ledgers.
	lockName = "uplink.lock"
)

// lock excludes other goroutines and processes. The kernel releases the lock when this process dies.
func (m *Mover) lock(ctx context.Context, timeout time.Duration) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	m.mu.Lock()
	for {
		file, err := m.tryLock()
		if file != nil {
			return func() { file.Close(); m.mu.Unlock() }, nil
		}
		if err == nil {
			select {
			case <-ticker.C:
				continue
			case <-ctx.Done():
				err = fmt.Errorf("another process moves a link: %w", ctx.Err())
			}
		}
		m.mu.Unlock()
		return nil, fmt.Errorf("lock: %w", err)
	}
}

// tryLock returns nil while another process has the lock. It also returns nil if that process has just removed the file,
// because a lock on a removed file excludes nobody.
func (m *Mover) tryLock() (*os.File, error) {
	path := filepath.Join(m.cfg.Dir, lockName)
	if err := os.MkdirAll(m.cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		locked, lockedErr := file.Stat()
		present, presentErr := os.Stat(path)
		if lockedErr == nil && presentErr == nil && os.SameFile(locked, present) {
			return file, nil
		}
	} else if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, file.Close())
}
