package bgp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/isolation"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/poll"
)

// asAgent is the environment variable with the spec that a process of its own announces until it is killed.
const asAgent = "WEFT_TEST_BGP_SPEC"

func TestMain(m *testing.M) {
	if text := os.Getenv(asAgent); text != "" {
		announce(text)
	}
	os.Exit(isolation.Run(unix.CLONE_NEWNET|unix.CLONE_NEWPID|unix.CLONE_NEWNS, func() int {
		if err := isolation.Furnish(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}))
}

// announce is an agent that only announces. SIGTERM ends it as it ends an agent.
func announce(text string) {
	var spec networkv1alpha1.NodeBGP
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	s := New(Options{Changed: func() {}, Log: logr.Discard(), Running: ctx})
	if err := s.Apply(&spec, nil); err != nil {
		panic(err)
	}
	if err := s.Run(ctx); err != nil {
		panic(err)
	}
	os.Exit(0)
}

const (
	patience            = 40 * time.Second
	node4, node6        = "192.0.2.10", "2001:db8::10"
	router4, router6    = "192.0.2.1", "2001:db8::1"
	nodeASN, routerASN  = 64513, 64512
	namespace, linkName = "router", "eth0"
)

// router is BIRD in a network namespace that a link connects with this one.
type router struct {
	t      *testing.T
	dir    string
	config string
	cmd    *exec.Cmd
}

func run(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// newRouter starts BIRD with these protocols.
func newRouter(t *testing.T, protocols string) *router {
	t.Helper()
	r := &router{t: t, dir: t.TempDir()}
	run(t, "ip netns add "+namespace)
	run(t, "ip link add "+linkName+" type veth peer name "+linkName+" netns "+namespace)
	for _, side := range []struct{ prefix, v4, v6 string }{{"ip", node4, node6}, {"ip -n " + namespace, router4, router6}} {
		run(t, side.prefix+" link set lo up")
		run(t, side.prefix+" address add "+side.v4+"/24 dev "+linkName)
		run(t, side.prefix+" address add "+side.v6+"/64 dev "+linkName+" nodad")
		run(t, side.prefix+" link set "+linkName+" up")
	}
	t.Cleanup(func() {
		r.kill()
		run(t, "ip link delete "+linkName)
		run(t, "ip netns delete "+namespace)
	})
	r.config = filepath.Join(r.dir, "bird.conf")
	r.configure(protocols)
	r.start()
	return r
}

func (r *router) configure(protocols string) {
	r.t.Helper()
	text := "router id 192.0.2.1;\nprotocol device {}\n" + protocols
	if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// birdSession is a passive session of BIRD with this node.
func birdSession(name, local, neighbor string, asn int, more string) string {
	const channels = "  ipv4 { gateway direct; import all; export none; };\n  ipv6 { gateway direct; import all; export none; };\n}\n"
	return fmt.Sprintf("protocol bgp %s {\n  local %s as %d;\n  neighbor %s as %d;\n  passive on;\n  error wait time 1, 1;\n  %s\n",
		name, local, asn, neighbor, nodeASN, more) + channels
}

func (r *router) start() {
	r.t.Helper()
	cache, err := tools.DefaultCache()
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := os.Stat(cache.BIRD("bird")); err != nil {
		r.t.Fatalf("BIRD is absent: run `make tools` first (%v)", err)
	}
	r.cmd = exec.Command("ip", "netns", "exec", namespace, cache.BIRD("bird"), "-f", "-c", r.config, "-s", r.socket())
	r.cmd.Stderr = os.Stderr
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	poll.Eventually(r.t, patience, func() error { _, err := r.ask("show", "status"); return err })
}

func (r *router) kill() {
	if r.cmd != nil {
		_ = r.cmd.Process.Kill() // it may have ended already
		_ = r.cmd.Wait()
		r.cmd = nil
	}
}

func (r *router) socket() string { return filepath.Join(r.dir, "bird.ctl") }

func (r *router) ask(words ...string) (string, error) {
	cache, err := tools.DefaultCache()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(cache.BIRD("birdc"), append([]string{"-s", r.socket()}, words...)...).CombinedOutput()
	return string(out), err
}

var routeLine = regexp.MustCompile(`^([0-9a-f.:]+/[0-9]+)\s+unicast \[(\w+) `)

// routes returns the attributes of each route: "PREFIX SESSION" -> "BGP.next_hop: ... BGP.community: ...".
func (r *router) routes() map[string]string {
	text, err := r.ask("show", "route", "all")
	if err != nil {
		return nil
	}
	found, prefix, key := map[string]string{}, "", ""
	for line := range strings.Lines(text) {
		if m := routeLine.FindStringSubmatch(line); m != nil {
			prefix = m[1]
			key = prefix + " " + m[2]
			found[key] = ""
		} else if m := regexp.MustCompile(`^\s+unicast \[(\w+) `).FindStringSubmatch(line); m != nil {
			key = prefix + " " + m[1]
			found[key] = ""
		} else if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "BGP.") {
			found[key] += trimmed + "\n"
		}
	}
	return found
}

// awaitSession waits until BIRD's session is established, or is not.
func (r *router) awaitSession(established bool) {
	r.t.Helper()
	poll.Eventually(r.t, patience, func() error {
		text, err := r.ask("show", "protocols")
		if err == nil && strings.Contains(text, "Established") != established {
			err = fmt.Errorf("established must be %t: %s", established, text)
		}
		return err
	})
}

// await waits for exactly these routes.
func (r *router) await(want ...string) map[string]string {
	r.t.Helper()
	var have map[string]string
	slices.Sort(want)
	poll.Eventually(r.t, patience, func() error {
		have = r.routes()
		if keys := slices.Sorted(maps.Keys(have)); !slices.Equal(keys, want) {
			return fmt.Errorf("the router has %q, want %q", keys, want)
		}
		return nil
	})
	return have
}
