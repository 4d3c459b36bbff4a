package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/acllog"
	"github.com/weft-network/weft/pkg/member"
)

// The run directories of OVN and Open vSwitch, which the host's containers share.
const (
	OVNRun = member.Run
	OVSRun = "/run/openvswitch"
)

// TLSDir is where Secrets with key pairs are mounted.
const TLSDir = "/etc/weft/tls"

// The key pair of a chassis is one file, which is replaced as a whole (client-go's certificate store).
const (
	IdentityDir  = "/run/weft/identity"
	IdentityPair = "chassis"
)

// Debian's places.
const (
	ovnSchemas = "/usr/share/ovn"
	ovsSchemas = "/usr/share/openvswitch"
)

// The container runtime keeps what daemons print.
var logging = []string{"-vconsole:info", "-vsyslog:off", "-vfile:off"}

// Program is what a container becomes.
type Program struct {
	// Dirs are made first.
	Dirs []string
	// Files are written then; path -> content.
	Files map[string]string
	// Database is made, or converted, then; nil: none.
	Database *Database
	// Await are files that others write; the program starts when all are there.
	Await []string
	// Argv is the program and its arguments.
	Argv []string
}

// TLS are the files of a key pair and of the authorities whose certificates are accepted.
type TLS struct{ PrivateKey, Certificate, CACert string }

// TLSIn are the files of a folder with the keys of a Secret of type kubernetes.io/tls.
func TLSIn(dir string) TLS {
	return TLS{PrivateKey: filepath.Join(dir, "tls.key"), Certificate: filepath.Join(dir, "tls.crt"), CACert: filepath.Join(dir, "ca.crt")}
}

// ChassisTLS is the key pair that "weft-ovn identity" keeps, and a file of the authorities.
func ChassisTLS(identityDir, caCert string) TLS {
	pair := filepath.Join(identityDir, IdentityPair+"-current.pem")
	return TLS{PrivateKey: pair, Certificate: pair, CACert: caCert}
}

func (t TLS) files() []string { return []string{t.PrivateKey, t.Certificate, t.CACert} }

func (t TLS) flags() []string {
	return []string{"--private-key=" + t.PrivateKey, "--certificate=" + t.Certificate, "--ca-cert=" + t.CACert}
}

// Northbound and Southbound are OVN's database servers; data is the folder of the database's file.
func Northbound(data string, tls TLS) (Program, error) {
	return server("nb", data, tls, listeners{"pssl:6641:[::]": {}})
}

// Southbound has a listener with OVN's role for ovn-controllers, and one for agents, which lets nobody write.
func Southbound(data string, tls TLS) (Program, error) {
	return server("sb", data, tls, listeners{"pssl:6642:[::]": {Role: "ovn-controller"}, "pssl:16642:[::]": {ReadOnly: true}})
}

// InCluster makes a database server's program that of a member.
func InCluster(p Program, name, data string) Program {
	d := *p.Database
	d.Member = &Member{Key: name, Name: member.Databases[name], Orders: member.OrderFile(data), Run: OVNRun}
	p.Database = &d
	return p
}

// server is ovsdb-server with one of OVN's databases. What it is told comes by a file: for remotes on its command line it needs a writable /tmp. Names of files are those of Debian's units and of ovn-ctl.
func server(name, data string, tls TLS, remotes listeners) (Program, error) {
	run, file := filepath.Join(OVNRun, "ovn"+name+"_db"), filepath.Join(data, "ovn"+name+"_db.db")
	remotes["punix:"+run+".sock"] = listener{}
	config, err := configFile(file, remotes)
	if err != nil {
		return Program{}, err
	}
	argv := slices.Concat([]string{"ovsdb-server"}, logging, []string{
		"--config-file=" + run + ".json", "--unixctl=" + run + ".ctl", "--pidfile=" + run + ".pid"}, tls.flags())
	return Program{
		Dirs: []string{OVNRun, data}, Files: map[string]string{run + ".json": config},
		Database: &Database{File: file, Schema: filepath.Join(ovnSchemas, "ovn-"+name+".ovsschema")},
		Await:    tls.files(), Argv: argv,
	}, nil
}

// Northd reaches both databases by their sockets, which nobody but this host's root can open: their listeners on the network limit who writes.
func Northd() Program {
	return Program{Dirs: []string{OVNRun}, Argv: slices.Concat([]string{"ovn-northd"}, logging, []string{
		"--ovnnb-db=unix:" + OVNRun + "/ovnnb_db.sock", "--ovnsb-db=unix:" + OVNRun + "/ovnsb_db.sock",
		"--pidfile=" + OVNRun + "/ovn-northd.pid"})}
}

// ClusterNorthd reaches all members of both databases by their hosts' sockets. It works with those that lead; who works of all ovn-northds their lock says.
func ClusterNorthd() Program {
	remotes := func(database string) string {
		var all []string
		for slot := range member.Slots {
			all = append(all, "unix:"+member.Client(OVNRun, slot, database))
		}
		return strings.Join(all, ",")
	}
	return Program{Dirs: []string{OVNRun}, Argv: slices.Concat([]string{"ovn-northd"}, logging, []string{
		"--ovnnb-db=" + remotes("nb"), "--ovnsb-db=" + remotes("sb"), "--pidfile=" + OVNRun + "/ovn-northd.pid"})}
}

// SwitchDatabase is Open vSwitch's ovsdb-server. Its file lives as long as the host runs: all of it is made from Kubernetes, and ports of
// pods that a reboot has ended are nobody's.
func SwitchDatabase(datapath string) (Program, error) {
	file, configured := OVSRun+"/conf.db", OVSRun+"/ovsdb-server.json"
	config, err := configFile(file, listeners{"punix:" + OVSRun + "/db.sock": {}})
	if err != nil {
		return Program{}, err
	}
	return Program{
		Dirs: []string{OVSRun}, Files: map[string]string{configured: config},
		Database: &Database{File: file, Schema: filepath.Join(ovsSchemas, "vswitch.ovsschema"),
			// ovn-controller makes br-int at once: of the wrong type it would have to make it again.
			Insert: `["Open_vSwitch",{"op":"insert","table":"Open_vSwitch","row":{"external_ids":["map",[["ovn-bridge-datapath-type","` + datapath + `"]]]}}]`},
		Argv: slices.Concat([]string{"ovsdb-server"}, logging, []string{"--config-file=" + configured, "--pidfile=" + OVSRun + "/ovsdb-server.pid"}),
	}, nil
}

// Switch is ovs-vswitchd, which waits for its database by itself.
func Switch() Program {
	return Program{Dirs: []string{OVSRun}, Argv: slices.Concat([]string{"ovs-vswitchd"}, logging, []string{"unix:" + OVSRun + "/db.sock", "--pidfile=" + OVSRun + "/ovs-vswitchd.pid"})}
}

// Controller is ovn-controller with the key pair of its chassis, which reads everything else from the switch's database. What ACLs decide it writes to
// a file, for the agent to tell.
func Controller(tls TLS) Program {
	return Program{Dirs: []string{OVNRun}, Await: tls.files(), Argv: slices.Concat([]string{"ovn-controller"}, logging,
		[]string{"-vacl_log:console:off", "-vacl_log:file:dbg", "--log-file=" + filepath.Join(OVNRun, acllog.File),
			"unix:" + OVSRun + "/db.sock", "--pidfile=" + OVNRun + "/ovn-controller.pid"}, tls.flags())}
}

// Prepare makes what the program needs, and returns when it may start.
func (p Program) Prepare(ctx context.Context) error {
	for _, dir := range p.Dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for path, content := range p.Files {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	if p.Database != nil {
		if err := p.Database.prepare(ctx); err != nil {
			return fmt.Errorf("database %s: %w", p.Database.File, err)
		}
	}
	return await(ctx, p.Await)
}

// String is the command line.
func (p Program) String() string { return strings.Join(p.Argv, " ") }
