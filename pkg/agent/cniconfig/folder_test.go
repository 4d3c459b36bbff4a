package cniconfig

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Other finds the configuration that the runtime uses instead of ours, and ignores files that only seem to come first.
func TestOtherConfigurationsAreFound(t *testing.T) {
	const bridge = `{"cniVersion":"1.0.0","name":"other","plugins":[{"type":"bridge"}]}`
	for _, test := range []struct {
		what, file, content string
		other               bool
	}{
		{"another network", "00-other.conflist", bridge, true},
		{"another network of one plugin", "00-other.conf", `{"cniVersion":"1.0.0","name":"other","type":"bridge"}`, true},
		{"it sorts after ours", "10-other.conflist", bridge, false},
		{"it is not a configuration", "00-other.conflist.bak", bridge, false},
		{"the runtime cannot read it", "00-other.conflist", `{"plugins":[`, false},
		{"it has no plugin", "00-other.conflist", `{"name":"other","plugins":[]}`, false},
		{
			"an administrator's list with our plugin", "00-site.conflist",
			`{"name":"site","plugins":[{"type":"weft-cni","socket":"/run/weft/cni.sock"},{"type":"tuning"}]}`, false,
		},
		{
			"Multus delegates to our file", "00-multus.conf",
			`{"name":"multus","type":"multus-shim","clusterNetwork":"/host/etc/cni/net.d/05-weft.conflist"}`, false,
		},
		{"Multus delegates to our network", "00-multus.conf", `{"name":"multus","type":"multus","clusterNetwork":"weft"}`, false},
	} {
		t.Run(test.what, func(t *testing.T) {
			c := newCNIConfig(t)
			if err := c.Write(); err != nil {
				t.Fatal(err)
			}
			put(t, test.content, c.ConfDir, test.file)
			want := ""
			if test.other {
				want = filepath.Join(c.ConfDir, test.file)
			}
			if got := c.Other(); got != want {
				t.Errorf("Other returned %q, want %q", got, want)
			}
		})
	}
}

// Watch reports a configuration that is added or removed, but not the temporary files of ours.
func TestTheRuntimesFolderIsWatched(t *testing.T) {
	c := newCNIConfig(t)
	put(t, "plugin", c.BinSource, pluginName)
	if err := errors.Join(c.Install(), c.Write()); err != nil {
		t.Fatal(err)
	}
	changes := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Watch(func() { changes <- struct{}{} })(ctx) }()
	awaitReport := func(what string) {
		t.Helper()
		select {
		case <-changes:
		case <-time.After(time.Minute):
			t.Fatalf("Watch did not report %s", what)
		}
		for len(changes) > 0 { // one change can have several events
			<-changes
		}
	}
	awaitReport("its start")
	if err := os.Remove(filepath.Join(c.ConfDir, Name)); err != nil {
		t.Fatal(err)
	}
	awaitReport("that our file was removed")
	put(t, "{}", c.ConfDir, "."+Name+"12345")
	put(t, "{}", c.ConfDir, "00-other.conf")
	awaitReport("another configuration")
	plugin := filepath.Join(c.BinDir, pluginName)
	if err := os.Remove(plugin); err != nil {
		t.Fatal(err)
	}
	awaitReport("that our plugin was removed")
	if err := c.Write(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(plugin); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
