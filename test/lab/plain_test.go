package lab

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

const (
	// agentPID prints the agent's process ID; its guard process has other arguments.
	agentPID = `for p in /proc/[0-9]*; do case "$(tr '\0' ' ' < $p/cmdline 2>/dev/null)" in "/usr/bin/weft-agent ` +
		`--"*) echo ${p#/proc/};; esac; done`
	// untilMoving waits until the ledger has the phase Moving and the bridge exists.
	untilMoving = `until grep -q '"phase": "Moving"' /var/lib/weft/uplink-eth0.json 2>/dev/null && [ -e ` +
		`/sys/class/net/breth0 ]; do sleep 0.01; done`
)

// TestPlainNodesAreMoved starts nodes with their addresses on eth0, as most hosts have them. The product creates the
// bridge. Then, while a node's link is moved again, its cable is cut and the agent is killed with its container, so
// that no help from the cluster can reach the node.
func TestPlainNodesAreMoved(t *testing.T) {
	needLab(t)
	c, err := Open(Options{Name: "labplain", Output: testWriter{t}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Down(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := c.Up(ctx, UpOptions{PlainLinks: true}); err != nil {
		t.Fatal(err)
	}
	moved := func() error { return carries(ctx, c, "breth0", "eth0") }
	eventually(t, ctx, moved)
	eventually(t, ctx, func() error { return allowed(ctx, c) })
	reached := func() error {
		_, err := c.Exec(ctx, "out", "busybox", "ping", "-c", "1", "-W", "2", Node(1).IPv4.Addr().String())
		return err
	}
	eventually(t, ctx, reached)

	agent := strings.TrimSpace(mustExec(t, ctx, c, "n1", "sh", "-c", agentPID))
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, "n1", "sh", "-c", untilMoving)
		waiting <- err
	}()
	// the agent needs the bridge and moves the link again
	mustExec(t, ctx, c, "n1", "/proc/"+agent+"/root/usr/bin/weft-agent", "uplink", "release")
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	if err := c.plug("n1", false); err != nil {
		t.Fatal(err)
	}
	mustExec(t, ctx, c, "n1", "sh", "-c", "kill -9 "+agent)
	eventually(t, ctx, func() error { return carries(ctx, c, "eth0", "breth0") })
	if err := c.plug("n1", true); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, reached)
	eventually(t, ctx, moved) // the API server is reachable again
	eventually(t, ctx, reached)
}

// allowed expects that each node got its turn to move, and used it.
func allowed(ctx context.Context, c *Cluster) error {
	out, err := c.Kubectl(ctx, "get", "nodenetworks", "-o",
		"jsonpath={range .items[*]}{.spec.gateway.move},{.status.move},{.status.gateway.bridge};{end}")
	if want := "eth0 Bridge,,breth0;eth0 Bridge,,breth0;"; err == nil && string(out) != want {
		err = fmt.Errorf("moves allowed, moves requested and bridges are: %s, want %s", out, want)
	}
	return err
}

// carries expects the node's addresses on one link and no addresses on another, which need not exist.
func carries(ctx context.Context, c *Cluster, link, other string) error {
	on, err := c.Exec(ctx, "n1", "ip", "-o", "address", "show", "dev", link, "scope", "global")
	if err != nil {
		return err
	}
	for _, p := range Node(1).prefixes() {
		if !strings.Contains(string(on), p.String()) {
			return fmt.Errorf("%s lacks %s: %s", link, p, on)
		}
	}
	if off, err := c.Exec(ctx, "n1", "ip", "-o", "address", "show", "dev", other, "scope", "global"); err == nil && len(off) > 0 {
		return fmt.Errorf("%s has %s", other, off)
	}
	return nil
}

// plug connects a machine's cable to the fabric or disconnects it, and leaves its carrier on.
func (c *Cluster) plug(machine string, in bool) error {
	return c.in(fabric, func() error {
		cable, err := netlink.LinkByName(machine)
		if err != nil {
			return err
		}
		if !in {
			return netlink.LinkSetNoMaster(cable)
		}
		master, err := netlink.LinkByName(bridge)
		if err != nil {
			return err
		}
		return netlink.LinkSetMaster(cable, master)
	})
}
