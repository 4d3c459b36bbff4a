package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTheRuntimesChoiceIsKnown: what the runtime takes instead of our configuration is found, and what only seems to come first is not.
func TestTheRuntimesChoiceIsKnown(t *testing.T) {
	const bridge = `{"cniVersion":"1.0.0","name":"other","plugins":[{"type":"bridge"}]}`
	for _, test := range []struct {
		what, file, content string
		other               bool
	}{
		{"another network", "00-other.conflist", bridge, true},
		{"another network of one plugin", "00-other.conf", `{"cniVersion":"1.0.0","name":"other","type":"bridge"}`, true},
		{"it sorts behind", "10-other.conflist", bridge, false},
		{"it is no configuration", "00-other.conflist.bak", bridge, false},
		{"the runtime cannot read it", "00-other.conflist", `{"plugins":[`, false},
		{"it has no plugin", "00-other.conflist", `{"name":"other","plugins":[]}`, false},
		{"an administrator's list with our plugin", "00-site.conflist", `{"name":"site","plugins":[{"type":"weft-cni","socket":"/run/weft/cni.sock"},{"type":"tuning"}]}`, false},
		{"Multus hands on to our file", "00-multus.conf", `{"name":"multus","type":"multus-shim","clusterNetwork":"/host/etc/cni/net.d/05-weft.conflist"}`, false},
		{"Multus hands on to our network", "00-multus.conf", `{"name":"multus","type":"multus","clusterNetwork":"weft"}`, false},
	} {
		t.Run(test.what, func(t *testing.T) {
			c := newCNIConfig(t)
			if err := c.write(); err != nil {
				t.Fatal(err)
			}
			put(t, test.content, c.confDir, test.file)
			want := ""
			if test.other {
				want = filepath.Join(c.confDir, test.file)
			}
			if got := c.other(); got != want {
				t.Errorf("the runtime is said to take %q, want %q", got, want)
			}
		})
	}
}

// TestTheRuntimesFolderIsWatched: a file that goes or comes is news, the parts of ours are none.
func TestTheRuntimesFolderIsWatched(t *testing.T) {
	c := newCNIConfig(t)
	if err := c.write(); err != nil {
		t.Fatal(err)
	}
	news := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.watch(func() { news <- struct{}{} })(ctx) }()
	told := func(what string) {
		t.Helper()
		select {
		case <-news:
		case <-time.After(10 * time.Second):
			t.Fatalf("nobody told that %s", what)
		}
		for len(news) > 0 { // one change has several
			<-news
		}
	}
	told("it began")
	if err := os.Remove(filepath.Join(c.confDir, configName)); err != nil {
		t.Fatal(err)
	}
	told("ours is gone")
	put(t, "{}", c.confDir, "."+configName+"12345")
	put(t, "{}", c.confDir, "00-other.conf")
	told("another one came")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
