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

// kubeletSysctls are kernel parameters of the whole host that kubelet sets when it starts, with the values that it wants. A
// node sees files of its own there, which hold them already.
func kubeletSysctls() map[string]string {
	return map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0",
		"kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	}
}

// cgroupOf is the group in which kubelet puts a node's pods.
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
		_ = os.Remove(filepath.Dir(dir)) // stays while another lab is in it
	}
	return failed
}

// mayRaiseOOMScore tells whether this process has CAP_SYS_RESOURCE; without it runc cannot give containers the scores
// that kubelet wants.
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
