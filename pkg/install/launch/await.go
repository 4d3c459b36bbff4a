package launch

import (
	"context"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// await returns when all files exist. kubelet and client-go's certificate store replace symbolic links, so await also
// watches the parent folders.
func await(ctx context.Context, files []string) error {
	if len(files) == 0 || present(files) {
		return nil
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	for _, file := range files {
		for _, dir := range []string{filepath.Dir(filepath.Dir(file)), filepath.Dir(file)} {
			if err := watcher.Add(dir); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
	}
	for !present(files) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-watcher.Errors:
			return err
		case <-watcher.Events:
		}
	}
	return nil
}

func present(files []string) bool {
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			return false
		}
	}
	return true
}
