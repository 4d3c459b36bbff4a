package launch

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/acllog"
	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/ports"
)

// The run directories of OVN and Open vSwitch, which all containers of the host share.
const (
	OVNRun = member.Run
	OVSRun = "/run/openvswitch"
)

// TLSDir is where the Secrets with key pairs are mounted.
const TLSDir = "/etc/weft/tls"

// The key pair of a chassis is a single file, which client-go's certificate store replaces atomically.
const (
	IdentityDir  = "/run/weft/identity"
	IdentityPair = "chassis"
)

// The folders of schemas in Debian's packages.
const (
	ovnSchemas = "/usr/share/ovn"
	ovsSchemas = "/usr/share/openvswitch"
)

// LogLevel is the environment variable with the lowest severity of the messages to write, as of package logging.
const LogLevel = "WEFT_LOG_LEVEL"

// severities are Open vSwitch's words by the values of LogLevel in lower case.
var severities = map[string]string{"error": "err", "warning": "warn", "info": "info", "debug": "dbg"}

// logLevel returns the value of LogLevel in lower case.
func logLevel() string { return strings.ToLower(os.Getenv(LogLevel)) }

// logging returns the arguments by which daemons log to standard error only, because the container runtime keeps it.
func logging() []string {
	severity := cmp.Or(severities[logLevel()], "info")
	return []string{"-vconsole:" + severity, "-vsyslog:off", "-vfile:off"}
}

// Program is what a container of OVN or Open vSwitch runs. Its fields are in the order of Prepare.
type Program struct {
	// Dirs are created first.
	Dirs []string
	// Files are written next; it maps paths to contents.
	Files map[string]string
	// Database is then created or converted. It may be nil.
	Database *Database
	// Await are files that other containers write. The program starts when all exist.
	Await []string
	// Argv is the program and its arguments, and Env is added to this process' environment.
	Argv, Env []string
}

// TLS names the files of a key pair and of the authorities whose certificates are accepted.
type TLS struct{ PrivateKey, Certificate, CACert string }

// TLSIn returns the files of a folder where a Secret of type kubernetes.io/tls is mounted.
func TLSIn(dir string) TLS {
	return TLS{PrivateKey: filepath.Join(dir, "tls.key"), Certificate: filepath.Join(dir, "tls.crt"), CACert: filepath.Join(dir, "ca.crt")}
}

// ChassisTLS returns the key pair that "weft-ovn identity" renews, and the file of the authorities.
func ChassisTLS(identityDir, caCert string) TLS {
	pair := filepath.Join(identityDir, IdentityPair+"-current.pem")
	return TLS{PrivateKey: pair, Certificate: pair, CACert: caCert}
}

func (t TLS) files() []string { return []string{t.PrivateKey, t.Certificate, t.CACert} }

func (t TLS) flags() []string {
	return []string{"--private-key=" + t.PrivateKey, "--certificate=" + t.Certificate, "--ca-cert=" + t.CACert}
}

// Northbound returns the server of OVN's northbound database. data is the folder of the database file.
func Northbound(data string, tls TLS) (Program, error) {
	return server("nb", data, tls, listeners{listenAt(ports.Northbound): {}})
}

// Southbound returns the server of OVN's southbound database. One listener is for ovn-controllers and has OVN's role;
// the other is for agents and is read-only.
func Southbound(data string, tls TLS) (Program, error) {
	return server("sb", data, tls, listeners{
		listenAt(ports.Southbound):       {Role: "ovn-controller"},
		listenAt(ports.SouthboundReader): {ReadOnly: true},
	})
}

// Relay returns a relay of OVN's southbound database, which has the same listeners at ports of its own. source are the
// database's remotes for relays, separated by commas. The relay has its copy in memory only.
func Relay(source string, tls TLS) (Program, error) {
	run := filepath.Join(OVNRun, member.RelayFiles)
	config, err := relayConfig(member.Databases["sb"], source, listeners{
		listenAt(ports.Relay):       {Role: "ovn-controller"},
		listenAt(ports.RelayReader): {ReadOnly: true},
		"punix:" + run + ".sock":    {ReadOnly: true},
	})
	if err != nil {
		return Program{}, err
	}
	return Program{Dirs: []string{OVNRun}, Files: map[string]string{run + ".json": config}, Await: tls.files(),
		Argv: serverArgs(run, tls)}, nil
}

// serverArgs returns the command line of an ovsdb-server whose files have the prefix run.
func serverArgs(run string, tls TLS) []string {
	return slices.Concat([]string{"ovsdb-server"}, logging(), []string{
		"--config-file=" + run + ".json", "--unixctl=" + run + ".ctl", "--pidfile=" + run + ".pid"}, tls.flags())
}

// listenAt returns the OVSDB remote of a TLS port on all addresses of both families.
func listenAt(port int) string { return fmt.Sprintf("pssl:%d:[::]", port) }

// InCluster turns a standalone database server into a member of a cluster.
func InCluster(p Program, name, data string) Program {
	d := *p.Database
	d.Member = &Member{Key: name, Name: member.Databases[name], Orders: member.OrderFile(data), Run: OVNRun}
	p.Database = &d
	return p
}

// server returns ovsdb-server for one of OVN's databases. Remotes are in a file because remotes on the command line
// require a writable /tmp. File names follow Debian's units and ovn-ctl.
func server(name, data string, tls TLS, remotes listeners) (Program, error) {
	run, file := filepath.Join(OVNRun, "ovn"+name+"_db"), filepath.Join(data, "ovn"+name+"_db.db")
	remotes["punix:"+run+".sock"] = listener{}
	config, err := configFile(file, remotes)
	if err != nil {
		return Program{}, err
	}
	return Program{
		Dirs: []string{OVNRun, data}, Files: map[string]string{run + ".json": config},
		Database: &Database{File: file, Schema: filepath.Join(ovnSchemas, "ovn-"+name+".ovsschema")},
		Await:    tls.files(), Argv: serverArgs(run, tls),
	}, nil
}

// Northd returns ovn-northd for standalone databases. It uses the sockets of this host, which only root can open,
// because the listeners on the network restrict writes.
func Northd() Program {
	return Program{Dirs: []string{OVNRun}, Argv: slices.Concat([]string{"ovn-northd"}, logging(), []string{
		"--ovnnb-db=unix:" + OVNRun + "/ovnnb_db.sock", "--ovnsb-db=unix:" + OVNRun + "/ovnsb_db.sock",
		"--pidfile=" + OVNRun + "/ovn-northd.pid"})}
}

// ClusterNorthd returns ovn-northd for clustered databases. It connects to all members through sockets of this host
// and writes to the leaders. A lock in the database selects the active ovn-northd.
func ClusterNorthd() Program {
	remotes := func(database string) string {
		var all []string
		for slot := range member.Slots {
			all = append(all, "unix:"+member.Client(OVNRun, slot, database))
		}
		return strings.Join(all, ",")
	}
	return Program{Dirs: []string{OVNRun}, Argv: slices.Concat([]string{"ovn-northd"}, logging(), []string{
		"--ovnnb-db=" + remotes("nb"), "--ovnsb-db=" + remotes("sb"), "--pidfile=" + OVNRun + "/ovn-northd.pid"})}
}

// SwitchDatabase returns the ovsdb-server of Open vSwitch. Its database does not survive a reboot: Weft rebuilds all
// of it from Kubernetes, and a reboot ends the pods whose ports it held.
func SwitchDatabase(datapath string) (Program, error) {
	file, configured := OVSRun+"/conf.db", OVSRun+"/ovsdb-server.json"
	config, err := configFile(file, listeners{"punix:" + OVSRun + "/db.sock": {}})
	if err != nil {
		return Program{}, err
	}
	return Program{
		Dirs: []string{OVSRun}, Files: map[string]string{configured: config},
		Database: &Database{File: file, Schema: filepath.Join(ovsSchemas, "vswitch.ovsschema"),
			// ovn-controller creates br-int as soon as it starts. Were the type set later, it would have to recreate
			// the bridge.
			Insert: `["Open_vSwitch",{"op":"insert","table":"Open_vSwitch","row":{"external_ids":["map",` +
				`[["ovn-bridge-datapath-type","` + datapath + `"]]]}}]`},
		Argv: slices.Concat([]string{"ovsdb-server"}, logging(),
			[]string{"--config-file=" + configured, "--pidfile=" + OVSRun + "/ovsdb-server.pid"}),
	}, nil
}

// Switch returns ovs-vswitchd, which itself waits for its database.
func Switch() Program {
	return Program{Dirs: []string{OVSRun}, Argv: slices.Concat([]string{"ovs-vswitchd"}, logging(),
		[]string{"unix:" + OVSRun + "/db.sock", "--pidfile=" + OVSRun + "/ovs-vswitchd.pid"})}
}

// Controller returns ovn-controller with the key pair of its chassis. It reads all other settings from the switch's
// database. It logs ACL decisions to a file, from which the agent reports them.
func Controller(tls TLS) Program {
	return Program{Dirs: []string{OVNRun}, Await: tls.files(), Argv: slices.Concat([]string{"ovn-controller"}, logging(),
		[]string{"-vacl_log:console:off", "-vacl_log:file:dbg", "--log-file=" + filepath.Join(OVNRun, acllog.File),
			"unix:" + OVSRun + "/db.sock", "--pidfile=" + OVNRun + "/ovn-controller.pid"}, tls.flags())}
}

// Prepare creates what the program needs and returns when the program may start.
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

// String returns the command line.
func (p Program) String() string { return strings.Join(p.Argv, " ") }
