package lab

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"

	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/test/lab/initd"
)

// controlPlaneSpec describes the machine with Kubernetes' control plane and, unless the lab is bare, OVN's.
func (c *Cluster) controlPlaneSpec(bare bool) initd.Spec {
	spec := c.baseSpec(ControlPlane())
	if !bare {
		for _, db := range databases() {
			spec.Files = append(spec.Files, initd.File{Path: databaseConfig(db.name), Content: c.databaseConfig(db)})
			spec.Steps = append(spec.Steps, c.databaseSteps(db)...)
		}
		spec.Steps = append(spec.Steps, c.northd())
	}
	spec.Steps = append(spec.Steps, c.etcd(), c.apiServer(), c.controllerManager(), c.scheduler())
	return spec
}

// appletDir is last on a machine's search path. It provides ping, wget, nc and others if the host lacks them.
const appletDir = "/opt/busybox"

// baseSpec returns the parts that all machines share.
func (c *Cluster) baseSpec(m Machine) initd.Spec {
	dir := c.machineDir(m.Name)
	return initd.Spec{
		Hostname: m.Name,
		Scratch:  filepath.Join(dir, "scratch"),
		Files: []initd.File{
			{Path: "/etc/hostname", Content: m.Name + "\n"},
			{Path: "/etc/hosts", Content: "127.0.0.1 localhost\n::1 localhost\n" + m.IPv4.Addr().String() + " " + m.Name + "\n"},
			// No server is configured, so that a registry lookup fails immediately and not after 40 s.
			{Path: "/etc/resolv.conf", Content: "nameserver 127.0.0.1\n"},
		},
		Steps: []initd.Step{
			{Name: "busybox", Argv: []string{c.Cache.BusyBox(), "mkdir", "-p", appletDir}},
			{Name: "busybox", Argv: []string{c.Cache.BusyBox(), "--install", "-s", appletDir}},
		},
		Env:     c.environment(),
		LogDir:  filepath.Join(dir, "log"),
		Control: c.controlSocket(m.Name),
	}
}

// database is one of OVN's two databases.
type database struct {
	name, schema, ca string
	listeners        map[string]map[string]any // target -> options
}

// databases describes both databases. Clients over the network must show a certificate of the database's authority.
// OVN's role limits what ovn-controller may write to its own chassis. The agents, which only read, get a read-only
// listener. The inactivity probe is long because a busy machine may delay a client for longer than the default 5 s.
func databases() []database {
	probe := func(more ...any) map[string]any {
		options := map[string]any{"inactivity-probe": 60000}
		for i := 0; i < len(more); i += 2 {
			options[more[i].(string)] = more[i+1]
		}
		return options
	}
	listener := func(port int) string { return fmt.Sprintf("pssl:%d:[::]", port) }
	return []database{
		{"nb", "ovn-nb", northboundCA, map[string]map[string]any{listener(ports.Northbound): probe()}},
		{"sb", "ovn-sb", southboundCA, map[string]map[string]any{
			listener(ports.Southbound):       probe("role", "ovn-controller"),
			listener(ports.SouthboundReader): probe("read-only", true)}},
	}
}

func databaseConfig(name string) string { return "/etc/weft-lab/" + name + ".json" }

// databaseConfig returns the content for ovsdb-server's --config-file.
func (c *Cluster) databaseConfig(db database) string {
	remotes := maps.Clone(db.listeners)
	remotes["punix:/run/ovn/ovn"+db.name+"_db.sock"] = map[string]any{}
	text, err := json.Marshal(map[string]any{"remotes": remotes, "databases": map[string]any{c.database(db.name): map[string]any{}}})
	if err != nil {
		panic(err) // cannot fail for strings and numbers
	}
	return string(text)
}

func (c *Cluster) database(name string) string { return filepath.Join(c.machineDir("cp"), name+".db") }

func (c *Cluster) databaseSteps(db database) []initd.Step {
	name, run := db.name, "/run/ovn/ovn"+db.name
	server := []string{c.Cache.OVN("ovsdb-server"), logToConsole, noSyslog,
		"--config-file=" + databaseConfig(name), "--unixctl=" + run + "_db.ctl", "--pidfile=" + run + "_db.pid"}
	return []initd.Step{
		{Name: name + "-create", Argv: []string{c.Cache.OVN("ovsdb-tool"), "create", c.database(name), c.Cache.Schema(db.schema)},
			Unless: c.database(name)},
		{Name: name, Daemon: true, Ready: "unix:" + run + "_db.sock", Argv: append(server, c.tlsFlags("ovn-"+name, db.ca)...)},
		{Name: name + "-init", Argv: []string{c.Cache.OVN("ovn-" + name + "ctl"), "init"}},
	}
}

// Flags that make daemons print their log, which the init process keeps.
const (
	logToConsole = "-vconsole:info"
	noSyslog     = "-vsyslog:off"
)

func (c *Cluster) northd() initd.Step {
	return initd.Step{Name: "northd", Daemon: true, Argv: []string{c.Cache.OVN("ovn-northd"), logToConsole, noSyslog,
		"--ovnnb-db=unix:/run/ovn/ovnnb_db.sock", "--ovnsb-db=unix:/run/ovn/ovnsb_db.sock",
		"--pidfile=/run/ovn/ovn-northd.pid"}}
}

func (c *Cluster) etcd() initd.Step {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return initd.Step{Name: "etcd", Daemon: true, Ready: "tcp:127.0.0.1:2379", Argv: []string{c.Cache.Bin("etcd"),
		"--data-dir", filepath.Join(c.machineDir("cp"), "etcd"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
		"--unsafe-no-fsync", "--log-level", "warn",
	}}
}

func (c *Cluster) apiServer() initd.Step {
	pki := func(file string) string { return filepath.Join(c.pkiDir(), file) }
	return initd.Step{Name: "kube-apiserver", Daemon: true, Ready: "https://" + APIServer + "/readyz",
		Argv: []string{c.Cache.Bin("kube-apiserver"),
			"--etcd-servers=http://127.0.0.1:2379",
			"--secure-port=6443", "--bind-address=::", "--advertise-address=" + ControlPlane().IPv4.Addr().String(),
			"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"),
			"--client-ca-file=" + pki("ca.crt"),
			"--service-account-key-file=" + pki("service-accounts.crt"),
			"--service-account-signing-key-file=" + pki("service-accounts.key"),
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--service-cluster-ip-range=" + ServiceCIDRs, "--allow-privileged=true",
			"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User",
			"--proxy-client-cert-file=" + pki("front-proxy-client.crt"), "--proxy-client-key-file=" + pki("front-proxy-client.key"),
			"--enable-aggregator-routing=true",
			"--kubelet-client-certificate=" + pki("apiserver-kubelet-client.crt"),
			"--kubelet-client-key=" + pki("apiserver-kubelet-client.key"),
			"--kubelet-certificate-authority=" + pki("ca.crt"),
			"--kubelet-preferred-address-types=InternalIP,Hostname",
		}}
}

// These limits replace the default of 20 requests a second, with which the controller manager takes 5 s to start and
// churn tests are slow.
const (
	fastClient = "--kube-api-qps=200"
	fastBurst  = "--kube-api-burst=400"
)

func (c *Cluster) controllerManager() initd.Step {
	config := filepath.Join(c.pkiDir(), "kube-controller-manager.kubeconfig")
	return initd.Step{Name: "kube-controller-manager", Daemon: true, Argv: []string{
		c.Cache.Bin("kube-controller-manager"),
		"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--bind-address=127.0.0.1", "--leader-elect=false", fastClient, fastBurst,
		"--allocate-node-cidrs=false", // the product gives each node its subnets
		"--cluster-cidr=" + ClusterCIDRs, "--service-cluster-ip-range=" + ServiceCIDRs,
		"--root-ca-file=" + filepath.Join(c.pkiDir(), "ca.crt"),
		"--cluster-signing-cert-file=" + filepath.Join(c.pkiDir(), "ca.crt"),
		"--cluster-signing-key-file=" + filepath.Join(c.pkiDir(), "ca.key"),
		"--service-account-private-key-file=" + filepath.Join(c.pkiDir(), "service-accounts.key"),
		"--use-service-account-credentials=true",
	}}
}

func (c *Cluster) scheduler() initd.Step {
	config := filepath.Join(c.pkiDir(), "kube-scheduler.kubeconfig")
	return initd.Step{Name: "kube-scheduler", Daemon: true, Argv: []string{c.Cache.Bin("kube-scheduler"),
		"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--bind-address=127.0.0.1", "--leader-elect=false", fastClient, fastBurst,
	}}
}
