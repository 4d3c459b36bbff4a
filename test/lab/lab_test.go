package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/test/lab/cgroup"
	"github.com/weft-network/weft/test/lab/initd"
	"github.com/weft-network/weft/test/poll"
)

// upForHelper is the environment variable that makes this test binary start a lab, for a test that kills it
// meanwhile.
const upForHelper = "WEFT_LAB_TEST_UP"

func TestMain(m *testing.M) {
	if name := os.Getenv(upForHelper); name != "" {
		c, err := Open(Options{Name: name})
		if err == nil {
			err = c.Up(context.Background(), UpOptions{WithoutWeft: true})
		}
		fmt.Println("up:", err)
		return
	}
	os.Exit(m.Run())
}

// needLab skips tests that need a whole machine: root, built tools and a gigabyte of memory.
func needLab(t *testing.T) {
	t.Helper()
	if os.Getenv("WEFT_LAB_TEST") == "" {
		t.Skip("set WEFT_LAB_TEST=1, as root, after weft-lab tools all")
	}
}

func openTestLab(t *testing.T) *Cluster {
	t.Helper()
	c, err := Open(Options{Name: "labtest", Output: testWriter{t}})
	if err != nil {
		t.Fatal(err)
	}
	down := func() {
		if err := c.Down(context.Background()); err != nil {
			t.Error(err)
		}
	}
	down()
	t.Cleanup(down)
	return c
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(line), "\n"))
	return len(line), nil
}

func TestUpDown(t *testing.T) {
	needLab(t)
	before := readHost(t)
	c := openTestLab(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := c.Up(ctx, UpOptions{WithoutWeft: true}); err != nil {
		t.Fatal(err)
	}
	t.Run("a second up is refused", func(t *testing.T) {
		if err := c.Up(ctx, UpOptions{WithoutWeft: true}); err == nil {
			t.Error("it succeeded")
		}
	})
	t.Run("OVN answers the nodes", func(t *testing.T) { testOVN(t, ctx, c) })
	t.Run("host-network pods reach each other", func(t *testing.T) { testPods(t, ctx, c) })
	t.Run("a narrow link on the way is detected", func(t *testing.T) { testFar(t, ctx, c) })
	t.Run("the API server is reachable by DialContext", func(t *testing.T) { testDial(t, ctx, c) })
	t.Run("OVN carries packets between the nodes", func(t *testing.T) { testOverlay(t, ctx, c) })
	t.Run("killed daemons start again", func(t *testing.T) { testKills(t, ctx, c) })
	t.Run("pods reach each other after the kills", func(t *testing.T) { testPods(t, ctx, c) })
	if err := c.Down(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, readHost(t)); diff != "" {
		t.Errorf("down left the host different:\n%s", diff)
	}
}

func testOVN(t *testing.T, ctx context.Context, c *Cluster) {
	for remote, flags := range map[string][]string{Northbound: c.OperatorTLS(), Southbound: c.ControllerTLS(Node(1)),
		SouthboundReader: c.AgentTLS()} {
		if _, err := c.Exec(ctx, "n1", append(append([]string{"ovsdb-client"}, flags...), "list-dbs", remote)...); err != nil {
			t.Error(err)
		}
	}
}

func testPods(t *testing.T, ctx context.Context, c *Cluster) {
	for _, args := range [][]string{
		{"apply", "-f", "manifests/hostprobe.yaml"},
		{"rollout", "status", "ds/hostprobe", "--timeout=120s"},
		{"logs", "ds/hostprobe"},
	} {
		if _, err := c.Kubectl(ctx, args...); err != nil {
			t.Fatal(err)
		}
	}
	type target struct {
		Name string `json:"name"`
		Ping string `json:"ping"`
		HTTP string `json:"http,omitempty"`
	}
	var targets []target
	for _, m := range outside() {
		for _, address := range m.prefixes() {
			targets = append(targets, target{m.Name, address.Addr().String(), ""})
		}
	}
	for _, address := range Internet() {
		targets = append(targets, target{"internet", address.String(), ""})
	}
	for _, n := range []Machine{Node(1), Node(2)} {
		v4, v6 := n.IPv4.Addr().String(), n.IPv6.Addr().String()
		targets = append(targets, target{n.Name, v4, "http://" + v4 + ":18080"}, target{n.Name, v6, "http://[" + v6 + "]:18080"})
	}
	text, err := json.Marshal(targets)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := c.Kubectl(ctx, "get", "pods", "-l", "app=hostprobe", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range strings.Fields(string(pods)) {
		if out, err := c.Kubectl(ctx, "exec", pod, "--", "probe", "check", "--attempts=3", "--targets="+string(text)); err != nil {
			t.Errorf("%s: %v\n%s", pod, err, out)
		}
	}
}

// testFar sends packets that fit through the narrow link, and larger packets: the router notifies the sender, whose
// kernel then fragments them.
func testFar(t *testing.T, ctx context.Context, c *Cluster) {
	for _, address := range Far().prefixes() {
		for _, from := range []string{"out", "n1"} {
			for _, size := range []string{"1200", "1400"} {
				eventually(t, ctx, func() error {
					_, err := c.Exec(ctx, from, "busybox", "ping", "-c", "1", "-W", "2", "-s", size, address.Addr().String())
					return err
				})
			}
			route := mustExec(t, ctx, c, from, "ip", "route", "get", address.Addr().String())
			if want := fmt.Sprint("mtu ", narrowMTU); !strings.Contains(route, want) {
				t.Errorf("%s has not learned %q: %s", from, want, route)
			}
		}
	}
}

func testDial(t *testing.T, ctx context.Context, c *Cluster) {
	conn, err := c.DialContext(ctx, "tcp", APIServer)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func testKills(t *testing.T, ctx context.Context, c *Cluster) {
	all, err := c.Machines()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		daemons, err := c.Daemons(m.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range daemons {
			if err := c.Kill(m.Name, d.Name); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
		awaitDaemons(t, ctx, c, m.Name, func(d initd.Status) bool { return d.PID != 0 && d.Starts >= 2 })
	}
	if _, err := c.Exec(ctx, "n1", "ovs-vsctl", "--timeout=30", "br-exists", "br-ex"); err != nil {
		t.Error(err)
	}
	awaitAPI(t, ctx, c)
}

// awaitDaemons polls, because a status has no events.
func awaitDaemons(t *testing.T, ctx context.Context, c *Cluster, machine string, good func(initd.Status) bool) {
	t.Helper()
	eventually(t, ctx, func() error {
		daemons, err := c.Daemons(machine)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(daemons, func(d initd.Status) bool { return !good(d) }); i >= 0 {
			return fmt.Errorf("%s: %+v", machine, daemons[i])
		}
		return nil
	})
}

func awaitAPI(t *testing.T, ctx context.Context, c *Cluster) {
	t.Helper()
	eventually(t, ctx, func() error {
		_, err := c.Kubectl(ctx, "get", "--raw=/readyz")
		return err
	})
}

// TestDownAfterAKilledUp kills Up whenever another of its machines is recorded, when most could be left behind.
func TestDownAfterAKilledUp(t *testing.T) {
	needLab(t)
	before := readHost(t)
	for processes := range len(machines(2)) + 1 {
		t.Run(fmt.Sprint(processes, " machines"), func(t *testing.T) {
			c := openTestLab(t)
			killUp(t, c, processes)
			if err := c.Down(context.Background()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, readHost(t)); diff != "" {
				t.Errorf("down left the host different:\n%s", diff)
			}
		})
	}
}

func killUp(t *testing.T, c *Cluster, processes int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), upForHelper+"="+c.Name)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	eventually(t, context.Background(), func() error {
		s, err := c.loadState()
		if err != nil {
			return err
		}
		if len(s.Netns) > 0 && len(s.Processes) >= processes {
			return nil
		}
		select {
		case <-ended:
			t.Fatalf("up ended by itself: %s", &out)
		default:
		}
		return errors.New("up has not started enough machines yet")
	})
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
}

// host is everything on this machine that a lab may change.
type host struct {
	Mounts  []string
	Netns   []string
	Cgroups []string
	Sysctls map[string]string
}

func readHost(t *testing.T) host {
	t.Helper()
	h := host{Sysctls: map[string]string{}}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, "labtest") {
			h.Mounts = append(h.Mounts, line)
		}
	}
	h.Netns, _ = filepath.Glob("/run/netns/labtest-*")
	all, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range cgroup.Dirs(all, "weft-lab/labtest") {
		if _, err := os.Stat(dir); err == nil {
			h.Cgroups = append(h.Cgroups, dir)
		}
	}
	for key := range kubeletSysctls() {
		if text, err := os.ReadFile("/proc/sys/" + key); err == nil {
			h.Sysctls[key] = string(text)
		}
	}
	return h
}

// eventually ends the test if try does not succeed within a minute.
func eventually(t *testing.T, ctx context.Context, try func() error) {
	t.Helper()
	if err := poll.Slowly(ctx, time.Minute, try); err != nil {
		t.Fatal(err)
	}
}
