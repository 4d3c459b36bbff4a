package bgp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// keys reads the passwords. kubelet keeps a file for each key of the Secret, and replaces the folder's link ..data when
// the Secret changes.
type keys struct {
	folder  string
	changed func()
	log     logr.Logger
	once    sync.Once
}

// maxPassword is the longest password that the kernel takes (TCP_MD5SIG_MAXKEYLEN).
const maxPassword = 80

// read returns a password, or why it cannot be used.
func (k *keys) read(key string) (password, problem string) {
	text, err := os.ReadFile(filepath.Join(k.folder, filepath.Base(key)))
	password = strings.TrimRight(string(text), "\n")
	switch {
	case os.IsNotExist(err):
		return "", fmt.Sprintf("Secret %s has no key %s", networkv1alpha1.BGPPasswordSecret, key)
	case err != nil:
		return "", fmt.Sprintf("key %s of Secret %s: %v", key, networkv1alpha1.BGPPasswordSecret, err)
	case password == "" || len(password) > maxPassword:
		return "", fmt.Sprintf("key %s of Secret %s has %d bytes, and a password has 1 to %d",
			key, networkv1alpha1.BGPPasswordSecret, len(password), maxPassword)
	}
	return password, ""
}

// watch calls changed after each change of the Secret, until ctx ends. Only the first call has an effect.
func (k *keys) watch(ctx context.Context) {
	k.once.Do(func() {
		watcher, err := fsnotify.NewWatcher()
		if err == nil {
			err = watcher.Add(k.folder)
		}
		if err != nil {
			k.log.Info("cannot watch the passwords of BGPPeers: a change takes effect when the agent restarts", "reason", err.Error())
			return
		}
		go func() {
			defer watcher.Close()
			for {
				select {
				case <-ctx.Done():
					return
				case err := <-watcher.Errors: // events may be lost, as after an overflow
					k.log.Info("the passwords of BGPPeers are read again", "reason", err)
					k.changed()
				case <-watcher.Events:
					k.changed()
				}
			}
		}()
	})
}
