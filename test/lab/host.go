package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weft-network/weft/test/lab/cgroup"
	"github.com/weft-network/weft/test/lab/state"
)

// kubeletSysctls are kernel parameters of the whole host that kubelet sets at its start, with kubelet's values. A
// node sees its own files there, which already hold these values.
func kubeletSysctls() map[string]string {
	return map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0",
		"kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	}
}

// cgroupOf returns the group in which kubelet puts a node's pods.
func (c *Cluster) cgroupOf(machine string) string {
	return filepath.Join("/weft-lab", c.Name, machine)
}

func (c *Cluster) makeCgroups(s *state.State, nodes []Machine) error {
	all, err := cgroup.Hierarchies()
	if err != nil {
		return err
	}
	if err := s.AddCgroups(cgroup.Dirs(all, filepath.Join("/weft-lab", c.Name))); err != nil {
		return err
	}
	for _, n := range nodes {
		if err := cgroup.Make(all, c.cgroupOf(n.Name)); err != nil {
			return err
		}
	}
	return nil
}

func removeCgroups(dirs []string) error {
	var failed error
	for _, dir := range dirs {
		failed = errors.Join(failed, cgroup.Remove(dir, 10*time.Second))
		_ = os.Remove(filepath.Dir(dir)) // fails while another lab uses it
	}
	return failed
}

// mayRaiseOOMScore reports whether this process has CAP_SYS_RESOURCE. Without it runc cannot give containers the OOM
// scores that kubelet requests.
func mayRaiseOOMScore() bool {
	const capSysResource = 24 // linux/capability.h
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(status), "CapEff:")
	var effective uint64
	if _, err := fmt.Sscanf(after, "%x", &effective); err != nil {
		return false
	}
	return effective&(1<<capSysResource) != 0
}
