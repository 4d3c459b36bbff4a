//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/pki"
)

// southboundCA is the file of the authorities that clients and server of the southbound database trust.
const southboundCA = "ovn-sb-ca.crt"

// TestRotatedAuthority covers failure mode L12 in a working cluster. The southbound database gets another authority,
// and server, ovn-controllers and agents get other key pairs, in an order in which no connection is refused. Nothing
// restarts. In the end no process trusts the old authority.
func TestRotatedAuthority(t *testing.T) {
	from, to := bed.peerPod("rotated-1", "n1"), bed.peerPod("rotated-2", "n2")
	bed.run(t, from, to)
	before := starts(t)
	next, err := pki.NewAuthority("ovn-sb-ca-2", time.Now())
	must(t, err)
	old, err := os.ReadFile(filepath.Join(pkiDir(), southboundCA))
	must(t, err)
	pings := startPings(t, from, to)

	rotate(t, func(dir string) error { // all trust both authorities, and clients have new key pairs
		return errors.Join(os.WriteFile(filepath.Join(dir, southboundCA), append(bytes.Clone(old), next.Cert...),
			0o644), signClients(next, dir))
	})
	rotate(t, func(dir string) error { // the server has a new key pair, and the old authority is removed
		return errors.Join(os.WriteFile(filepath.Join(dir, southboundCA), next.Cert, 0o644), signServer(next, dir))
	})
	if _, err := bed.Exec(t.Context(), "n1",
		append(append([]string{"ovsdb-client", "--timeout=10"}, bed.AgentTLS()...), "list-dbs",
			lab.SouthboundReader)...); err != nil {
		t.Error(err)
	}
	pings.mustLoseNothing(t)
	mustServeNewPods(t, "rotated-new", from, to)
	if after := starts(t); after != before {
		t.Errorf("something restarted: starts %s, before %s", after, before)
	}
}

// rotate replaces files, waits until kubelet has delivered the agents' files, and makes all clients reconnect.
func rotate(t *testing.T, change func(dir string) error) {
	t.Helper()
	must(t, bed.RotateSouthbound(t.Context(), change))
	want, err := os.ReadFile(filepath.Join(pkiDir(), southboundCA))
	must(t, err)
	for _, node := range []string{"n1", "n2"} {
		eventually(t, 60*time.Second, func() error {
			pod, err := bed.pod(t.Context(), agent, node)
			if err != nil {
				return err
			}
			have, err := bed.in(t.Context(), pod, "cat", "/etc/weft/tls/ca.crt")
			if err == nil && !bytes.Equal(have, want) {
				err = fmt.Errorf("the agent of node %s still has the previous authorities", node)
			}
			return err
		})
	}
	bed.mustExec(t, "cp", "ovs-appctl", "-t", "/run/ovn/ovnsb_db.ctl", "ovsdb-server/reconnect")
	eventually(t, 30*time.Second, func() error { return connected(t.Context()) })
}

// connected returns nil if each node's ovn-controller and agent have a connection to the southbound database.
func connected(ctx context.Context) error {
	for _, node := range []string{"n1", "n2"} {
		out, err := bed.Exec(ctx, node, "ovn-appctl", "-t", "ovn-controller", "connection-status")
		if err == nil && strings.TrimSpace(string(out)) != "connected" {
			err = fmt.Errorf("ovn-controller of %s is %s", node, out)
		}
		if err != nil {
			return err
		}
		pod, err := bed.pod(ctx, agent, node)
		if err != nil {
			return err
		}
		if err := notReady(pod); err != nil {
			return err
		}
	}
	return nil
}

func signClients(ca *pki.Authority, dir string) error {
	err := sign(ca, dir, "ovn-agent", pki.Subject{Name: "weft-agent"})
	for _, node := range []string{"n1", "n2"} {
		err = errors.Join(err, sign(ca, dir, "ovn-"+node, pki.Subject{Name: node}))
	}
	return err
}

func signServer(ca *pki.Authority, dir string) error {
	return sign(ca, dir, "ovn-sb", pki.Subject{Addresses: []netip.Addr{lab.ControlPlane().IPv4.Addr()}})
}

func sign(ca *pki.Authority, dir, file string, subject pki.Subject) error {
	pair, err := ca.Issue(subject, time.Now())
	if err != nil {
		return err
	}
	return pair.Write(dir, file)
}

// starts returns how often each daemon and each container of the product was started.
func starts(t *testing.T) string {
	t.Helper()
	var all []string
	machines, err := bed.Machines()
	must(t, err)
	for _, m := range machines {
		daemons, err := bed.Daemons(m.Name)
		must(t, err)
		for _, d := range daemons {
			all = append(all, fmt.Sprintf("%s/%s %d", m.Name, d.Name, d.Starts))
		}
	}
	out, err := bed.Kubectl(t.Context(), "-n", "weft-system", "get", "pods", "--sort-by=.metadata.name",
		"-o", `jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].restartCount}{"\n"}{end}`)
	must(t, err)
	return strings.Join(all, ", ") + "\n" + string(out)
}

func pkiDir() string { return filepath.Join(filepath.Dir(bed.KubeConfig()), "ovn") }
