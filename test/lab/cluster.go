package lab

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/lab/initd"
	"github.com/weft-network/weft/test/lab/state"
	"github.com/weft-network/weft/test/lab/tools"
)

// Options selects a lab.
type Options struct {
	Name   string    // "weft" if empty; prefixes the network namespaces
	Dir    string    // if empty, $WEFT_LAB_DIR or a folder of the tool cache; must not be on an overlay
	Output io.Writer // receives each step and its duration; nil for no output
}

// Cluster is one lab, up or down.
type Cluster struct {
	Name  string
	Dir   string // holds everything of this lab; Down removes it
	Cache tools.Cache

	out io.Writer
}

var nameFormat = regexp.MustCompile(`^[a-z][a-z0-9-]{0,14}$`)

// Open opens a lab, which need not be up.
func Open(o Options) (*Cluster, error) {
	name := cmp.Or(o.Name, "weft")
	if !nameFormat.MatchString(name) {
		return nil, fmt.Errorf("lab name %q: want %s", name, nameFormat)
	}
	cache, err := tools.DefaultCache()
	if err != nil {
		return nil, err
	}
	base, err := filepath.Abs(cmp.Or(o.Dir, os.Getenv("WEFT_LAB_DIR"), filepath.Join(cache.Dir, "lab")))
	if err != nil {
		return nil, err
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	return &Cluster{Name: name, Dir: filepath.Join(base, name), Cache: cache, out: o.Output}, nil
}

// KubeConfig returns the path of the administrator's kubeconfig. Its server is reachable only in the lab's network:
// through Kubectl, or with DialContext as the Dial of a rest.Config.
func (c *Cluster) KubeConfig() string { return filepath.Join(c.pkiDir(), "admin.kubeconfig") }

// Machines lists the machines of a running lab: the control plane, the nodes, the router and the hosts behind it.
func (c *Cluster) Machines() ([]Machine, error) {
	s, err := c.loadState()
	if err != nil {
		return nil, err
	}
	if s.Empty() {
		return nil, fmt.Errorf("lab %s is not up", c.Name)
	}
	return machines(s.Nodes), nil
}

// Nodes lists the nodes of a running lab.
func (c *Cluster) Nodes() ([]Machine, error) {
	all, err := c.Machines()
	if err != nil {
		return nil, err
	}
	return all[1 : len(all)-len(outside())], nil
}

// machines lists all machines in their starting order.
func machines(nodes int) []Machine {
	return slices.Concat([]Machine{ControlPlane()}, nodeMachines(nodes), outside())
}

func nodeMachines(count int) []Machine {
	var nodes []Machine
	for i := range count {
		nodes = append(nodes, Node(i+1))
	}
	return nodes
}

// outside lists the machines that are not part of the cluster.
func outside() []Machine { return append([]Machine{Router()}, hosts()...) }

func (c *Cluster) pkiDir() string                   { return filepath.Join(c.Dir, "pki") }
func (c *Cluster) machineDir(machine string) string { return filepath.Join(c.Dir, machine) }
func (c *Cluster) netns(machine string) string      { return c.Name + "-" + machine }
func (c *Cluster) netnsPath(machine string) string  { return "/run/netns/" + c.netns(machine) }
func (c *Cluster) loadState() (*state.State, error) {
	return state.Load(filepath.Join(c.Dir, "state.json"))
}
func (c *Cluster) controlSocket(machine string) string {
	return filepath.Join(c.machineDir(machine), "control")
}

// LogFile returns the path of the log of a machine's daemon.
func (c *Cluster) LogFile(machine, daemon string) string {
	return filepath.Join(c.machineDir(machine), "log", daemon+".log")
}

// Init connects to a machine's init process, to signal, stop and start its daemons.
func (c *Cluster) Init(machine string) (*initd.Client, error) {
	return initd.Dial(c.controlSocket(machine))
}

// lock excludes a second Up or Down of the same lab. The lock file is beside the folder, which Down removes. The
// lock ends with the process.
func (c *Cluster) lock() (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(c.Dir), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(c.Dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("lab %s: another process brings it up or down (%s: %w)", c.Name, file.Name(), err)
	}
	return func() { file.Close() }, nil
}

// hidden are folders that each machine has for itself, so that the lab's files must not be in them.
var hidden = []string{"/run", "/etc", "/var", "/opt", "/proc", "/sys", "/dev"}

// checkHost reports early what would otherwise fail late.
func (c *Cluster) checkHost() error {
	if os.Geteuid() != 0 {
		return errors.New("the lab needs root: namespaces, mounts, control groups")
	}
	for _, dir := range []string{c.Dir, c.Cache.Dir} {
		if slices.ContainsFunc(hidden, func(h string) bool { return strings.HasPrefix(dir, h+"/") }) {
			return fmt.Errorf("%s: nodes have their own %s; set WEFT_LAB_DIR and WEFT_CACHE to other folders", dir,
				strings.Join(hidden, ", "))
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("the userspace datapath needs tap devices: %w", err)
	}
	return checkFilesystem(filepath.Dir(c.Dir))
}

func checkFilesystem(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return fmt.Errorf("%s is on an overlay, where containerd cannot stack another: set WEFT_LAB_DIR", dir)
	}
	return nil
}
