package serviceoracle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/test/kubeapiserver"
)

// cluster is a real API server, and kube-proxy on node n1.
type cluster struct {
	api   client.Client
	proxy *exec.Cmd
	log   string // file of kube-proxy's output
	stop  func() error
}

// proxyConfig configures kube-proxy. It serves node ports at every address, as Weft does, and leaves the machine's conntrack alone.
const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: %s
clientConnection: {kubeconfig: %s, qps: 1000, burst: 1000}
clusterCIDR: %s
nodePortAddresses: ["0.0.0.0/0", "::/0"]
metricsBindAddress: ""
healthzBindAddress: "127.0.0.1:10256"
nftables: {minSyncPeriod: 50ms}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

// startCluster starts etcd, the API server and kube-proxy. The nodes must exist before kube-proxy starts, because it reads
// its own addresses only once.
func startCluster(ctx context.Context, nodes []*corev1.Node) (c *cluster, err error) {
	server, err := kubeapiserver.Start(kubeapiserver.Options{Flags: map[string]string{
		"service-cluster-ip-range": serviceNetworks, "service-node-port-range": "30000-39999"}})
	if err != nil {
		return nil, err
	}
	c = &cluster{stop: server.Stop}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	server.Config.QPS, server.Config.Burst = 10000, 10000
	if c.api, err = client.New(server.Config, client.Options{}); err != nil {
		return nil, err
	}
	for _, node := range nodes {
		status := node.DeepCopy().Status
		if err := c.api.Create(ctx, node); err != nil {
			return nil, err
		}
		node.Status = status
		if err := c.api.Status().Update(ctx, node); err != nil {
			return nil, err
		}
	}
	return c, c.startProxy(server)
}

// startProxy starts kube-proxy, which ends with the tests.
func (c *cluster) startProxy(server *kubeapiserver.Server) error {
	folder, err := os.MkdirTemp("", "kube-proxy")
	if err != nil {
		return err
	}
	access, err := server.Kubeconfig("kube-proxy", "system:masters")
	if err != nil {
		return err
	}
	settings := filepath.Join(folder, "config.yaml")
	c.log = filepath.Join(folder, "log")
	text := fmt.Sprintf(proxyConfig, ownNode, access, podNetworks)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		return err
	}
	log, err := os.Create(c.log)
	if err != nil {
		return err
	}
	defer log.Close()
	c.proxy = exec.Command(server.Programs.Bin("kube-proxy"), "--config", settings)
	c.proxy.Stdout, c.proxy.Stderr = log, log
	c.proxy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.proxy.Start(); err != nil {
		return fmt.Errorf("start kube-proxy: %w", err)
	}
	stop := c.stop
	c.stop = func() error {
		_ = c.proxy.Process.Kill()
		_ = c.proxy.Wait()
		return stop()
	}
	return nil
}

// furnish gives the test's network namespace the node's addresses and a default route, which the API server needs, too. Connections
// must not take the ports of health checks, because kube-proxy tries to listen only once.
func furnish() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 60999"), 0o600); err != nil {
		return err
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "wire0"}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	for _, address := range ownAddresses {
		network := &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(address.BitLen(), address.BitLen())}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: network, Flags: unix.IFA_F_NODAD}); err != nil {
			return err
		}
	}
	peer, err := netlink.LinkByName(link.PeerName)
	if err != nil {
		return err
	}
	everything := &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
	return errors.Join(netlink.LinkSetUp(peer), netlink.LinkSetUp(link),
		netlink.RouteAdd(&netlink.Route{LinkIndex: link.Index, Dst: everything, Scope: netlink.SCOPE_LINK}))
}

// patience bounds how long kube-proxy may take to follow the API server.
const patience = time.Minute

const (
	serviceNetworks = "10.96.0.0/16,fd00:10:96::/112"
	podNetworks     = "10.244.0.0/16,fd00:10:244::/48"
	ownNode         = "n1"
)

// ownAddresses are the addresses of node n1. It has two of IPv4.
var ownAddresses = []netip.Addr{netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8::11"), netip.MustParseAddr("192.0.2.12")}
